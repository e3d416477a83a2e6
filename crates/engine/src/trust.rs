//! Which policies found in workspaces their owner has trusted: one small file for each, named by its path.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use pinfold_core::path::AbsPath;
use sha2::{Digest as _, Sha256};

use crate::dirs::Dirs;

/// The record of what is trusted cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {path}: {source}")]
pub struct TrustError {
    what: &'static str,
    path: String,
    source: std::io::Error,
}

/// The record of trusted policies.
#[derive(Clone, Debug)]
pub struct TrustStore {
    directory: PathBuf,
}

impl TrustStore {
    /// The caller's record.
    pub fn new(dirs: &Dirs) -> Self {
        Self { directory: dirs.state.as_path().join("trust") }
    }

    /// Whether exactly this content at exactly this path was trusted.
    pub fn is_trusted(&self, path: &AbsPath, digest: &str) -> Result<bool, TrustError> {
        let entry = self.entry(path);
        match fs::read_to_string(&entry) {
            Ok(text) => Ok(text.lines().next() == Some(digest)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(TrustError { what: "read", path: entry.display().to_string(), source }),
        }
    }

    /// Trusts this content at this path; what was trusted there before no longer is.
    pub fn trust(&self, path: &AbsPath, digest: &str) -> Result<(), TrustError> {
        let entry = self.entry(path);
        let fail = |what, source| TrustError { what, path: entry.display().to_string(), source };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
            .map_err(|e| fail("make", e))?;
        // A reader sees the old record or the new one, never half of it.
        let fresh = entry.with_extension(format!("new-{}", std::process::id()));
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)
            .map_err(|e| fail("write", e))?;
        writeln!(file, "{digest}\n{path}").and_then(|()| file.sync_all()).map_err(|e| fail("write", e))?;
        fs::rename(&fresh, &entry).map_err(|e| fail("write", e))
    }

    /// Takes trust back; true if there was any.
    pub fn revoke(&self, path: &AbsPath) -> Result<bool, TrustError> {
        let entry = self.entry(path);
        match fs::remove_file(&entry) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(TrustError { what: "remove", path: entry.display().to_string(), source }),
        }
    }

    fn entry(&self, path: &AbsPath) -> PathBuf {
        let digest = Sha256::digest(path.as_path().as_os_str().as_bytes());
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.directory.join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_in_one_content_at_one_path() {
        let dir = tempfile::tempdir().unwrap();
        let store = TrustStore { directory: dir.path().join("trust") };
        let (here, there) = (AbsPath::new("/here").unwrap(), AbsPath::new("/there").unwrap());
        assert!(!store.is_trusted(&here, "aa").unwrap());
        store.trust(&here, "aa").unwrap();
        assert!(store.is_trusted(&here, "aa").unwrap());
        assert!(!store.is_trusted(&here, "ab").unwrap());
        assert!(!store.is_trusted(&there, "aa").unwrap());
        store.trust(&here, "bb").unwrap();
        assert!(!store.is_trusted(&here, "aa").unwrap());
        assert!(store.revoke(&here).unwrap());
        assert!(!store.revoke(&here).unwrap());
        assert!(!store.is_trusted(&here, "bb").unwrap());
    }
}
