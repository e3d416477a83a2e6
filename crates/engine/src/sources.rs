//! Finds the policy documents in force and reads them: machine, user, and either the file named or the one found
//! in the workspace.

use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use pinfold_core::path::AbsPath;
use pinfold_policy::document::Base;
use pinfold_policy::layer::{Layer, LayerKind, Settled, Trust};
use pinfold_policy::options::PolicyOption;
use pinfold_policy::problem::{Problems, Source};

use crate::dirs::Dirs;
use crate::trust::{TrustError, TrustStore};

/// The name of a policy in a workspace.
pub const POLICY_FILE: &str = "sandbox.policy.yaml";

/// The largest policy read; what is larger is refused before it is held in memory.
const MAX_BYTES: u64 = 4 << 20;

/// A document that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It cannot be read.
    #[error("cannot read {path}: {why}")]
    Read {
        /// The file.
        path: AbsPath,
        /// What is wrong.
        why: String,
    },
    /// Others than the operator can write it, so it cannot speak for the operator.
    #[error("{path} can be written by others than its operator, so it cannot be the machine's policy")]
    Writable {
        /// The file.
        path: AbsPath,
    },
    /// It is wrong.
    #[error("{0}")]
    Problems(#[from] Problems),
    /// The record of what is trusted cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

impl SourceError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Read { .. } => "PF-SOURCE-001",
            Self::Writable { .. } => "PF-SOURCE-002",
            Self::Problems(problems) => {
                problems.iter().next().map_or("PF-POLICY-001", |problem| problem.code.as_str())
            }
            Self::Trust(_) => "PF-SOURCE-003",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { .. } => Some("check the path and its permissions".into()),
            Self::Writable { path } => Some(format!("chown root {path} && chmod go-w {path}")),
            Self::Problems(_) => None,
            Self::Trust(_) => Some("remove the record, then trust the policy again".into()),
        }
    }
}

/// Which documents to read.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// A file that the user named; nothing is looked for in the workspace then.
    pub file: Option<&'a AbsPath>,
    /// The workspace.
    pub workspace: &'a AbsPath,
}

/// Every document in force with `options` on top, whose paths count from `here`; and what they come to.
pub fn settle(
    dirs: &Dirs,
    wanted: &Wanted<'_>,
    options: &[PolicyOption],
    here: &AbsPath,
) -> Result<(Vec<Layer>, Settled), SourceError> {
    let mut layers = layers(dirs, wanted)?;
    if !options.is_empty() {
        let base = Base { directory: here, home: Some(&dirs.home) };
        layers.push(pinfold_policy::options::layer(options, base)?);
    }
    let settled = pinfold_policy::layer::settle(&layers)?;
    Ok((layers, settled))
}

/// Every document in force, the highest first.
pub fn layers(dirs: &Dirs, wanted: &Wanted<'_>) -> Result<Vec<Layer>, SourceError> {
    let mut layers = Vec::new();
    let machine = below(&dirs.machine, "policy.yaml");
    if let Some(text) = read_optional(&machine)? {
        only_operator(&machine)?;
        layers.extend(load(LayerKind::Machine, Trust::Full, &machine, text, dirs)?);
    }
    let user = below(&dirs.config, "policy.yaml");
    if let Some(text) = read_optional(&user)? {
        layers.extend(load(LayerKind::User, Trust::Full, &user, text, dirs)?);
    }
    match wanted.file {
        Some(path) => layers.extend(load(LayerKind::File, Trust::Full, path, read(path)?, dirs)?),
        None => layers.extend(found(dirs, wanted.workspace)?.map_or_else(Vec::new, |found| found.layers)),
    }
    Ok(layers)
}

/// A policy found in a workspace.
#[derive(Debug)]
pub struct Found {
    /// Where it is.
    pub path: AbsPath,
    /// The digest of its content and of the files it extends.
    pub digest: String,
    /// Whether its owner trusted exactly this content.
    pub trust: Trust,
    /// The document and what it extends.
    pub layers: Vec<Layer>,
}

/// The policy in `workspace`, if there is one.
pub fn found(dirs: &Dirs, workspace: &AbsPath) -> Result<Option<Found>, SourceError> {
    let path = below(workspace, POLICY_FILE);
    let there = std::fs::symlink_metadata(path.as_path());
    if there.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Ok(None);
    }
    // A link that leads out of the workspace would have a file of its maker's choice read, and a line of it shown.
    let real = std::fs::canonicalize(path.as_path());
    if real.is_ok_and(|real| !real.starts_with(workspace.as_path())) {
        return Err(fail(&path, "it is a link that leads out of the workspace"));
    }
    match read_optional(&path)? {
        Some(text) => found_at(dirs, path, text).map(Some),
        None => Ok(None),
    }
}

/// The policy at `path`, as one that has to be trusted.
pub fn untrusted(dirs: &Dirs, path: &AbsPath) -> Result<Found, SourceError> {
    found_at(dirs, path.clone(), read(path)?)
}

