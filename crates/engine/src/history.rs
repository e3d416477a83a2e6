//! What earlier runs used, kept in the state directory: one file, replaced as a whole, so that a reader sees the old one or
//! the new one and a crash leaves no half of it. Runs at the same time take turns by a lock of its own. What the
//! numbers mean is `pinfold_policy::estimate`'s business.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pinfold_core::outcome::Outcome;
use pinfold_core::plan::Limits;
use pinfold_policy::estimate::{self, DamagedHistory, History, Observation};
use rustix::fs::{FlockOperation, flock};

use crate::dirs::Dirs;

/// A full history has some forty thousand bytes, or twice that with the longest names; more is none.
const MOST: u64 = 1 << 17;
/// What most histories have: those are read at once.
const USUAL: usize = 1 << 14;

/// The history cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// What is there is no history.
    #[error("the history of earlier runs in {} is damaged: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: DamagedHistory,
    },
    /// It is larger than any history.
    #[error("the history of earlier runs in {} is damaged: it has more than {MOST} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be used.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// It cannot be put into words.
    #[error("cannot write the history of earlier runs as JSON: {0}")]
    Text(#[source] serde_json::Error),
}

impl HistoryError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Damaged { .. } | Self::TooLarge { .. } => "PF-HISTORY-001",
            Self::File { .. } | Self::Text(_) => "PF-HISTORY-002",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Damaged { path, .. } | Self::TooLarge { path } => {
                format!("remove {} to learn anew; until then, run without --limits auto", path.display())
            }
            Self::File { .. } | Self::Text(_) => {
                "make it usable again, or remove it; until then, run without --limits auto".to_owned()
            }
        }
    }
}

/// The file that holds the caller's history.
#[derive(Clone, Debug)]
pub struct HistoryFile {
    path: PathBuf,
    lock: PathBuf,
    /// The next version while it is written. Who holds the lock owns it, so what a crash left is overwritten.
    fresh: PathBuf,
}

impl HistoryFile {
    /// The caller's history.
    pub fn new(dirs: &Dirs) -> Self {
        let below = |name: &str| dirs.state.as_path().join(name);
        Self { path: below("history.json"), lock: below("history.lock"), fresh: below("history.json.new") }
    }

    /// Everything remembered; nothing if there is no file yet.
    pub fn recall(&self) -> Result<History, HistoryError> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(History::default()),
            Err(error) => return Err(failed("open", &self.path)(error)),
        };
        let mut text = Vec::with_capacity(USUAL);
        file.take(MOST + 1).read_to_end(&mut text).map_err(failed("read", &self.path))?;
        if text.len() as u64 > MOST {
            return Err(HistoryError::TooLarge { path: self.path.clone() });
        }
        History::from_json(&text).map_err(|source| HistoryError::Damaged { path: self.path.clone(), source })
    }

    /// Remembers what a run of `command` under `limits` came to. A command that has no name is not remembered.
    pub fn remember(
        &self,
        command: &[OsString],
        limits: &Limits,
        outcome: &Outcome,
    ) -> Result<(), HistoryError> {
        let words: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let Some(name) = estimate::name(&words) else { return Ok(()) };
        let run = Observation::new(limits, outcome);
        // Held until it is dropped, and let go by the kernel should this process end before.
        let _lock = self.lock()?;
        let mut history = self.recall()?;
        history.learn(&name, &run);
        self.replace(&history)
    }

    fn lock(&self) -> Result<File, HistoryError> {
        let open =
            || OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.lock);
        let opened = match (open(), self.lock.parent()) {
            (Err(error), Some(state)) if error.kind() == ErrorKind::NotFound => {
                let made = DirBuilder::new().recursive(true).mode(0o700).create(state);
                made.and_then(|()| open())
            }
            (opened, _) => opened,
        };
        let file = opened.map_err(failed("open", &self.lock))?;
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(file),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed("lock", &self.lock)(error.into())),
            }
        }
    }

    /// No fsync, as with the record: after a power failure the file may be gone or damaged, which is then told.
    fn replace(&self, history: &History) -> Result<(), HistoryError> {
        let text = history.to_json().map_err(HistoryError::Text)?;
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&self.fresh);
        let mut file = file.map_err(failed("make", &self.fresh))?;
        file.write_all(text.as_bytes()).map_err(failed("write", &self.fresh))?;
        std::fs::rename(&self.fresh, &self.path).map_err(failed("replace", &self.path))
    }
}

fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> HistoryError {
    move |source| HistoryError::File { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use pinfold_core::id::SandboxId;
    use pinfold_core::origin::Origin;
    use pinfold_core::outcome::{Exit, Said, Usage};
    use pinfold_core::plan::{BackendName, Limit, OnOutputLimit};

    use super::*;

    fn limits() -> Limits {
        let limit = |value| Limit { value, because: Origin::Rule("a test") };
        Limits {
            max_cpu_seconds: limit(30),
            cpus: None,
            max_memory_mb: limit(256),
            max_disk_mb: limit(512),
            timeout_ms: limit(60_000),
            max_processes: limit(10),
            max_file_descriptors: limit(256),
            max_output_bytes: limit(65_536),
            on_output_limit: OnOutputLimit::Kill,
        }
    }

    fn outcome() -> Outcome {
        Outcome {
            id: SandboxId::from_random([7; 8]),
            backend: BackendName::Namespace,
            exit: Exit::Code(0),
            stdout: Said::default(),
            stderr: Said::default(),
            timed_out: false,
            limit: None,
            usage: Usage { peak_memory_bytes: 100 << 20, ..Usage::default() },
            violations: Vec::new(),
            warnings: Vec::new(),
            receipt: Vec::new(),
        }
    }

    fn file(directory: &Path) -> HistoryFile {
        HistoryFile {
            path: directory.join("state/history.json"),
            lock: directory.join("state/history.lock"),
            fresh: directory.join("state/history.json.new"),
        }
    }

    fn remember(file: &HistoryFile, words: &[&str]) -> Result<(), HistoryError> {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        file.remember(&words, &limits(), &outcome())
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_was_remembered_is_recalled_and_nobody_else_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(dir.path());
        assert!(file.recall().unwrap().is_empty());
        remember(&file, &["env", "TOKEN=s3cret", "npm", "test", "--key", "s3cret"]).unwrap();
        remember(&file, &["npm", "test"]).unwrap();
        assert_eq!(file.recall().unwrap().runs("npm test"), 2);
        assert!(!std::fs::read_to_string(&file.path).unwrap().contains("s3cret"));
        assert_eq!((mode(&file.path), mode(&file.lock)), (0o600, 0o600));
        assert_eq!(mode(&dir.path().join("state")), 0o700);
        assert!(!file.fresh.exists());
    }

    #[test]
    fn a_command_without_a_name_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(dir.path());
        remember(&file, &["sh", "-c", "list=(s3cret)"]).unwrap();
        assert!(!dir.path().join("state").exists());
    }

    #[test]
    fn a_crash_in_the_middle_of_writing_damages_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(dir.path());
        remember(&file, &["npm", "test"]).unwrap();
        std::fs::write(&file.fresh, "{\"version\":1,\"comm").unwrap();
        assert_eq!(file.recall().unwrap().runs("npm test"), 1);
        remember(&file, &["npm", "test"]).unwrap();
        assert_eq!(file.recall().unwrap().runs("npm test"), 2);
    }

    #[test]
    fn a_damaged_file_is_named_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(dir.path());
        remember(&file, &["npm", "test"]).unwrap();
        let huge = vec![b' '; MOST as usize + 1];
        for damage in [&b""[..], b"{", b"{\"version\":9,\"commands\":[]}", b"\xff\xfe", &huge] {
            std::fs::write(&file.path, damage).unwrap();
            for error in [file.recall().unwrap_err(), remember(&file, &["npm", "test"]).unwrap_err()] {
                assert_eq!(error.code(), "PF-HISTORY-001");
                let path = file.path.display().to_string();
                assert!(error.to_string().contains(&path) && error.hint().contains(&path), "{error}");
            }
            assert_eq!(std::fs::read(&file.path).unwrap(), damage, "nobody repairs it in secret");
        }
        std::fs::remove_file(&file.path).unwrap();
        std::fs::create_dir(&file.path).unwrap();
        assert_eq!(file.recall().unwrap_err().code(), "PF-HISTORY-002");
    }

    #[test]
    fn threads_at_once_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(dir.path());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..25).for_each(|_| remember(&file, &["npm", "test"]).unwrap()));
            }
        });
        assert_eq!(file.recall().unwrap().runs("npm test"), 200);
    }
}
