//! A backend's answer to a plan, control by control, and the comparison that decides whether anything runs.

use serde::{Deserialize, Serialize};

use crate::control::{Control, Requirement};
use crate::plan::Plan;

/// How well one control is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Not at all.
    Missing,
    /// In part: the detail says what is left open.
    Partial,
    /// Wholly.
    Enforced,
}

/// One control as a backend answers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Covered {
    /// The promise.
    pub control: Control,
    /// How well it is kept.
    pub status: Status,
    /// What keeps it.
    pub mechanism: String,
    /// What is left open, or what would enable it; empty when there is nothing to say.
    pub detail: String,
}

/// Every control of a plan as one backend answers it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage(Vec<Covered>);

/// One line of a receipt: what was asked for beside what was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptLine {
    /// The promise.
    pub control: Control,
    /// How much the plan insisted.
    pub requirement: Requirement,
    /// How well it was kept.
    pub status: Status,
    /// What kept it.
    pub mechanism: String,
    /// What was left open.
    pub detail: String,
}

impl Coverage {
    /// Records that `mechanism` enforces `control`.
    pub fn enforced(&mut self, control: Control, mechanism: impl Into<String>) {
        self.record(control, Status::Enforced, mechanism.into(), String::new());
    }

    /// Records that `mechanism` enforces `control`, and what `detail` adds: a limit of the promise itself, or
    /// what the mechanism rests on.
    pub fn enforced_but(
        &mut self,
        control: Control,
        mechanism: impl Into<String>,
        detail: impl Into<String>,
    ) {
        self.record(control, Status::Enforced, mechanism.into(), detail.into());
    }

    /// Records that `mechanism` enforces `control` but for what `detail` says.
    pub fn partial(&mut self, control: Control, mechanism: impl Into<String>, detail: impl Into<String>) {
        self.record(control, Status::Partial, mechanism.into(), detail.into());
    }

    /// Records that nothing enforces `control`, and what would.
    pub fn missing(&mut self, control: Control, detail: impl Into<String>) {
        self.record(control, Status::Missing, String::new(), detail.into());
    }

    fn record(&mut self, control: Control, status: Status, mechanism: String, detail: String) {
        self.0.retain(|covered| covered.control != control);
        self.0.push(Covered { control, status, mechanism, detail });
    }

    /// The answer for `control`. Silence is `Missing`: a backend that forgets a control cannot weaken a run.
    pub fn of(&self, control: Control) -> Covered {
        self.0.iter().find(|covered| covered.control == control).cloned().unwrap_or_else(|| Covered {
            control,
            status: Status::Missing,
            mechanism: String::new(),
            detail: "this backend does not offer it".to_owned(),
        })
    }

    /// Requested beside actual, for every control of `plan`.
    pub fn receipt(&self, plan: &Plan) -> Vec<ReceiptLine> {
        plan.controls
            .iter()
            .map(|asked| {
                let covered = self.of(asked.control);
                ReceiptLine {
                    control: asked.control,
                    requirement: asked.requirement,
                    status: covered.status,
                    mechanism: covered.mechanism,
                    detail: covered.detail,
                }
            })
            .collect()
    }
}

impl ReceiptLine {
    /// True when what was given is as much as was insisted on.
    pub fn is_met(&self) -> bool {
        match self.requirement {
            Requirement::Required => self.status == Status::Enforced,
            Requirement::AtLeastPartial => self.status >= Status::Partial,
            Requirement::BestEffort => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(requirement: Requirement, status: Status) -> ReceiptLine {
        let (mechanism, detail) = (String::new(), String::new());
        ReceiptLine { control: Control::FilesOutside, requirement, status, mechanism, detail }
    }

    #[test]
    fn a_required_control_must_be_enforced_wholly() {
        assert!(line(Requirement::Required, Status::Enforced).is_met());
        assert!(!line(Requirement::Required, Status::Partial).is_met());
        assert!(!line(Requirement::Required, Status::Missing).is_met());
        assert!(line(Requirement::AtLeastPartial, Status::Partial).is_met());
        assert!(!line(Requirement::AtLeastPartial, Status::Missing).is_met());
        assert!(line(Requirement::BestEffort, Status::Missing).is_met());
    }

    #[test]
    fn a_control_nobody_answers_for_is_missing() {
        assert_eq!(Coverage::default().of(Control::KernelSeccomp).status, Status::Missing);
    }

    #[test]
    fn the_last_answer_for_a_control_counts() {
        let mut coverage = Coverage::default();
        coverage.enforced(Control::LimitCpu, "rlimit");
        coverage.partial(Control::LimitCpu, "sampling", "checked every 50 ms");
        assert_eq!(coverage.of(Control::LimitCpu).status, Status::Partial);
    }
}
