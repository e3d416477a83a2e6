//! Request and policy in, plan out. Pure: the same two give the same plan on every machine.

mod controls;
mod environment;
mod files;
mod limits;
mod network;

use pinfold_core::path::AbsPath;
use pinfold_core::plan::{
    BackendChoice, BackendName, IsolationLevel, Plan, Privileges, SeccompProfile, Wall,
};
use pinfold_core::request::Request;

use crate::document::{Policy, SeccompChoice};
use crate::estimate::History;
use crate::layer::Settled;

/// Who has the last word about limits that no document states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitsMode<'a> {
    /// The estimator may raise a profile's numbers for commands in its table.
    #[default]
    Auto,
    /// The same, by what earlier runs used too.
    Learned(&'a History),
    /// The policy alone.
    Policy,
}

/// Why a request and a policy make no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A zone would show what nobody means to show.
    #[error("{what} would show {path}, {why}")]
    TooMuch {
        /// The workspace, a zone, or a key.
        what: String,
        /// The path it names.
        path: AbsPath,
        /// What is wrong with that.
        why: &'static str,
    },
    /// A host path that the wall makes itself.
    #[error("{what} names {path}, which every wall makes anew")]
    OwnPlace {
        /// The key.
        what: String,
        /// The path it names.
        path: AbsPath,
    },
    /// A backend and a level that exclude each other.
    #[error("backend `{backend}` gives isolation level `{gives}`; `{asked}` is asked for by {because}")]
    TooWeak {
        /// The backend chosen.
        backend: BackendName,
        /// What it gives.
        gives: IsolationLevel,
        /// What is asked for.
        asked: IsolationLevel,
        /// Who asked.
        because: String,
    },
    /// A path of the policy that is no path.
    #[error("{what}: {why}")]
    BadPath {
        /// The key.
        what: String,
        /// What is wrong.
        why: String,
    },
    /// More tmpfs than memory: it could never be used.
    #[error("zone `{zone}` has {size} MB, and maxMemoryMB is {memory} ({because})")]
    TmpfsOverMemory {
        /// The zone.
        zone: String,
        /// Its size.
        size: u64,
        /// The memory limit.
        memory: u64,
        /// Who set it.
        because: String,
    },
    /// Layers that are each valid and together are not.
    #[error("{what}, and {other}")]
    Conflict {
        /// What one of them says.
        what: String,
        /// What cannot be at the same time.
        other: String,
    },
}

impl PlanError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooMuch { .. } => "PF-PLAN-001",
            Self::OwnPlace { .. } => "PF-PLAN-002",
            Self::TooWeak { .. } => "PF-PLAN-003",
            Self::BadPath { .. } => "PF-PLAN-004",
            Self::TmpfsOverMemory { .. } => "PF-PLAN-005",
            Self::Conflict { .. } => "PF-PLAN-006",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::TooMuch { what, .. } if what == "the workspace" => {
                "name a directory of the project instead: --workspace DIR".into()
            }
            Self::TooMuch { .. } => "name what is needed of it, such as one directory below".into(),
            Self::OwnPlace { .. } => {
                "remove it: /proc, /dev and the zones' own places are always there".into()
            }
            Self::TooWeak { asked, .. } => {
                format!("use --backend auto, or lower isolationLevel from `{asked}`")
            }
            Self::BadPath { .. } => "write an absolute path, or one relative to the policy file".into(),
            Self::TmpfsOverMemory { .. } => {
                "lower sizeMB or raise maxMemoryMB: tmpfs counts as memory".into()
            }
            Self::Conflict { .. } => {
                "change one of the two; `pinfold policy show` says who states what".into()
            }
        }
    }
}

/// Everything that must hold while `request` runs under `settled`.
pub fn plan(request: &Request, settled: &Settled, mode: LimitsMode<'_>) -> Result<Plan, PlanError> {
    let policy = &settled.policy;
    let limits = limits::limits(request, settled, mode);
    let files = files::files(request, policy, &limits)?;
    let network = network::network(request, policy)?;
    Ok(Plan {
        wall: wall(policy)?,
        directory: files::directory(request, &files),
        environment: environment::environment(request, policy, &files),
        privileges: privileges(policy)?,
        controls: controls::controls(policy, &network),
        files,
        network,
        limits,
    })
}

fn wall(policy: &Policy) -> Result<Wall, PlanError> {
    let sandbox = &policy.sandbox;
    let asked = sandbox.isolation_level.value;
    if let BackendChoice::Named(backend) = sandbox.backend.value
        && !backend.level().satisfies(asked)
    {
        let because = sandbox.isolation_level.origin().to_string();
        return Err(PlanError::TooWeak { backend, gives: backend.level(), asked, because });
    }
    let runtime = &sandbox.runtime.value;
    Ok(Wall {
        isolation: asked,
        because: sandbox.isolation_level.origin().clone(),
        backend: sandbox.backend.value,
        image: sandbox.image.value.clone(),
        runtime: (!runtime.is_empty()).then(|| runtime.clone()),
        prove_on_boot: sandbox.prove_on_boot.value,
    })
}

fn privileges(policy: &Policy) -> Result<Privileges, PlanError> {
    let security = &policy.security;
    if security.run_as_non_root.value && security.user_id.value == 0 {
        return Err(PlanError::Conflict {
            what: format!("userId is 0, which is root ({})", security.user_id.origin()),
            other: format!("runAsNonRoot is true ({})", security.run_as_non_root.origin()),
        });
    }
    let seccomp = match &security.seccomp_profile.value {
        SeccompChoice::Default => SeccompProfile::Default,
        SeccompChoice::Strict => SeccompProfile::Strict,
        SeccompChoice::Debug => SeccompProfile::Debug,
        SeccompChoice::File(path) => SeccompProfile::File(files::absolute("security.seccompProfile", path)?),
    };
    Ok(Privileges {
        drop_capabilities: security.drop_capabilities.value,
        no_new_privileges: security.no_new_privileges.value,
        non_root: security.run_as_non_root.value,
        user_id: security.user_id.value,
        seccomp,
    })
}
