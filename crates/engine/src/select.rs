//! Chooses the wall: the one named, or the strongest here that covers the plan. What cannot be enforced stops the run.

use pinfold_core::control::Control;
use pinfold_core::coverage::{Coverage, ReceiptLine, Status};
use pinfold_core::plan::{BackendChoice, BackendName, IsolationLevel, Plan};
use pinfold_linux::backend::namespace;
use pinfold_linux::probe::Probe;

/// A wall, and what it holds of a plan here.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Which.
    pub backend: BackendName,
    /// Why it cannot be used here at all, if so.
    pub unusable: Option<String>,
    /// Its answer to every control.
    pub coverage: Coverage,
}

/// Why no wall is used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refused {
    /// The wall named cannot be used.
    #[error("backend `{backend}` cannot be used here: {why}")]
    Unusable {
        /// Which.
        backend: BackendName,
        /// Why not.
        why: String,
    },
    /// No wall behind which to run was asked for, and that is not offered.
    #[error("isolation level `none` means the host itself, and this build runs nothing there")]
    NoWall,
    /// The level asked for is not to be had.
    #[error("no backend here gives isolation level `{asked}` ({because})")]
    Level {
        /// What was asked for.
        asked: IsolationLevel,
        /// Who asked.
        because: String,
    },
    /// A control that is insisted on is not enforced.
    #[error("backend `{backend}` cannot enforce `{}`, which is {} here: {}", .unmet[0].control, .unmet[0].requirement, .unmet[0].detail)]
    Uncovered {
        /// The wall.
        backend: BackendName,
        /// The controls that are not met; at least one.
        unmet: Vec<ReceiptLine>,
    },
}

impl Refused {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unusable { .. } => "PF-WALL-001",
            Self::NoWall => "PF-WALL-002",
            Self::Level { .. } => "PF-WALL-003",
            Self::Uncovered { .. } => "PF-WALL-004",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unusable { .. } | Self::Level { .. } => "`pinfold doctor` says what each wall needs".into(),
            Self::NoWall => "choose process, container, vm or wasm".into(),
            Self::Uncovered { unmet, .. } => {
                let controls: Vec<_> = unmet.iter().map(|line| line.control.name()).collect();
                format!(
                    "enable it as said, choose another wall, or accept less: --set requirements.{}=best_effort",
                    controls[0]
                )
            }
        }
    }
}

/// The wall to use, with its receipt.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Which.
    pub backend: BackendName,
    /// Requested beside actual.
    pub receipt: Vec<ReceiptLine>,
    /// Whether a control that is insisted on is not met: then it may be looked at, but not run behind.
    pub unmet: Vec<ReceiptLine>,
}

impl Chosen {
    /// The same for a sandbox that stays alive, where CPU time is kept for each process of a command: what the
    /// supervisor counts for all of them together has no end there.
    #[must_use]
    pub fn serving(mut self) -> Self {
        for line in self.receipt.iter_mut().filter(|line| line.control == Control::LimitCpu) {
            if line.status != Status::Missing {
                line.status = Status::Partial;
                line.mechanism = "RLIMIT_CPU".to_owned();
                line.detail = "held for each process, not for a command with all its children".to_owned();
            }
        }
        self.unmet = self.receipt.iter().filter(|line| !line.is_met()).cloned().collect();
        self
    }

    /// This wall, if it holds everything that is insisted on.
    pub fn usable(self) -> Result<Self, Refused> {
        match self.unmet.is_empty() {
            true => Ok(self),
            false => Err(Refused::Uncovered { backend: self.backend, unmet: self.unmet }),
        }
    }
}

/// Chooses for `plan`.
pub fn choose(plan: &Plan) -> Result<Chosen, Refused> {
    if plan.wall.isolation == IsolationLevel::None {
        return Err(Refused::NoWall);
    }
    let probe = Probe::new();
    let backend = match plan.wall.backend {
        BackendChoice::Named(backend) => backend,
        BackendChoice::Auto => BackendName::Namespace,
    };
    if !backend.level().satisfies(plan.wall.isolation) {
        let because = plan.wall.because.to_string();
        return Err(Refused::Level { asked: plan.wall.isolation, because });
    }
    let candidate = candidate(backend, plan, &probe);
    if let Some(why) = candidate.unusable {
        return Err(Refused::Unusable { backend, why });
    }
    let receipt = candidate.coverage.receipt(plan);
    let unmet = receipt.iter().filter(|line| !line.is_met()).cloned().collect();
    Ok(Chosen { backend, receipt, unmet })
}

/// Every wall, with what it holds of `plan` here.
pub fn candidates(plan: &Plan) -> Vec<Candidate> {
    let probe = Probe::new();
    BackendName::ALL.iter().map(|backend| candidate(*backend, plan, &probe)).collect()
}

fn candidate(backend: BackendName, plan: &Plan, probe: &Probe) -> Candidate {
    match backend {
        BackendName::Namespace => {
            let missing =
                [&probe.user_namespaces, &probe.mount_api].into_iter().find(|found| !found.is_there());
            let unusable = missing.map(|found| found.why_not());
            Candidate { backend, unusable, coverage: namespace::cover(plan, probe) }
        }
        _ => {
            let unusable = Some("this build does not have it".to_owned());
            Candidate { backend, unusable, coverage: Coverage::default() }
        }
    }
}
