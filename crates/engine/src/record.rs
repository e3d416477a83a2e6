//! The record that every run leaves: lines of JSON in the state directory, the first before anything starts.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::time::{SystemTime, UNIX_EPOCH};

use pinfold_core::id::SandboxId;
use pinfold_core::outcome::Outcome;
use pinfold_core::path::AbsPath;
use pinfold_core::plan::BackendName;
use serde_json::{Value, json};

use crate::dirs::Dirs;

/// The record cannot be kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} the record {path}")]
pub struct RecordError {
    what: &'static str,
    path: String,
    #[source]
    source: std::io::Error,
}

/// A record that can be written to.
#[derive(Debug)]
pub struct Record {
    file: File,
    path: String,
}

impl Record {
    /// Opens the caller's record. Without one nothing runs.
    pub fn open(dirs: &Dirs) -> Result<Self, RecordError> {
        Self::in_directory(&dirs.state)
    }

    /// Opens the record in a state directory.
    pub fn in_directory(state: &AbsPath) -> Result<Self, RecordError> {
        let path = state.as_path().join("record.jsonl");
        let shown = path.display().to_string();
        let open = || OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        let file = match open() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(state.as_path()).and_then(|()| open())
            }
            opened => opened,
        };
        match file {
            Ok(file) => Ok(Self { file, path: shown }),
            Err(source) => Err(RecordError { what: "open", path: shown, source }),
        }
    }

    /// Says that a command is about to run: before it does, so that none runs unrecorded.
    pub fn started(
        &mut self,
        id: SandboxId,
        backend: BackendName,
        command: &[OsString],
    ) -> Result<(), RecordError> {
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        self.append(json!({ "event": "execution.started", "id": id, "backend": backend, "command": words }))
    }

    /// Says why a run failed.
    pub fn failed(&mut self, id: SandboxId, why: &str) -> Result<(), RecordError> {
        self.append(json!({ "event": "execution.failed", "id": id, "error": why }))
    }

    /// Says what came of a run.
    pub fn completed(&mut self, outcome: &Outcome) -> Result<(), RecordError> {
        self.append(json!({
            "event": "execution.completed",
            "id": outcome.id,
            "exit": outcome.exit,
            "timed_out": outcome.timed_out,
            "limit": outcome.limit,
            "usage": outcome.usage,
            "violations": outcome.violations,
        }))
    }

    /// One write of one line, so that runs at the same time do not mix. No fsync: this record is for the person at the
    /// machine.
    fn append(&mut self, mut line: Value) -> Result<(), RecordError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        line["time_ms"] = u64::try_from(now.as_millis()).unwrap_or(u64::MAX).into();
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.map_err(|source| RecordError { what: "write", path: self.path.clone(), source })
    }
}
