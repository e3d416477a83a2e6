//! The files of a plan: zones, shown paths, and what is masked among them.

use serde::{Deserialize, Serialize};

use crate::glob::Glob;
use crate::path::AbsPath;
use crate::zone::Access;

/// What of the host's file system is inside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Files {
    /// How much of the host's system directories is shown, read-only.
    pub reads: Reads,
    /// The zones, in the order they are mounted.
    pub zones: Vec<Zone>,
    /// Host paths shown read-only at their own place.
    pub read: Vec<AbsPath>,
    /// Host paths shown writable at their own place.
    pub write: Vec<AbsPath>,
    /// What is masked wherever it would be visible.
    pub deny: Vec<Glob>,
    /// What cannot be changed although its surroundings can.
    pub protect: Protect,
    /// Host paths that hold Pinfold's own state: masked whatever else the plan says.
    pub own: Vec<AbsPath>,
    /// True when nothing outside writable zones may be written, not even in memory.
    pub readonly_root: bool,
}

/// How much of the system directories is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Reads {
    /// `/usr/lib` and the interpreter asked for.
    #[default]
    Minimal,
    /// The directories that programs of the distribution need.
    System,
    /// The same, and the toolchains found in the user's home, never credentials.
    Toolchains,
}

impl std::fmt::Display for Reads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Minimal => "minimal",
            Self::System => "system",
            Self::Toolchains => "toolchains",
        })
    }
}

/// A named place inside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Zone {
    /// `workspace`, `deps`, or the name of a zone.
    pub name: String,
    /// Where it is seen.
    pub inside: AbsPath,
    /// What is seen there.
    #[serde(flatten)]
    pub source: ZoneSource,
}

/// What a zone shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ZoneSource {
    /// A file or directory of the host.
    Host {
        /// Where it is on the host.
        path: AbsPath,
        /// What may be done with it.
        access: Access,
    },
    /// Memory that goes away with the sandbox.
    Tmpfs {
        /// Its size in MB.
        size_mb: u64,
    },
}

impl Zone {
    /// The host path and access, for a zone that shows one.
    pub fn host(&self) -> Option<(&AbsPath, Access)> {
        match &self.source {
            ZoneSource::Host { path, access } => Some((path, *access)),
            ZoneSource::Tmpfs { .. } => None,
        }
    }
}

/// What the host would later execute or obey, by where it lies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Protect {
    /// Names in the workspace's root and the root of each repository in it.
    pub names: Vec<String>,
    /// Names in each git directory.
    pub git: Vec<String>,
    /// What the policy adds, relative to the workspace.
    pub extra: Vec<Glob>,
}
