//! Landlock: which paths exist for a process, held by the kernel whatever is mounted where.
//!
//! It cannot subtract, so what is protected *inside* a writable path rests on mounts. It does not see
//! metadata (`stat`, `chmod`, `utime`, extended attributes) nor, up to the ABI known here, connections to
//! sockets that have a path: namespaces, ids and masks hold those. Network ports are not handled, because an
//! empty network namespace already is, and its loopback is for use.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use crate::sys::descriptors::Done;
use crate::sys::landlock as kernel;

/// Narrows the ABI, for tests: a number above the kernel's changes nothing, and anything that is no number is
/// 0.
pub const PRETEND_ABI: &str = "PINFOLD_PRETEND_LANDLOCK_ABI";

/// The newest ABI that this code was tested with. A newer kernel is used as if it had this one.
const NEWEST: u32 = 7;

/// Why a process is not held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LandlockError {
    /// The kernel refused to make a ruleset.
    #[error("cannot create a Landlock ruleset for ABI {abi}")]
    Create {
        /// The ABI asked for.
        abi: u32,
        /// What the system said.
        source: io::Error,
    },
    /// A path of the rules could not be opened.
    #[error("cannot open {} for a Landlock rule", path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel refused a rule.
    #[error("cannot add a Landlock rule for {}", path.display())]
    Allow {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel refused to hold this process to the rules.
    #[error("cannot enforce the Landlock ruleset")]
    Restrict(#[source] io::Error),
}

/// What may be done where. Everything else may not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Files and directories that can be read and executed.
    pub read: Vec<PathBuf>,
    /// Files and directories where everything can be done but making devices.
    pub write: Vec<PathBuf>,
    /// Devices, or directories of them, that can be read, written and controlled.
    pub devices: Vec<PathBuf>,
    /// Directories that can be listed, with all below them: names, and nothing of what they name.
    pub list: Vec<PathBuf>,
    /// Whether signals and abstract sockets end at the sandbox too.
    pub scoped: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restricted {
    /// The ABI used.
    pub abi: Option<u32>,
    /// How much of the rules is in force.
    pub enforced: Enforced,
}

/// How much of the rules is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enforced {
    /// All.
    Fully,
    /// Not what the reason names.
    Partially(String),
    /// Nothing.
    Not(String),
}

/// `LANDLOCK_ACCESS_FS_*` and `LANDLOCK_SCOPE_*` of linux/landlock.h.
mod right {
    pub(super) const EXECUTE: u64 = 1 << 0;
    pub(super) const WRITE_FILE: u64 = 1 << 1;
    pub(super) const READ_FILE: u64 = 1 << 2;
    pub(super) const READ_DIRECTORY: u64 = 1 << 3;
    pub(super) const MAKE_CHARACTER_DEVICE: u64 = 1 << 6;
    pub(super) const MAKE_BLOCK_DEVICE: u64 = 1 << 11;
    /// Everything of the first ABI.
    pub(super) const FIRST: u64 = (1 << 13) - 1;
    pub(super) const REFER: u64 = 1 << 13;
    pub(super) const TRUNCATE: u64 = 1 << 14;
    pub(super) const CONTROL_DEVICE: u64 = 1 << 15;

    /// What can be said of a path that is no directory.
    pub(super) const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | CONTROL_DEVICE;

    pub(super) const READ: u64 = EXECUTE | READ_FILE | READ_DIRECTORY;
    pub(super) const WRITE: u64 = (FIRST | REFER | TRUNCATE) & !(MAKE_CHARACTER_DEVICE | MAKE_BLOCK_DEVICE);
    pub(super) const DEVICE: u64 = READ_FILE | READ_DIRECTORY | WRITE_FILE | TRUNCATE | CONTROL_DEVICE;

    pub(super) const SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS: u64 = 0b11;
}

/// The file rights that `abi` can hold back; each ABI added some (landlock(7)).
fn handled(abi: u32) -> u64 {
    let since = |first: u32, right: u64| if abi >= first { right } else { 0 };
    since(1, right::FIRST)
        | since(2, right::REFER)
        | since(3, right::TRUNCATE)
        | since(5, right::CONTROL_DEVICE)
}

