//! What types alone cannot refuse: the texts of each format, and keys of one document that contradict each other.

use std::collections::{HashMap, HashSet};

use pinfold_core::control::Control;
use pinfold_core::destination::Destination;
use pinfold_core::glob::Glob;
use pinfold_core::host::Host;
use pinfold_core::plan::{BackendChoice, IsolationLevel};
use pinfold_core::zone::ZoneName;

use super::{
    Document, EnvName, EnvValue, Extends, HeaderName, KEYS, NetEntry, PolicyPath, SeccompChoice, ZoneMode,
};
use crate::problem::{Code, MOST, Problem, Span, nearest};
use crate::yaml::{Node, Value};

/// Says why a text is not of a format.
type Check = fn(&str) -> Result<(), String>;

fn parses<T: std::str::FromStr>(text: &str) -> Result<(), String>
where
    T::Err: std::fmt::Display,
{
    text.parse::<T>().map(drop).map_err(|error| error.to_string())
}

/// The texts that a schema names by format, and the type that reads each.
pub(crate) const FORMATS: &[(&str, Check)] = &[
    ("pinfold-destination", parses::<Destination>),
    ("pinfold-env-name", parses::<EnvName>),
    ("pinfold-env-value", parses::<EnvValue>),
    ("pinfold-glob", parses::<Glob>),
    ("pinfold-header", parses::<HeaderName>),
    ("pinfold-host", parses::<Host>),
    ("pinfold-net-entry", parses::<NetEntry>),
    ("pinfold-path", parses::<PolicyPath>),
    ("pinfold-seccomp", parses::<SeccompChoice>),
    ("pinfold-words", |text| {
        if text.trim().is_empty() { Err("a rule needs words to match".into()) } else { Ok(()) }
    }),
    ("pinfold-zone-name", parses::<ZoneName>),
];

/// How many characters the braces of a document may stand for, all together. A pattern is kept with its braces
/// expanded, so that without a bound a small document could take gigabytes.
const MAX_EXPANDED: usize = 4 << 20;

/// Where a document exceeds what its braces may stand for. Counts more than there is: every text with a brace is
/// taken for a pattern, and every comma in it for another pair of alternatives, up to the most that a pattern has.
pub(crate) fn overgrown(node: &Node) -> Option<Span> {
    fn walk(node: &Node, left: &mut usize) -> Option<Span> {
        match &node.value {
            Value::Text(text) if text.contains('{') => {
                let commas = text.bytes().filter(|byte| *byte == b',').count();
                match left.checked_sub(text.len() << commas.min(6)) {
                    Some(rest) => *left = rest,
                    None => return Some(node.span),
                }
                None
            }
            Value::List(items) => items.iter().find_map(|item| walk(item, left)),
            Value::Map(entries) => entries.iter().find_map(|entry| walk(&entry.node, left)),
            _ => None,
        }
    }
    let mut left = MAX_EXPANDED;
    walk(node, &mut left)
}

/// A problem and the key it is about.
pub(crate) type Finding = (String, Problem);

impl Document {
    /// Everything in this document that cannot be meant.
    pub(crate) fn contradictions(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        self.head(&mut found);
        self.zones(&mut found);
        self.network(&mut found);
        self.files(&mut found);
        self.rest(&mut found);
        found.truncate(MOST);
        found
    }

    fn head(&self, found: &mut Vec<Finding>) {
        if self.version.is_some_and(|version| version != 1) {
            found.push(bad("version", "this version of the format is unknown", "write version: 1"));
        }
        if let Some(Err(why)) = self.extends.as_deref().map(str::parse::<Extends>) {
            found.push(("extends".to_owned(), Problem::new(Code::Extends, why)));
        }
        for (i, lock) in self.lock.iter().enumerate() {
            if found.len() >= MOST {
                break;
            }
            let sections = KEYS.iter().map(|key| key.split('.').next().unwrap_or(key));
            let mut known = KEYS.iter().copied().chain(sections.clone());
            let control =
                lock.strip_prefix("requirements.").is_some_and(|name| name.parse::<Control>().is_ok());
            if !control && !known.any(|key| key == lock) {
                let problem = Problem::new(Code::BadValue, format!("`{lock}` is no section or key"));
                let near = nearest(lock, KEYS.iter().copied().chain(sections));
                let hint = near.map_or(
                    "write a section such as net, or a key such as proc.maxMemoryMB".into(),
                    |near| format!("did you mean `{near}`?"),
                );
                found.push((format!("lock[{i}]"), problem.hint(hint)));
            }
        }
    }

    fn zones(&self, found: &mut Vec<Finding>) {
        let zones = self.sandbox.iter().flat_map(|sandbox| sandbox.zones.iter().flatten());
        let mut names: HashMap<String, &ZoneName> = HashMap::new();
        for (i, zone) in zones.enumerate() {
            let key = format!("sandbox.zones[{i}]");
            match names.insert(zone.name.env_name(), &zone.name) {
                Some(other) if *other == zone.name => {
                    let message = format!("zone `{other}` is given twice");
                    found.push(contradiction(&key, &message, "keep one of them"));
                }
                Some(other) => {
                    let variable = zone.name.env_name();
                    let message =
                        format!("zones `{other}` and `{}` share the variable {variable}", zone.name);
                    found.push(contradiction(&key, &message, "rename one of them"));
                }
                None => {}
            }
            match (zone.mode, &zone.host_path, zone.size_mb) {
                (ZoneMode::Tmpfs, Some(_), _) => {
                    let hint = "remove hostPath, or use mode ro or rw";
                    found.push(contradiction(&key, "a tmpfs zone shows no host path", hint));
                }
                (ZoneMode::Ro | ZoneMode::Rw, None, _) => {
                    found.push(contradiction(
                        &key,
                        "this zone shows nothing",
                        "add hostPath, or use mode tmpfs",
                    ));
                }
                (ZoneMode::Ro | ZoneMode::Rw, _, Some(_)) => {
                    let hint = "remove sizeMB; proc.maxDiskMB bounds what is written";
                    found.push(contradiction(&key, "only a tmpfs zone has a size", hint));
                }
                _ => {}
            }
        }
    }

