//! Making and removing a group, and whose it is. A group belongs to whoever holds a lock on its directory. A supervisor
//! that was killed holds none any more, and the next start removes what it left.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinfold_core::id::SandboxId;
use rustix::event::{Timespec, poll};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::CgroupError;
use super::files::Directory;

/// What every group's name begins with.
const PREFIX: &str = "pinfold-";
/// How many names are tried: each one fails only if a sweep takes it in the moment after it was made. With fifty starts
/// at once on two processors that moment may be a time slice, and eight were once not enough.
const ATTEMPTS: usize = 64;
/// How many groups one start looks at for leftovers, so that a start costs the same beside many sandboxes.
const SWEPT: usize = 128;
/// How long the kernel may take to let go of a group whose processes were all reaped.
const RELEASE: Duration = Duration::from_secs(2);

/// Makes a group that this process alone can open, and takes its lock. A sweep that came between the two has removed
/// it or is about to: then there is another try, under another name.
pub(super) fn make_locked(parent: &Path, id: &SandboxId) -> Result<Directory, CgroupError> {
    let mut path = parent.join(format!("{PREFIX}{id}"));
    for attempt in 1..=ATTEMPTS {
        match rustix::fs::mkdirat(CWD, &path, Mode::RWXU) {
            Ok(()) => match hold(&path) {
                Ok(directory) if directory.has("cgroup.procs") => return Ok(directory),
                Ok(_) | Err(Errno::NOENT | Errno::WOULDBLOCK) => {}
                Err(error) => return Err(CgroupError::Make { path, source: error.into() }),
            },
            Err(Errno::EXIST) => {}
            Err(error) => return Err(CgroupError::Make { path, source: error.into() }),
        }
        path = parent.join(format!("{PREFIX}{id}-{attempt}"));
    }
    Err(CgroupError::Make { path, source: io::ErrorKind::AlreadyExists.into() })
}

/// Opens a group and takes its lock, if nobody has it.
fn hold(path: &Path) -> Result<Directory, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)?;
    Ok(Directory::new(path.to_owned(), fd))
}

/// Removes groups below `parent` that nobody holds and that have no process.
pub(super) fn sweep(parent: &Path) -> Result<(), CgroupError> {
    let failed = |source| CgroupError::Sweep { path: parent.to_owned(), source };
    // Two links are its own, one more is the group just made (cgroupfs counts them): nothing else is there.
    if fs::metadata(parent).map_err(failed)?.nlink() <= 3 {
        return Ok(());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(parent).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            found.push(entry.path());
        }
    }
    // Another part of a long list at each start, so that none is overlooked for ever.
    if found.len() > SWEPT {
        let offset = std::process::id() as usize % found.len();
        found.rotate_left(offset);
    }
    found.into_iter().take(SWEPT).try_for_each(|path| take_away(path).map(drop))
}

/// Removes the group of sandbox `id` if nobody holds it and it has no process; whether it is gone.
pub(super) fn remove_left(parent: &Path, id: &SandboxId) -> Result<bool, CgroupError> {
    take_away(parent.join(format!("{PREFIX}{id}")))
}

/// Removes a group that nobody holds and that has no process; whether it is gone.
fn take_away(path: PathBuf) -> Result<bool, CgroupError> {
    match hold(&path).and_then(|held| rustix::fs::rmdir(held.path())) {
        Ok(()) | Err(Errno::NOENT | Errno::NODEV) => Ok(true),
        // Held, another user's, or still with processes: the kernel is ending them.
        Err(Errno::WOULDBLOCK | Errno::ACCESS | Errno::PERM | Errno::BUSY) => Ok(false),
        Err(error) => Err(CgroupError::Remove { path, source: error.into() }),
    }
}

/// Removes a group. The kernel lets go of a process a moment after it was reaped (EBUSY until then), and version 1 has
/// nothing to wait for that tells, so it is asked again: at once at first, then every millisecond.
pub(super) fn remove(path: &Path) -> Result<(), CgroupError> {
    const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let started = Instant::now();
    let failed = |error: Errno| CgroupError::Remove { path: path.to_owned(), source: error.into() };
    loop {
        match rustix::fs::rmdir(path) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::BUSY) if started.elapsed() < Duration::from_micros(200) => {
                rustix::thread::sched_yield();
            }
            Err(Errno::BUSY) if started.elapsed() < RELEASE => match poll(&mut [], Some(&PAUSE)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(failed(error)),
            },
            Err(error) => return Err(failed(error)),
        }
    }
}