/// What `abi` leaves open, in words; none when it holds everything.
pub(crate) fn gaps(abi: u32, scoped: bool) -> Option<String> {
    let mut gaps = Vec::new();
    if abi < 3 {
        gaps.push("files outside can be truncated (ABI 3 holds that)");
    }
    if abi < 5 {
        gaps.push("open devices can be controlled by ioctl (ABI 5)");
    }
    if abi < 6 && scoped {
        gaps.push("signals and abstract sockets reach outside (ABI 6)");
    }
    if abi < 2 && !gaps.is_empty() {
        gaps.push("in return, files cannot be moved between directories at all (ABI 2)");
    }
    (!gaps.is_empty()).then(|| format!("Landlock ABI {abi}: {}", gaps.join("; ")))
}

/// The Landlock ABI of this kernel, as far as this code knows it; none where there is no Landlock.
pub fn abi() -> Option<u32> {
    let offered = kernel::version().ok()?.min(NEWEST);
    let narrowed = match std::env::var_os(PRETEND_ABI) {
        None => offered,
        Some(pretended) => offered.min(pretended.to_str().and_then(|text| text.parse().ok()).unwrap_or(0)),
    };
    (narrowed > 0).then_some(narrowed)
}

/// Holds the calling thread and all that it starts to `rules`, for good. no_new_privs must be set already.
///
/// Every right that the ABI knows is handled, so what the rules do not name is refused. Nothing is left out
/// quietly: a path that cannot be opened is an error, and what the ABI cannot hold is in the answer. Symbolic
/// links are followed, so a rule is about the place that its path leads to at this moment.
pub fn restrict(rules: &Rules) -> Result<Restricted, LandlockError> {
    let Some(abi) = abi() else {
        let enforced = Enforced::Not("this kernel offers no Landlock".to_owned());
        return Ok(Restricted { abi: None, enforced });
    };
    let handled = handled(abi);
    let scoped = if rules.scoped && abi >= 6 { right::SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS } else { 0 };
    let ruleset = kernel::create(handled, scoped).map_err(|source| LandlockError::Create { abi, source })?;
    let kinds = [
        (&rules.read, right::READ),
        (&rules.write, right::WRITE),
        (&rules.devices, right::DEVICE),
        (&rules.list, right::READ_DIRECTORY),
    ];
    let mut done = Done::default();
    for (paths, rights) in kinds {
        for path in paths {
            done.close(allow(&ruleset, path, rights & handled)?);
        }
    }
    kernel::restrict(ruleset.as_fd()).map_err(LandlockError::Restrict)?;
    let enforced = gaps(abi, rules.scoped).map_or(Enforced::Fully, Enforced::Partially);
    Ok(Restricted { abi: Some(abi), enforced })
}

/// Allows `rights` at `path`, and returns what was opened for it.
fn allow(ruleset: &impl AsFd, path: &Path, rights: u64) -> Result<OwnedFd, LandlockError> {
    let failed =
        |source: rustix::io::Errno| LandlockError::Open { path: path.to_owned(), source: source.into() };
    let parent = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    let allowed = match kernel::allow(ruleset.as_fd(), parent.as_fd(), rights) {
        // The kernel refuses rights of directories on anything else; most paths are directories.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) && rights & !right::OF_FILES != 0 => {
            let status = fstat(&parent).map_err(failed)?;
            match FileType::from_raw_mode(status.st_mode) {
                FileType::Directory => Err(error),
                _ => kernel::allow(ruleset.as_fd(), parent.as_fd(), rights & right::OF_FILES),
            }
        }
        allowed => allowed,
    };
    allowed.map_err(|source| LandlockError::Allow { path: path.to_owned(), source })?;
    Ok(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_right_given_is_one_that_is_handled_by_the_newest_abi() {
        for rights in [right::READ, right::WRITE, right::DEVICE, right::OF_FILES] {
            assert_eq!(rights & !handled(NEWEST), 0);
        }
    }

    #[test]
    fn each_abi_handles_more_and_leaves_less_open() {
        for abi in 1..NEWEST {
            assert_eq!(handled(abi) & !handled(abi + 1), 0);
            let length = |abi| gaps(abi, true).map_or(0, |gaps| gaps.len());
            assert!(length(abi) >= length(abi + 1), "ABI {abi}");
        }
        assert_eq!(gaps(6, true), None);
        assert_eq!(gaps(5, false), None);
        let first = gaps(1, true).unwrap_or_default();
        assert!(first.contains("truncated") && first.contains("moved between directories"), "{first}");
    }

    #[test]
    fn a_missing_path_is_an_error_and_nothing_is_enforced() {
        let rules = Rules { read: vec!["/nonexistent/path".into()], ..Rules::default() };
        if abi().is_some() {
            assert!(matches!(restrict(&rules), Err(LandlockError::Open { .. })));
        }
        assert!(std::fs::read_dir("/").is_ok());
    }
}
