//! What a person or a program is told when something cannot be done: a stable code, one line, a hint.

use pinfold_core::text::visible;
use pinfold_policy::planner::PlanError;
use pinfold_policy::problem::Problems;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::dirs::DirsError;
use crate::history::HistoryError;
use crate::record::RecordError;
use crate::run::JobError;
use crate::select::Refused;
use crate::sources::SourceError;
use crate::trust::TrustError;

/// Why something was refused or failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure(Box<Parts>);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Parts {
    code: String,
    message: String,
    hint: Option<String>,
    details: Value,
    /// The full rendering, where there is more to show than one line.
    shown: Option<String>,
}

impl Failure {
    /// With a code and one line.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        let (code, message) = (code.to_owned(), message.into());
        Self(Box::new(Parts { code, message, hint: None, details: Value::Null, shown: None }))
    }

    /// With what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The stable code, such as `PF-WALL-004`.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// The one line.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// As every front door tells it to programs.
    pub fn to_json(&self) -> Value {
        let Parts { code, message, hint, details, .. } = &*self.0;
        json!({ "error": { "code": code, "message": message, "hint": hint, "details": details } })
    }
}

impl std::error::Error for Failure {}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(shown) = &self.0.shown {
            return f.write_str(shown);
        }
        write!(f, "error[{}]: {}", self.0.code, visible(&self.0.message))?;
        match &self.0.hint {
            Some(hint) => write!(f, "\nhint: {}", visible(hint)),
            None => Ok(()),
        }
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        let list: Vec<Value> = problems
            .iter()
            .map(|problem| {
                let place = problem.place();
                json!({
                    "code": problem.code.as_str(),
                    "message": problem.message,
                    "hint": problem.hint,
                    "document": place.as_ref().map(|place| place.document.as_ref()),
                    "line": place.as_ref().map(|place| place.line),
                    "column": place.as_ref().map(|place| place.column),
                })
            })
            .collect();
        let first = problems.iter().next();
        Self(Box::new(Parts {
            code: first.map_or("PF-POLICY-001", |problem| problem.code.as_str()).to_owned(),
            message: first.map_or_else(String::new, |problem| problem.message.clone()),
            hint: first.and_then(|problem| problem.hint.clone()),
            details: json!({ "problems": list }),
            shown: Some(problems.to_string()),
        }))
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Problems(problems) => problems.into(),
            other => {
                let mut failure = Self::new(other.code(), other.to_string());
                failure.0.hint = other.hint();
                failure
            }
        }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::new(error.code(), error.to_string()).hint(error.hint())
    }
}

impl From<Refused> for Failure {
    fn from(error: Refused) -> Self {
        let mut failure = Self::new(error.code(), error.to_string()).hint(error.hint());
        if let Refused::Uncovered { unmet, .. } = &error {
            let others: Vec<String> =
                unmet.iter().skip(1).map(|line| format!("{} ({})", line.control, line.detail)).collect();
            if !others.is_empty() {
                failure.0.message.push_str(&format!("; nor {}", others.join(", ")));
            }
            failure.0.details = json!({ "unmet": unmet });
        }
        failure
    }
}

impl From<HistoryError> for Failure {
    fn from(error: HistoryError) -> Self {
        Self::new(error.code(), error.to_string()).hint(error.hint())
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        Self::new("PF-RECORD-001", format!("{error}: {why}"))
            .hint("nothing runs without a record; make room for it")
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        let mut message = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(inner) = source {
            message.push_str(&format!(": {inner}"));
            source = inner.source();
        }
        Self::new("PF-RUN-001", message).hint("`pinfold doctor` says what this machine can do")
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::new("PF-CLI-011", format!("cannot write JSON: {error}"))
    }
}

impl From<DirsError> for Failure {
    fn from(error: DirsError) -> Self {
        Self::new("PF-CLI-001", error.to_string()).hint("set HOME to your home directory")
    }
}

impl From<TrustError> for Failure {
    fn from(error: TrustError) -> Self {
        SourceError::from(error).into()
    }
}