fn found_at(dirs: &Dirs, path: AbsPath, text: String) -> Result<Found, SourceError> {
    let layers = load(LayerKind::Workspace, Trust::NarrowOnly, &path, text.clone(), dirs)?;
    let digest = pinfold_policy::trust::digest(&layers);
    if !TrustStore::new(dirs).is_trusted(&path, &digest)? {
        return Ok(Found { path, digest, trust: Trust::NarrowOnly, layers });
    }
    // The digest covers what was read, so what is used is what was read: the same texts, not the files again.
    let layers = layers.into_iter().map(|layer| layer.trusted()).collect();
    Ok(Found { path, digest, trust: Trust::Full, layers })
}

fn load(
    kind: LayerKind,
    trust: Trust,
    path: &AbsPath,
    text: String,
    dirs: &Dirs,
) -> Result<Vec<Layer>, SourceError> {
    let directory = path.parent().unwrap_or_else(AbsPath::root);
    let base = Base { directory: &directory, home: Some(&dirs.home) };
    let source = Source::new(path.to_string(), text);
    // A stranger's policy must not be able to have other files read, and their lines shown in errors.
    let allowed = |asked: &AbsPath| {
        let real = std::fs::canonicalize(asked.as_path()).map_err(|error| error.to_string())?;
        match trust == Trust::Full || real.starts_with(directory.as_path()) {
            true => Ok(()),
            false => Err(format!("a policy found in a workspace extends only files below {directory}")),
        }
    };
    let read = |asked: &AbsPath| allowed(asked).and_then(|()| read(asked).map_err(|error| error.to_string()));
    Ok(Layer::load(kind, trust, source, base, &read)?)
}

/// Reads a policy file: a regular file, not too large, in UTF-8.
pub fn read(path: &AbsPath) -> Result<String, SourceError> {
    read_optional(path)?.ok_or_else(|| fail(path, "there is no such file"))
}

fn read_optional(path: &AbsPath) -> Result<Option<String>, SourceError> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(nonblocking).open(path.as_path());
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        // A sandbox that runs on this workspace keeps the name free with a socket that nobody can use.
        Err(_) if is_placeholder(path) => return Ok(None),
        Err(error) => return Err(fail(path, error)),
    };
    let metadata = file.metadata().map_err(|error| fail(path, error))?;
    if !metadata.is_file() {
        return Err(fail(path, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| fail(path, error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(fail(path, format!("it is larger than {MAX_BYTES} bytes")));
    }
    if bytes.starts_with(&[0xfe, 0xff]) || bytes.starts_with(&[0xff, 0xfe]) {
        return Err(fail(path, "it is UTF-16; save it as UTF-8"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        fail(path, format!("it is not UTF-8: byte {} cannot be read", error.utf8_error().valid_up_to() + 1))
    })?;
    Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)))
}

fn is_placeholder(path: &AbsPath) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let found = std::fs::symlink_metadata(path.as_path());
    found.is_ok_and(|found| found.file_type().is_socket() && found.mode() & 0o777 == 0)
}

/// The machine's policy speaks for root, so nobody else may be able to write it.
fn only_operator(path: &AbsPath) -> Result<(), SourceError> {
    let metadata = std::fs::metadata(path.as_path()).map_err(|error| fail(path, error))?;
    let owner = metadata.uid();
    let ours = cfg!(debug_assertions) && owner == rustix::process::getuid().as_raw();
    if metadata.mode() & 0o022 != 0 || (owner != 0 && !ours) {
        return Err(SourceError::Writable { path: path.clone() });
    }
    Ok(())
}

fn fail(path: &AbsPath, why: impl ToString) -> SourceError {
    SourceError::Read { path: path.clone(), why: why.to_string() }
}

fn below(base: &AbsPath, name: &str) -> AbsPath {
    AbsPath::join_from(base, name.as_ref()).unwrap_or_else(|_| base.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(dir: &tempfile::TempDir, name: &str, bytes: &[u8]) -> AbsPath {
        std::fs::write(dir.path().join(name), bytes).unwrap();
        AbsPath::new(dir.path().join(name)).unwrap()
    }

    #[test]
    fn odd_encodings_and_odd_files_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        for (bytes, words) in [
            (&b"\xff\xfea\0"[..], "UTF-16"),
            (&b"a: \xe9\n"[..], "byte 4"),
            (&vec![b' '; MAX_BYTES as usize + 1][..], "larger"),
        ] {
            let error = read(&place(&dir, "p.yaml", bytes)).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(read(&place(&dir, "bom.yaml", "\u{feff}a: 1".as_bytes())).unwrap(), "a: 1");
        let directory = AbsPath::new(dir.path()).unwrap();
        assert!(read(&directory).unwrap_err().to_string().contains("regular"));
    }

    #[test]
    fn a_pipe_in_the_place_of_a_policy_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(POLICY_FILE);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        assert!(read(&AbsPath::new(path).unwrap()).unwrap_err().to_string().contains("regular"));
    }
}
