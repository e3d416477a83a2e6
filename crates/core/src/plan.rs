//! What must hold for one run, as data: made by the planner, answered by a backend's coverage, enforced by
//! its boot. Nothing in a plan says how.

mod files;
mod limits;
mod network;
mod wall;

pub use files::{Files, Protect, Reads, Zone, ZoneSource};
pub use limits::{Limit, Limits, OnOutputLimit};
pub use network::{Allowed, Budget, Credential, CredentialPlacement, CredentialSource, HttpRule, Network};
pub use wall::{BackendChoice, BackendName, Environment, IsolationLevel, Privileges, SeccompProfile, Wall};

use serde::Serialize;

use crate::control::{Control, Requirement};
use crate::origin::Origin;
use crate::path::AbsPath;

/// Everything that must hold while a command runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Which kind of wall is asked for.
    pub wall: Wall,
    /// Where commands start, as seen inside.
    pub directory: AbsPath,
    /// What of the file system is there, and how.
    pub files: Files,
    /// What can be reached.
    pub network: Network,
    /// What the processes may be.
    pub privileges: Privileges,
    /// The variables inside.
    pub environment: Environment,
    /// How much may be used.
    pub limits: Limits,
    /// Every control, in the order of [`Control::ALL`].
    pub controls: Vec<Asked>,
}

/// One control, how much it is insisted on, and who said so.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asked {
    /// The promise.
    pub control: Control,
    /// How much the plan insists.
    pub requirement: Requirement,
    /// Who asked.
    pub because: Origin,
}

impl Plan {
    /// How much this plan insists on `control`.
    pub fn requirement(&self, control: Control) -> Requirement {
        self.controls
            .iter()
            .find(|asked| asked.control == control)
            .map_or(Requirement::Required, |asked| asked.requirement)
    }
}
