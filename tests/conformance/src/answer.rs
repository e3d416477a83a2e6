//! What the probe says: one line of JSON for each attempt.

use std::fmt;

use serde_json::Value;

/// What came of one attempt inside.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It was done; with what it gave.
    Ok(Value),
    /// The kernel refused it with this error, by name.
    Errno(String),
    /// The process that tried was killed by this signal, by name.
    Killed(String),
}

impl Answer {
    /// Reads one line of the probe.
    pub fn parse(line: &str) -> (String, Self) {
        let said: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("no answer: {line:?}: {error}"));
        let attempt = said["attempt"].as_str().unwrap_or_default().to_owned();
        let text = |key: &str| said[key].as_str().map(str::to_owned);
        let answer = match (text("errno"), text("killed")) {
            (Some(errno), _) => Self::Errno(errno),
            (_, Some(signal)) => Self::Killed(signal),
            _ => Self::Ok(
                said.get("ok").cloned().unwrap_or_else(|| panic!("an answer without a result: {line}")),
            ),
        };
        (attempt, answer)
    }

    /// Whether the attempt was done.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok(_))
    }

    /// Whether it was refused with one of these errors or signals.
    pub fn is_refused(&self, with: &[&str]) -> bool {
        match self {
            Self::Ok(_) => false,
            Self::Errno(name) | Self::Killed(name) => with.contains(&name.as_str()),
        }
    }

    /// What it gave.
    pub fn value(&self) -> &Value {
        match self {
            Self::Ok(value) => value,
            other => panic!("the attempt was refused: {other}"),
        }
    }

    /// What it gave, as text.
    pub fn text(&self) -> &str {
        self.value().as_str().unwrap_or_else(|| panic!("no text: {self}"))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok(value) => write!(f, "done ({value})"),
            Self::Errno(name) => write!(f, "refused with {name}"),
            Self::Killed(name) => write!(f, "killed by {name}"),
        }
    }
}
