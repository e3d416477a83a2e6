//! Layers of policy and how they become one: built-in profile ⊕ machine ⊕ user ⊕ file ⊕ session ⊕ query ⊕ options.
//!
//! A lower layer overrides key by key. It can only narrow what a layer above locked, and a document that was merely
//! found in the workspace can only narrow at all.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use pinfold_core::origin::Origin;
use pinfold_core::path::AbsPath;

use crate::diagnose::diagnose;
use crate::document::{Base, Document, Extends, Merge, Policy, overgrown};
use crate::node;
use crate::problem::{Code, Problem, Problems, Source};
use crate::profile::Profile;
use crate::rule::{Lists, Rule};
use crate::setting::Setting;
use crate::yaml::{self, Node};

/// Where a layer comes from. Ordered: a greater one is lower, and more specific.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayerKind {
    /// The operator's, for every user of the machine.
    Machine,
    /// The user's own.
    User,
    /// A file that the user named.
    File,
    /// A file that was found in the workspace.
    Workspace,
    /// A session's.
    Session,
    /// One query's.
    Query,
    /// Options of one command line.
    Options,
}

impl fmt::Display for LayerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Machine => "machine policy",
            Self::User => "user policy",
            Self::File => "policy file",
            Self::Workspace => "workspace policy",
            Self::Session => "session policy",
            Self::Query => "query policy",
            Self::Options => "options",
        })
    }
}

/// What a layer may do to those above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Override what is not locked.
    Full,
    /// Narrow, never widen.
    NarrowOnly,
}

/// One document in its place.
#[derive(Clone, Debug)]
pub struct Layer {
    kind: LayerKind,
    trust: Trust,
    source: Source,
    document: Document,
    node: Node,
}

/// Reads the file that a document extends.
pub type ReadFile<'a> = &'a dyn Fn(&AbsPath) -> Result<String, String>;

/// How many files may extend each other.
const MAX_CHAIN: usize = 8;

impl Layer {
    /// Reads a document, and the files it extends, as layers: the base first.
    pub fn load(
        kind: LayerKind,
        trust: Trust,
        source: Source,
        base: Base<'_>,
        read_file: ReadFile<'_>,
    ) -> Result<Vec<Self>, Problems> {
        let mut layers = Vec::new();
        let mut next = Some((source, base.directory.clone()));
        let mut seen: Vec<Arc<str>> = Vec::new();
        while let Some((source, directory)) = next.take() {
            let base = Base { directory: &directory, home: base.home };
            let (mut document, node) = read(&source)?;
            document
                .resolve(base)
                .map_err(|(key, why)| Problem::new(Code::BadValue, why).at(&source, node.locate(&key)))?;
            seen.push(source.name.clone());
            if let Some(Ok(Extends::File(file))) = document.extends.as_deref().map(str::parse::<Extends>) {
                let problem =
                    |why: String| Problem::new(Code::Extends, why).at(&source, node.locate("extends"));
                let path = base.resolve(&file).map_err(&problem)?;
                let name: Arc<str> = path.to_string().into();
                if seen.contains(&name) || seen.len() >= MAX_CHAIN {
                    let why =
                        format!("{name} extends itself, or more than {MAX_CHAIN} files extend each other");
                    return Err(problem(why).into());
                }
                let text = read_file(&path).map_err(|why| problem(format!("cannot read {name}: {why}")))?;
                let above = path.parent().unwrap_or_else(AbsPath::root);
                next = Some((Source::new(name, text), above));
            }
            layers.push(Self { kind, trust, source, document, node });
        }
        layers.reverse();
        Ok(layers)
    }

    pub(crate) fn new(kind: LayerKind, trust: Trust, source: Source, document: Document, node: Node) -> Self {
        Self { kind, trust, source, document, node }
    }

    /// Where it comes from.
    pub fn kind(&self) -> LayerKind {
        self.kind
    }

    /// Its text under its name.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The same layer, once its owner trusts exactly this content.
    #[must_use]
    pub fn trusted(self) -> Self {
        Self { trust: Trust::Full, ..self }
    }

    /// Whether it may widen.
    pub fn trust(&self) -> Trust {
        self.trust
    }

