//! What happens while a command runs, by the names that every front door uses.

use serde::Serialize;

use crate::id::SandboxId;
use crate::outcome::{LimitKind, Warning};
use crate::plan::BackendName;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event")]
pub enum Event {
    /// A command is about to run.
    #[serde(rename = "execution.started")]
    ExecutionStarted {
        /// Its sandbox.
        id: SandboxId,
        /// The wall.
        backend: BackendName,
    },
    /// A limit is near.
    #[serde(rename = "limit.warning")]
    LimitWarning(Warning),
    /// A limit ended the command.
    #[serde(rename = "limit.exceeded", rename_all = "camelCase")]
    LimitExceeded {
        /// Which one.
        limit_type: LimitKind,
        /// How much there was, in the unit of warnings.
        max: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_names_that_every_front_door_uses() {
        let warning = Warning { limit_type: LimitKind::Memory, current: 8, max: 10 };
        let json = serde_json::to_string(&Event::LimitWarning(warning)).unwrap();
        assert_eq!(json, r#"{"event":"limit.warning","limitType":"memory","current":8,"max":10}"#);
        let exceeded = Event::LimitExceeded { limit_type: LimitKind::Wall, max: 500 };
        let json = serde_json::to_string(&exceeded).unwrap();
        assert_eq!(json, r#"{"event":"limit.exceeded","limitType":"wall","max":500}"#);
        let (id, backend) = (SandboxId::from_random([7; 8]), BackendName::Namespace);
        let json = serde_json::to_value(Event::ExecutionStarted { id, backend }).unwrap();
        assert_eq!((&json["event"], &json["backend"]), (&"execution.started".into(), &"namespace".into()));
    }
}
