//! What a front door asks for, before any document is read: a workspace, a policy, and settings on top of it. Preparing
//! it finds the documents in force, plans, and chooses the wall.

use std::path::{Path, PathBuf};

use pinfold_core::path::AbsPath;
use pinfold_core::plan::{Plan, ZoneSource};
use pinfold_policy::options::{OptionValue, PolicyOption};
use pinfold_policy::planner::{self, LimitsMode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::dirs::Dirs;
use crate::failure::Failure;
use crate::select::{self, Chosen};
use crate::sources::{self, Wanted};
use crate::surroundings;

/// A sandbox as it is asked for.
///
/// ```
/// use pinfold_engine::asked::Asked;
///
/// let asked = Asked::new("/srv/project")
///     .profile("dev")
///     .set("proc.maxMemoryMB", 512)
///     .add("fs.deny", "**/*.pem");
/// # assert_eq!(asked.workspace.to_str(), Some("/srv/project"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// The directory that becomes `/workspace`.
    pub workspace: PathBuf,
    /// A policy file, in place of the workspace's own.
    pub policy: Option<PathBuf>,
    /// Settings on top of every document, in the order they were made.
    pub settings: Vec<PolicyOption>,
}

impl Asked {
    /// In this workspace, with the policy that is found there or the default one.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self { workspace: workspace.into(), policy: None, settings: Vec::new() }
    }

    /// With a policy file, in place of the workspace's own.
    #[must_use]
    pub fn policy(mut self, file: impl Into<PathBuf>) -> Self {
        self.policy = Some(file.into());
        self
    }

    /// On top of a profile: `default`, `strict`, `compute`, `dev`, `build` or `test`.
    #[must_use]
    pub fn profile(self, name: &str) -> Self {
        self.set("extends", name)
    }

    /// With one key of a policy set, such as `proc.timeoutMs`. Of several settings of a key the last counts.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.settings.retain(|earlier| earlier.key != key);
        self.option(key, OptionValue::One(value.into()))
    }

    /// With one more item of a key that is a list, such as `fs.allowedReadPaths`.
    #[must_use]
    pub fn add(self, key: &str, item: impl Into<Value>) -> Self {
        self.option(key, OptionValue::Item(item.into()))
    }

    fn option(mut self, key: &str, value: OptionValue) -> Self {
        let shown = match &value {
            OptionValue::One(value) | OptionValue::Item(value) => value.to_string(),
            OptionValue::Text(text) => text.clone(),
        };
        self.settings.push(PolicyOption { typed: format!("{key}: {shown}"), key: key.to_owned(), value });
        self
    }

    /// Reads what is in force and plans a sandbox that stays, for no command in particular.
    pub fn prepare(&self) -> Result<Prepared, Failure> {
        let dirs = Dirs::of_caller()?;
        let workspace = directory(&self.workspace)?;
        let file = self.policy.as_deref().map(canonical).transpose()?;
        let wanted = Wanted { file: file.as_ref(), workspace: &workspace };
        let (_, settled) = sources::settle(&dirs, &wanted, &self.settings, &workspace)?;
        let reads = settled.policy.fs.reads.value;
        let request = surroundings::request(&dirs, reads, workspace.clone(), workspace, Vec::new(), false);
        let plan = planner::plan(&request, &settled, LimitsMode::Policy)?;
        let chosen = select::choose(&plan)?.serving().usable()?;
        Ok(Prepared { dirs, plan, chosen })
    }
}

/// A sandbox that can be made.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Where state is kept.
    pub dirs: Dirs,
    /// What must hold.
    pub plan: Plan,
    /// The wall that holds it.
    pub chosen: Chosen,
}

impl Prepared {
    /// The directory that is `/workspace` inside, if one is.
    pub fn workspace(&self) -> Option<&AbsPath> {
        self.plan.files.zones.iter().find_map(|zone| match &zone.source {
            ZoneSource::Host { path, .. } if zone.name == "workspace" => Some(path),
            _ => None,
        })
    }
}

fn directory(path: &Path) -> Result<AbsPath, Failure> {
    let found = canonical(path)?;
    match found.as_path().is_dir() {
        true => Ok(found),
        false => Err(Failure::new("PF-CLI-003", format!("the workspace {found} is no directory"))),
    }
}

/// A path as the kernel sees it, links resolved.
pub fn canonical(path: &Path) -> Result<AbsPath, Failure> {
    let fail = |why: String| {
        Failure::new("PF-CLI-003", format!("{}: {why}", path.display()))
            .hint("check the spelling, and that it exists")
    };
    let resolved = std::fs::canonicalize(path).map_err(|error| fail(error.to_string()))?;
    AbsPath::new(resolved).map_err(|error| fail(error.to_string()))
}