    fn origin(&self, key: &str) -> Origin {
        match self.kind {
            LayerKind::Options => {
                let line = self.node.locate(key).line;
                Origin::Option(self.source.text.lines().nth(line - 1).unwrap_or(key).into())
            }
            _ => Origin::Line(self.source.place(self.node.locate(key))),
        }
    }

    fn profile(&self) -> Option<Profile> {
        match self.document.extends.as_deref()?.parse() {
            Ok(Extends::Profile(profile)) => Some(profile),
            _ => None,
        }
    }
}

/// Reads one document, alone. Whether it is valid is decided by its types; what to tell a person, by its schema.
pub(crate) fn read(source: &Source) -> Result<(Document, Node), Problems> {
    read_node(yaml::parse(source)?, source)
}

/// Reads a document that is parsed already.
pub(crate) fn read_node(node: Node, source: &Source) -> Result<(Document, Node), Problems> {
    if let Some(span) = overgrown(&node) {
        let problem = Problem::new(Code::Unreadable, "braces stand for too many patterns by here");
        return Err(problem
            .at(source, span)
            .hint("write fewer alternatives, or fewer patterns with braces")
            .into());
    }
    let document: Document = match node::read(&node, source) {
        Ok(document) => document,
        Err(problem) => {
            let problems = diagnose(&node, source);
            return Err(if problems.is_empty() { problem.into() } else { sorted(problems) });
        }
    };
    let mut problems = Problems::default();
    for (key, problem) in document.contradictions() {
        problems.push(problem.at(source, node.locate(&key)));
    }
    problems.or((document, node))
}

fn sorted(problems: Problems) -> Problems {
    problems.or(()).err().unwrap_or_default()
}

/// Checks one document on its own, without any layer above it.
pub fn check(source: &Source) -> Result<(), Problems> {
    read(source).map(drop)
}

/// One policy out of all layers, with the profile beneath.
pub fn settle(layers: &[Layer]) -> Result<Settled, Problems> {
    let mut state = Settling { policy: Policy::default(), locks: Vec::new(), problems: Problems::default() };
    let mut profile = Profile::Default;
    let mut kept = false;
    state.profile(profile, None)?;
    let mut ordered: Vec<&Layer> = layers.iter().collect();
    ordered.sort_by_key(|layer| layer.kind);
    for layer in ordered {
        if let Some(chosen) = layer.profile() {
            // Who may only narrow cannot give limits back to the estimator by naming a profile that leaves it to it.
            kept = layer.trust == Trust::NarrowOnly && (kept || !profile.may_be_raised());
            profile = chosen;
            state.profile(chosen, Some(layer))?;
        }
        state.layer(layer);
    }
    let locked = state.locks.iter().any(|lock| lock.key == "proc" || lock.key.starts_with("proc."));
    let settled = Settled { policy: state.policy, profile, limits_locked: locked || kept };
    state.problems.or(settled)
}

/// A policy in force, and what it was built on.
#[derive(Clone, Debug)]
pub struct Settled {
    /// Every key with its value and origin.
    pub policy: Policy,
    /// The profile beneath.
    pub profile: Profile,
    /// Whether a layer locked the limits, or they were not to be raised and nobody trusted said otherwise: then no
    /// estimate raises them.
    pub limits_locked: bool,
}

/// A key or section that lower layers may only narrow.
struct Lock {
    key: String,
    by: String,
}

struct Settling {
    policy: Policy,
    locks: Vec<Lock>,
    problems: Problems,
}

impl Settling {
    fn profile(&mut self, profile: Profile, chosen_by: Option<&Layer>) -> Result<(), Problems> {
        let document = profile.document()?;
        let Self { policy, locks, problems } = self;
        let mut under = UnderProfile { profile, chosen_by, locks, refused: Vec::new() };
        if let Some(layer) = chosen_by {
            // What only the profile before asked for goes with it.
            policy.requirements.retain(|control, asked| {
                let kept = document.requirements.as_ref().is_some_and(|new| new.contains_key(control));
                if kept || !asked.origin().is_default() {
                    return true;
                }
                let why = Some(format!("profile {profile} does not ask for it"));
                let key = format!("requirements.{control}");
                let problem = refusal(layer, "extends", &key, why, asked.origin(), locks);
                under.refused.extend(problem.clone().map(|problem| (key, problem)));
                problem.is_some()
            });
        }
        policy.merge(&document, &mut under);
        // One choice, one problem, however many keys it widens.
        if let Some(((_, first), others)) = under.refused.split_first() {
            let mut problem = first.clone();
            if !others.is_empty() {
                let keys: Vec<String> = others.iter().map(|(key, _)| format!("`{key}`")).collect();
                problem.message.push_str(&format!("; and {}", keys.join(", ")));
            }
            problems.push(problem);
        }
        Ok(())
    }

