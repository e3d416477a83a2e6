//! Taking something out of the host's way without destroying it: into the state directory, under a name and mode
//! that no tool acts on. Why it is taken is decided in `end`.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

use super::SurveyError;
use super::places::{Place, open_beneath, read_beneath};
use super::state::StateDir;

/// What is copied at most when the state directory is on another file system.
const MOST_COPIED: usize = 4 << 20;

/// Where things are taken, made when the first is.
pub(crate) struct Quarantine {
    state: StateDir,
    room: Option<(OwnedFd, PathBuf)>,
    id: String,
    count: usize,
}

impl Quarantine {
    /// A quarantine below `state`, for one run.
    pub(crate) fn new(state: StateDir) -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let id = format!("{:x}-{:x}", since.as_millis(), rustix::process::getpid().as_raw_nonzero());
        Self { state, room: None, id, count: 0 }
    }

    /// Moves what lies at `path` of `place` here. Returns where it is now; nothing when it was gone already.
    pub(crate) fn take(&mut self, place: &Place<'_>, path: &Path) -> Result<Option<PathBuf>, SurveyError> {
        let failed = |source| SurveyError::Quarantine { path: place.shown(path), source };
        let (Some(name), Some(above)) = (path.file_name(), path.parent()) else {
            return Err(failed(Errno::BUSY));
        };
        let parent = match open_beneath(place.root, above, OFlags::PATH | OFlags::DIRECTORY) {
            Ok(parent) => parent,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(source) => return Err(failed(source)),
        };
        let stat = match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(source) => return Err(failed(source)),
        };
        self.count += 1;
        let mut kept = OsString::from(format!("{:04}-", self.count));
        kept.push(name);
        // A long name leaves no room for the number; the end of it is the least telling.
        let mut bytes = kept.into_vec();
        bytes.truncate(240);
        let kept = OsString::from_vec(bytes);
        let (room, at) = self.room().map_err(failed)?;
        let to = at.join(&kept);
        let done = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => take_link(parent.as_fd(), name, room, &kept),
            kind => take_other(parent.as_fd(), name, room, &kept, kind),
        };
        match done {
            Ok(()) => Ok(Some(to)),
            Err(Errno::XDEV) => {
                // Too large to copy, or a directory: it stays on its file system, under a name nobody looks for.
                let aside = format!("pinfold-quarantine-{}-{:04}", self.id, self.count);
                rustix::fs::renameat(&parent, name, &parent, &aside).map_err(failed)?;
                rustix::fs::chmodat(&parent, &aside, Mode::empty(), AtFlags::empty()).map_err(failed)?;
                Ok(Some(place.shown(&above.join(aside))))
            }
            Err(source) => Err(failed(source)),
        }
    }

    fn room(&mut self) -> Result<(BorrowedFd<'_>, PathBuf), Errno> {
        if self.room.is_none() {
            let private = Mode::RUSR | Mode::WUSR | Mode::XUSR;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let enter = |above: BorrowedFd<'_>, name: &str| match rustix::fs::mkdirat(above, name, private) {
                Ok(()) | Err(Errno::EXIST) => rustix::fs::openat(above, name, flags, Mode::empty()),
                Err(source) => Err(source),
            };
            let all = enter(self.state.as_fd(), "quarantine")?;
            let room = enter(all.as_fd(), &self.id)?;
            self.room = Some((room, self.state.path().join("quarantine").join(&self.id)));
        }
        match &self.room {
            Some((room, path)) => Ok((room.as_fd(), path.clone())),
            None => Err(Errno::NOENT),
        }
    }
}

/// A link is kept as a text that says where it led: a link in quarantine would still lead there.
fn take_link(parent: BorrowedFd<'_>, name: &OsStr, room: BorrowedFd<'_>, kept: &OsStr) -> Result<(), Errno> {
    let target = rustix::fs::readlinkat(parent, name, Vec::new())?;
    write_new(room, kept, target.as_bytes(), None)?;
    rustix::fs::unlinkat(parent, name, AtFlags::empty())
}

fn take_other(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    room: BorrowedFd<'_>,
    kept: &OsStr,
    kind: FileType,
) -> Result<(), Errno> {
    match rustix::fs::renameat(parent, name, room, kept) {
        Ok(()) if kind == FileType::RegularFile => {
            rustix::fs::chmodat(room, kept, Mode::RUSR | Mode::WUSR, AtFlags::empty())
        }
        Err(Errno::XDEV) if kind == FileType::RegularFile => {
            let bytes = read_beneath(parent, Path::new(name), MOST_COPIED)?.ok_or(Errno::XDEV)?;
            write_new(room, kept, &bytes, None)?;
            rustix::fs::unlinkat(parent, name, AtFlags::empty())
        }
        other => other,
    }
}

/// Writes a file that is not there yet: the caller's own, or with the owner and readers of another.
pub(crate) fn write_new(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    bytes: &[u8],
    like: Option<&Stat>,
) -> Result<(), Errno> {
    use std::io::Write;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
    if let Some(like) = like {
        let (user, group) = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
        if user != rustix::process::geteuid() || group != rustix::process::getegid() {
            rustix::fs::fchown(&file, Some(user), Some(group))?;
        }
        rustix::fs::fchmod(&file, Mode::from_raw_mode(like.st_mode & 0o644 | 0o600))?;
    }
    std::fs::File::from(file).write_all(bytes).map_err(|error| super::state::io_errno(&error))
}
