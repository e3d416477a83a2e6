//! Directories that the inside closed: it runs as the caller, so whatever it may close, the caller may open again. The
//! mode is changed through a descriptor of the very directory that was looked at, never through a name.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::places::open_beneath;

/// A directory that was closed to its owner, and is open now.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Where it is, below the zone's root.
    pub(crate) path: PathBuf,
    /// What it was.
    pub(crate) before: Stat,
    directory: OwnedFd,
}

impl Opened {
    /// Closes it again.
    pub(crate) fn close(&self) -> Result<(), Errno> {
        set_mode(self.directory.as_fd(), Mode::from_raw_mode(self.before.st_mode & 0o7777))
    }
}

/// Sets the mode of what a descriptor stands for, opened with `O_PATH` or not; it must be known to be no link.
/// fchmod(2) refuses `O_PATH`, and only the newest kernels have fchmodat2(2), so the way is through /proc, where a
/// descriptor's entry leads to the file itself and not to its name.
pub(crate) fn set_mode(file: BorrowedFd<'_>, mode: Mode) -> Result<(), Errno> {
    rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode)
}

/// Gives the caller back the right to read, write and search every directory of its own from `root` down to `path`.
/// Returns those that were changed, also when one further down could not be.
pub(crate) fn open_up(root: BorrowedFd<'_>, path: &Path) -> (Vec<Opened>, Result<(), Errno>) {
    let mut opened = Vec::new();
    let done = descend(root, path, &mut opened);
    (opened, done)
}

fn descend(root: BorrowedFd<'_>, path: &Path, opened: &mut Vec<Opened>) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let mut at = PathBuf::new();
    // The zone's own descriptor: naming it `.` would take the right to search it.
    let mut directory = rustix::io::fcntl_dupfd_cloexec(root, 3)?;
    open_one(&directory, &at, opened)?;
    for component in path.components() {
        let Component::Normal(name) = component else { return Err(Errno::INVAL) };
        at.push(name);
        directory = open_beneath(directory.as_fd(), Path::new(name), flags)?;
        open_one(&directory, &at, opened)?;
    }
    Ok(())
}

fn open_one(directory: &OwnedFd, at: &Path, opened: &mut Vec<Opened>) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(directory)?;
    let mine = stat.st_uid == rustix::process::geteuid().as_raw();
    let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if !mine || !is_dir || stat.st_mode & 0o700 == 0o700 {
        return Ok(());
    }
    set_mode(directory.as_fd(), Mode::from_raw_mode(stat.st_mode & 0o7777 | 0o700))?;
    let directory = rustix::io::fcntl_dupfd_cloexec(directory, 3)?;
    opened.push(Opened { path: at.to_owned(), before: stat, directory });
    Ok(())
}

/// Does `action`, and once more after opening the directories down to `above` when it was refused.
pub(crate) fn again_if_closed<T>(
    root: BorrowedFd<'_>,
    above: &Path,
    opened: &mut Vec<Opened>,
    mut action: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    match action() {
        Err(Errno::ACCESS) => {
            let (more, done) = open_up(root, above);
            let changed = !more.is_empty();
            opened.extend(more);
            // What lies behind a directory of someone else's is as closed as it was.
            if changed { action() } else { done.and(Err(Errno::ACCESS)) }
        }
        other => other,
    }
}

/// Opens the entry `name` of `directory` itself, whatever it is, for looking at and nothing else.
pub(crate) fn entry(directory: BorrowedFd<'_>, name: &OsStr) -> Result<(OwnedFd, Stat), Errno> {
    let file = open_beneath(directory, Path::new(name), OFlags::PATH | OFlags::NOFOLLOW)?;
    let stat = rustix::fs::fstat(&file)?;
    Ok((file, stat))
}
