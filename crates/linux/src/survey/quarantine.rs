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
use super::reach::{Opened, again_if_closed, entry, set_mode};
use super::state::StateDir;

/// What is copied at most when the state directory is on another file system.
const MOST_COPIED: usize = 4 << 20;

/// Where things are taken, made when the first is.
pub(crate) struct Quarantine {
    state: StateDir,
    room: Option<(OwnedFd, PathBuf)>,
    id: String,
    count: usize,
    /// Directories that had to be opened for it.
    pub(crate) opened: Vec<Opened>,
}

impl Quarantine {
    /// A quarantine below `state`, for one run.
    pub(crate) fn new(state: StateDir) -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let id = format!("{:x}-{:x}", since.as_millis(), rustix::process::getpid().as_raw_nonzero());
        Self { state, room: None, id, count: 0, opened: Vec::new() }
    }

    /// Moves what lies at `path` of `place` here. Returns where it is now; nothing when it was gone already.
    pub(crate) fn take(&mut self, place: &Place<'_>, path: &Path) -> Result<Option<PathBuf>, SurveyError> {
        let failed = |source| SurveyError::Quarantine { path: place.shown(path), source };
        let (Some(name), Some(above)) = (path.file_name(), path.parent()) else {
            return Err(failed(Errno::BUSY));
        };
        let look = || {
            let parent = open_beneath(place.root, above, OFlags::PATH | OFlags::DIRECTORY)?;
            let stat = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok((parent, stat))
        };
        let (parent, stat) = match again_if_closed(place.root, above, &mut self.opened, look) {
            Ok(found) => found,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(source) => return Err(failed(source)),
        };
        self.count += 1;
        let mut kept = OsString::from(format!("{:04}-", self.count));
        kept.push(name);
        // A long name leaves no room for the number; the end of it is the least telling.
        let mut bytes = kept.into_vec();
        bytes.truncate(240);
        let kept = OsString::from_vec(bytes);
        let to = self.enter().map_err(failed)?.join(&kept);
        let Self { room: Some((room, _)), opened, .. } = self else { return Err(failed(Errno::NOENT)) };
        let kind = FileType::from_raw_mode(stat.st_mode);
        // Moving a directory changes its `..`, which takes the right to write to it.
        let down_to = if kind == FileType::Directory { path } else { above };
        let done = again_if_closed(place.root, down_to, opened, || {
            take_one(parent.as_fd(), name, room.as_fd(), &kept, kind)
        });
        match done {
            Ok(()) => Ok(Some(to)),
            Err(Errno::XDEV) => {
                // Too large to copy, or a directory: it stays on its file system, under a name nobody looks for.
                let aside = format!("pinfold-quarantine-{}-{:04}", self.id, self.count);
                rustix::fs::renameat(&parent, name, &parent, &aside).map_err(failed)?;
                disarm(parent.as_fd(), OsStr::new(&aside), Mode::empty()).map_err(failed)?;
                Ok(Some(place.shown(&above.join(aside))))
            }
            Err(source) => Err(failed(source)),
        }
    }

    /// Makes the room of this run when it is not there, and says where it is.
    fn enter(&mut self) -> Result<PathBuf, Errno> {
        if let Some((_, path)) = &self.room {
            return Ok(path.clone());
        }
        let private = Mode::RUSR | Mode::WUSR | Mode::XUSR;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let enter = |above: BorrowedFd<'_>, name: &str| match rustix::fs::mkdirat(above, name, private) {
            Ok(()) | Err(Errno::EXIST) => rustix::fs::openat(above, name, flags, Mode::empty()),
            Err(source) => Err(source),
        };
        let all = enter(self.state.as_fd(), "quarantine")?;
        let room = enter(all.as_fd(), &self.id)?;
        let path = self.state.path().join("quarantine").join(&self.id);
        self.room = Some((room, path.clone()));
        Ok(path)
    }
}

/// Moves one thing. What it was when it was looked at decides only how it is copied if it cannot be moved: another
/// sandbox may put something else there at any time, and what arrived is looked at again.
fn take_one(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    room: BorrowedFd<'_>,
    kept: &OsStr,
    kind: FileType,
) -> Result<(), Errno> {
    match rustix::fs::renameat(parent, name, room, kept) {
        Ok(()) => disarm(room, kept, Mode::RUSR | Mode::WUSR),
        Err(Errno::XDEV) => {
            let bytes = match kind {
                FileType::Symlink => rustix::fs::readlinkat(parent, name, Vec::new())?.into_bytes(),
                FileType::RegularFile => {
                    read_beneath(parent, Path::new(name), MOST_COPIED)?.ok_or(Errno::XDEV)?
                }
                _ => return Err(Errno::XDEV),
            };
            write_new(room, kept, &bytes, None)?;
            rustix::fs::unlinkat(parent, name, AtFlags::empty())
        }
        Err(source) => Err(source),
    }
}

/// Takes from what was moved the power to act: a file, or a directory left beside where it was, gets `mode`; a link
/// becomes a text that says where it led, for a link in quarantine would still lead there. Nothing is followed: the
/// name may have become a link to anything since it was looked at.
fn disarm(room: BorrowedFd<'_>, kept: &OsStr, mode: Mode) -> Result<(), Errno> {
    let (file, stat) = entry(room, kept)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => set_mode(file.as_fd(), mode),
        FileType::Directory if mode.is_empty() => set_mode(file.as_fd(), mode),
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(&file, "", Vec::new())?;
            rustix::fs::unlinkat(room, kept, AtFlags::empty())?;
            write_new(room, kept, target.as_bytes(), None)
        }
        _ => Ok(()),
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_link_that_took_the_place_of_a_file_is_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let victim = temp.path().join("victim");
        for mode in [Mode::empty(), Mode::RUSR] {
            std::fs::write(&victim, "v").unwrap();
            std::fs::set_permissions(&victim, std::fs::Permissions::from_mode(0o755)).unwrap();
            let (parent, room) = (temp.path().join("parent"), temp.path().join("room"));
            for directory in [&parent, &room] {
                std::fs::create_dir(directory).unwrap();
            }
            symlink(&victim, parent.join("hook")).unwrap();
            let open = |path: &Path| rustix::fs::open(path, OFlags::PATH, Mode::empty()).unwrap();
            let (from, to) = (open(&parent), open(&room));
            // Looked at as a file, a link by the time it is moved.
            let (name, kept) = (OsStr::new("hook"), OsStr::new("kept"));
            take_one(from.as_fd(), name, to.as_fd(), kept, FileType::RegularFile).unwrap();
            symlink(&victim, room.join("aside")).unwrap();
            disarm(to.as_fd(), OsStr::new("aside"), mode).unwrap();
            for name in ["kept", "aside"] {
                assert_eq!(std::fs::read_to_string(room.join(name)).unwrap(), victim.to_str().unwrap());
                assert!(!room.join(name).is_symlink());
            }
            assert_eq!(std::fs::metadata(&victim).unwrap().permissions().mode() & 0o777, 0o755);
            for directory in [&parent, &room] {
                std::fs::remove_dir_all(directory).unwrap();
            }
        }
    }
}
