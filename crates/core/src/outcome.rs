//! What came of a run: how it ended, what it used, what it said, and the receipt.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::control::Control;
use crate::coverage::ReceiptLine;
use crate::id::SandboxId;
use crate::plan::BackendName;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A limit, by the name that outcomes give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // each is named after what it bounds
pub enum LimitKind {
    Cpu,
    Memory,
    Disk,
    Wall,
    Processes,
    Fds,
    Output,
}

impl LimitKind {
    /// The name in outcomes and events.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Wall => "wall",
            Self::Processes => "processes",
            Self::Fds => "fds",
            Self::Output => "output",
        }
    }
}

/// What was used, as far as the wall can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Elapsed time.
    pub wall_ms: u64,
    /// CPU time of everything inside.
    pub cpu_ms: u64,
    /// The most memory in use at once.
    pub peak_memory_bytes: u64,
    /// The most processes and threads at once.
    pub peak_processes: u64,
    /// Read from disk; 0 where the wall cannot tell.
    pub bytes_read: u64,
    /// Written to disk; 0 where the wall cannot tell.
    pub bytes_written: u64,
    /// Standard output and error together, what was dropped included.
    pub output_bytes: u64,
}

/// How sure it is that something was attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Seen by the mechanism that refused it.
    Observed,
    /// Concluded from what was left behind.
    Inferred,
}

/// Something that was attempted against a control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The control.
    pub control: Control,
    /// What was attempted.
    pub what: String,
    /// How sure that is.
    pub certainty: Certainty,
}

/// A limit that was nearly reached: four fifths of it were in use. Memory and output in bytes, CPU and wall time in
/// milliseconds, processes by number, as [`Usage`] counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    /// Which one.
    pub limit_type: LimitKind,
    /// How much was in use.
    pub current: u64,
    /// How much there is.
    pub max: u64,
}

/// What a stream said: the bytes kept, and how many were not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The bytes kept.
    pub bytes: Vec<u8>,
    /// How many were dropped.
    pub dropped: u64,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The sandbox.
    pub id: SandboxId,
    /// The wall.
    pub backend: BackendName,
    /// How the command ended.
    pub exit: Exit,
    /// Standard output.
    pub stdout: Said,
    /// Standard error.
    pub stderr: Said,
    /// Whether time ran out.
    pub timed_out: bool,
    /// The limit that ended it, if one did.
    pub limit: Option<LimitKind>,
    /// What was used.
    pub usage: Usage,
    /// What was attempted.
    pub violations: Vec<Violation>,
    /// Limits that were nearly reached.
    pub warnings: Vec<Warning>,
    /// Requested beside actual.
    pub receipt: Vec<ReceiptLine>,
}

impl Outcome {
    /// The exit status of the command line: the command's own, or the one that says what ended it.
    pub fn exit_status(&self) -> u8 {
        match (self.limit, self.exit) {
            _ if self.timed_out => 124,
            (Some(_), _) => 137,
            (None, Exit::Code(code)) => (code & 0xff) as u8,
            (None, Exit::Signal(signal)) => (128 + (signal & 0x7f)) as u8,
        }
    }
}

/// The names of the outcome's JSON. Bytes that are no UTF-8 go out as base64, and the encoding says so.
impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("backend", &self.backend)?;
        map.serialize_entry("exit", &self.exit)?;
        for (name, encoding, said) in
            [("stdout", "stdout_encoding", &self.stdout), ("stderr", "stderr_encoding", &self.stderr)]
        {
            match std::str::from_utf8(&said.bytes) {
                Ok(text) => {
                    map.serialize_entry(name, text)?;
                    map.serialize_entry(encoding, "utf-8")?;
                }
                Err(_) => {
                    map.serialize_entry(name, &base64(&said.bytes))?;
                    map.serialize_entry(encoding, "base64")?;
                }
            }
        }
        #[derive(Serialize)]
        struct Truncated {
            stdout: u64,
            stderr: u64,
        }
        let truncated = Truncated { stdout: self.stdout.dropped, stderr: self.stderr.dropped };
        map.serialize_entry("truncated", &truncated)?;
        map.serialize_entry("timed_out", &self.timed_out)?;
        map.serialize_entry("limit", &self.limit)?;
        map.serialize_entry("usage", &self.usage)?;
        map.serialize_entry("violations", &self.violations)?;
        map.serialize_entry("warnings", &self.warnings)?;
        map.serialize_entry("receipt", &self.receipt)?;
        map.end()
    }
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let letter = LETTERS[(group >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(exit: Exit) -> Outcome {
        Outcome {
            id: SandboxId::from_random([7; 8]),
            backend: BackendName::Namespace,
            exit,
            stdout: Said { bytes: b"hi\xff".to_vec(), dropped: 3 },
            stderr: Said::default(),
            timed_out: false,
            limit: None,
            usage: Usage::default(),
            violations: Vec::new(),
            warnings: vec![Warning { limit_type: LimitKind::Memory, current: 8, max: 10 }],
            receipt: Vec::new(),
        }
    }

    #[test]
    fn base64_is_the_standard_one() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[255, 254]), "//4=");
    }

    #[test]
    fn json_has_the_names_that_every_front_door_uses() {
        let json = serde_json::to_value(outcome(Exit::Signal(9))).unwrap();
        assert_eq!(json["exit"], serde_json::json!({ "signal": 9 }));
        assert_eq!((&json["stdout"], &json["stdout_encoding"]), (&"aGn/".into(), &"base64".into()));
        assert_eq!(json["stderr_encoding"], "utf-8");
        assert_eq!(json["truncated"], serde_json::json!({ "stdout": 3, "stderr": 0 }));
        assert_eq!(json["warnings"][0]["limitType"], "memory");
        assert!(json["limit"].is_null() && json["usage"]["wall_ms"].is_u64());
    }

    #[test]
    fn the_exit_status_says_what_ended_it() {
        assert_eq!(outcome(Exit::Code(42)).exit_status(), 42);
        assert_eq!(outcome(Exit::Signal(15)).exit_status(), 143);
        assert_eq!(Outcome { limit: Some(LimitKind::Memory), ..outcome(Exit::Signal(9)) }.exit_status(), 137);
        let late = Outcome { timed_out: true, limit: Some(LimitKind::Wall), ..outcome(Exit::Signal(9)) };
        assert_eq!(late.exit_status(), 124);
    }
}