    fn layer(&mut self, layer: &Layer) {
        let Self { policy, locks, problems } = self;
        policy.merge(&layer.document, &mut Over { layer, locks, problems });
        for (i, key) in layer.document.lock.iter().enumerate() {
            let place = layer.source.place(layer.node.locate(&format!("lock[{i}]")));
            self.locks.push(Lock { key: key.clone(), by: format!("{} ({place})", layer.kind) });
        }
    }
}

/// A profile slides beneath what documents have stated: it sets what only a profile has set so far.
struct UnderProfile<'a> {
    profile: Profile,
    chosen_by: Option<&'a Layer>,
    locks: &'a [Lock],
    refused: Vec<(String, Problem)>,
}

impl Merge for UnderProfile<'_> {
    fn merge<T: Clone + PartialEq, R: Rule<T>>(&mut self, key: &str, current: &mut Setting<T>, new: T) {
        let origin = Origin::Profile(self.profile.name().into());
        let value = match current.origin().is_default() {
            true => new,
            false if R::ADDS => R::merge(&new, current.value.clone(), Lists::Extend),
            false => return,
        };
        let Some(layer) = self.chosen_by else { return current.replace(value, origin) };
        let why = R::widens(&current.value, &value).map(|why| format!("{why} in profile {}", self.profile));
        if let Some(problem) = refusal(layer, "extends", key, why, current.origin(), self.locks) {
            return self.refused.push((key.to_owned(), problem));
        }
        match current.origin().is_default() {
            true => current.replace(value, origin),
            false => current.value = value,
        }
    }
}

/// A document goes over what is in force.
struct Over<'a> {
    layer: &'a Layer,
    locks: &'a [Lock],
    problems: &'a mut Problems,
}

impl Merge for Over<'_> {
    fn merge<T: Clone + PartialEq, R: Rule<T>>(&mut self, key: &str, current: &mut Setting<T>, new: T) {
        let lists = match self.layer.kind {
            LayerKind::Options => Lists::Extend,
            _ => Lists::Replace,
        };
        let value = R::merge(&current.value, new.clone(), lists);
        let why = R::widens(&current.value, &value);
        if let Some(problem) = refusal(self.layer, key, key, why, current.origin(), self.locks) {
            return self.problems.push(problem);
        }
        let origin = self.layer.origin(key);
        // Where more holds than this layer says, those above still have a part in it.
        match (R::ADDS && !current.origin().is_default()) || value != new {
            true => current.add(value, new, origin),
            false => current.replace(value, origin),
        }
    }
}

/// The problem, where `layer` may not widen `key` and does, for the reason `why`.
fn refusal(
    layer: &Layer,
    at: &str,
    key: &str,
    why: Option<String>,
    stated_by: &Origin,
    locks: &[Lock],
) -> Option<Problem> {
    let why = why?;
    let lock = locks.iter().find(|lock| key == lock.key || key.starts_with(&format!("{}.", lock.key)));
    let widens = if layer.kind == LayerKind::Options { "widen" } else { "widens" };
    let problem = match (lock, layer.trust) {
        (Some(lock), _) => {
            let message = format!("the {} {widens} `{key}`, which the {} locks: {why}", layer.kind, lock.by);
            Problem::new(Code::Widens, message).hint("narrow it, remove it, or have the lock lifted")
        }
        (None, Trust::NarrowOnly) => {
            let message = format!("the {} {widens} `{key}` beyond {stated_by}: {why}", layer.kind);
            let name = file_name(&layer.source.name);
            Problem::new(Code::Widens, message).hint(format!(
                "a policy found in the workspace may only narrow; if you wrote it: pinfold policy trust {name}"
            ))
        }
        (None, Trust::Full) => return None,
    };
    Some(problem.at(&layer.source, layer.node.locate(at)))
}

fn file_name(name: &str) -> &str {
    Path::new(name).file_name().and_then(|name| name.to_str()).unwrap_or(name)
}
