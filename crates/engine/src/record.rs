//! The record that every run leaves: one line of JSON in the state directory, opened before anything starts.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::time::{SystemTime, UNIX_EPOCH};

use pinfold_core::outcome::Outcome;
use serde_json::json;

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
        let path = dirs.state.as_path().join("record.jsonl");
        let shown = path.display().to_string();
        let open = || OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        let file = match open() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(dirs.state.as_path())
                .and_then(|()| open()),
            opened => opened,
        };
        match file {
            Ok(file) => Ok(Self { file, path: shown }),
            Err(source) => Err(RecordError { what: "open", path: shown, source }),
        }
    }

    /// Appends what came of a run: one write of one line, so that runs at the same time do not mix. No fsync: this
    /// record is for the person at the machine.
    pub fn append(&mut self, command: &[std::ffi::OsString], outcome: &Outcome) -> Result<(), RecordError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let line = json!({
            "time_ms": u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            "id": outcome.id,
            "backend": outcome.backend,
            "command": words,
            "exit": outcome.exit,
            "timed_out": outcome.timed_out,
            "limit": outcome.limit,
            "usage": outcome.usage,
            "violations": outcome.violations,
        });
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.map_err(|source| RecordError { what: "write", path: self.path.clone(), source })
    }
}