    fn network(&self, found: &mut Vec<Finding>) {
        let Some(net) = &self.net else { return };
        let allow = net.allowlist.as_deref().unwrap_or_default();
        if net.enabled == Some(false) && !(allow.is_empty() && net.rules.as_ref().is_none_or(Vec::is_empty)) {
            let hint = "write enabled: true, or remove the list";
            found.push(contradiction(
                "net.enabled",
                "destinations are listed, and the network is switched off",
                hint,
            ));
        }
        let allowed: HashSet<&Destination> = allow
            .iter()
            .filter_map(|entry| match entry {
                NetEntry::Destination(destination) => Some(destination),
                NetEntry::Registries => None,
            })
            .collect();
        for (i, blocked) in net.blocklist.iter().flatten().enumerate() {
            if allowed.contains(blocked) {
                let message = format!("`{blocked}` is both allowed and blocked");
                found.push(contradiction(
                    &format!("net.blocklist[{i}]"),
                    &message,
                    "blocking wins; remove one",
                ));
            }
        }
        for (i, rule) in net.rules.iter().flatten().enumerate() {
            for (at, path) in rule.paths.iter().enumerate().filter(|(_, path)| !path.is_absolute()) {
                let message = format!("`{path}` matches no request: its path begins with a slash");
                let hint = format!("write /{}", path.as_str().trim_start_matches("~/"));
                found.push(bad(&format!("net.rules[{i}].paths[{at}]"), &message, &hint));
            }
            let Some(credential) = &rule.credential else { continue };
            let key = format!("net.rules[{i}].credential");
            if credential.header.is_some() == credential.basic.is_some() {
                found.push(contradiction(
                    &key,
                    "a credential goes to one place",
                    "give either header or basic",
                ));
            }
            if credential.from_env.is_some() == credential.from_file.is_some() {
                let hint = "give either fromEnv or fromFile";
                found.push(contradiction(&key, "a credential comes from one place", hint));
            }
        }
    }

    fn files(&self, found: &mut Vec<Finding>) {
        for (i, glob) in self.fs.iter().flat_map(|fs| fs.protect.iter().flatten()).enumerate() {
            if glob.is_absolute() || glob.is_home() {
                let message = format!("`{glob}` is not in the workspace, where files are protected");
                let hint = "write it from the workspace's root, or use fs.deny";
                found.push(bad(&format!("fs.protect[{i}]"), &message, hint));
            }
        }
        let Some(sandbox) = &self.sandbox else { return };
        for (key, text) in [("sandbox.image", &sandbox.image), ("sandbox.runtime", &sandbox.runtime)] {
            let odd = |c: char| c.is_whitespace() || pinfold_core::text::is_hidden(c);
            if let Some(text) = text
                && (text.starts_with('-') || text.contains(odd))
            {
                found.push(bad(
                    key,
                    &format!("`{text}` is no name"),
                    "a name has no spaces and begins with no `-`",
                ));
            }
        }
    }

    fn rest(&self, found: &mut Vec<Finding>) {
        if let Some(sandbox) = &self.sandbox
            && let (Some(level), Some(BackendChoice::Named(backend))) =
                (sandbox.isolation_level, sandbox.backend)
            && !backend.level().satisfies(level)
            && level != IsolationLevel::None
        {
            let message = format!("backend `{backend}` gives no isolation of level `{level}`");
            let hint = format!("it gives `{}`", backend.level());
            found.push(contradiction("sandbox.backend", &message, &hint));
        }
        if let Some(security) = &self.security
            && security.user_id == Some(0)
            && security.run_as_non_root != Some(false)
        {
            let hint = "use another id; 65534 is nobody";
            found.push(contradiction("security.userId", "user id 0 is root", hint));
        }
        if let Some(env) = &self.env {
            for (i, name) in env.pass.iter().flatten().enumerate() {
                if env.set.as_ref().is_some_and(|set| set.contains_key(name)) {
                    let message = format!("`{name}` is both passed and set");
                    found.push(contradiction(&format!("env.pass[{i}]"), &message, "keep one of them"));
                }
            }
        }
        if let Some(tools) = &self.tools {
            let allowed: HashSet<&String> = tools.allow.iter().flatten().collect();
            for (i, tool) in tools.deny.iter().flatten().enumerate() {
                if allowed.contains(tool) {
                    let message = format!("`{tool}` is both allowed and denied");
                    found.push(contradiction(
                        &format!("tools.deny[{i}]"),
                        &message,
                        "denying wins; remove one",
                    ));
                }
            }
        }
    }
}

fn bad(key: &str, message: &str, hint: &str) -> Finding {
    (key.to_owned(), Problem::new(Code::BadValue, message).hint(hint))
}

fn contradiction(key: &str, message: &str, hint: &str) -> Finding {
    (key.to_owned(), Problem::new(Code::Contradiction, message).hint(hint))
}
