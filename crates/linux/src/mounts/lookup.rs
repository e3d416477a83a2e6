//! Looks the host paths of a plan up. The host's own symlinks are followed: they are its owner's. One that
//! lies where the inside can write is not: an earlier run may have put it there in place of a directory, to
//! be shown what it leads to.
//!
//! So nothing keeps the inside from renaming a directory that another zone is made of, while both are shown:
//! the mount stays what it was, and the next run refuses the link.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use pinfold_core::path::AbsPath;
use pinfold_core::plan::{Files, ZoneSource};
use pinfold_core::zone::Access;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat};
use rustix::io::Errno;

use super::MountError;
use super::source::Source;
use crate::probe::without;

/// As often as the kernel follows links (path_resolution(7)).
const LINKS: usize = 40;

/// A host path that a plan shows.
struct Ask<'p> {
    path: &'p AbsPath,
    access: Access,
    /// Whether what lies below it may have been written from inside: by this run, or by an earlier one, to
    /// which the workspace may have been writable although it is not now.
    written: bool,
}

/// Every host path of `files`, looked up: zones, then what is writable, then what is read-only, each in the
/// plan's order.
pub(super) fn look_up(files: &Files) -> Result<Vec<Source>, MountError> {
    let zones = files.zones.iter().filter_map(|zone| match &zone.source {
        ZoneSource::Host { path, access } => Some(Ask {
            path,
            access: *access,
            written: *access == Access::ReadWrite || zone.name == "workspace",
        }),
        ZoneSource::Tmpfs { .. } => None,
    });
    let write = files.write.iter().map(|path| Ask { path, access: Access::ReadWrite, written: true });
    let read = files.read.iter().map(|path| Ask { path, access: Access::ReadOnly, written: false });
    let asks: Vec<_> = zones.chain(write).chain(read).collect();
    // Most paths have no link in them, and one call finds both that and the object.
    let direct: Vec<_> = asks.iter().map(|ask| open(ask.path, ResolveFlags::NO_SYMLINKS)).collect();
    let linked = direct.iter().any(|opened| matches!(opened, Err(Errno::LOOP)));
    let grounds = if linked { grounds(&asks)? } else { Vec::new() };
    let mut sources = Vec::with_capacity(asks.len());
    for (ask, opened) in asks.iter().zip(direct) {
        let fd = match opened {
            Err(Errno::LOOP) => follow(ask.path, &grounds)?,
            opened => opened.map_err(|error| failed(ask.path, error))?,
        };
        let source = Source::new(ask.path, ask.access, fd)?;
        if source.real != ask.path.as_path() {
            showable(&source, &files.own)?;
        }
        sources.push(source);
    }
    Ok(sources)
}

/// One path by itself, through any link, for a build that shows what no plan asks for.
#[cfg(debug_assertions)]
pub(super) fn look_up_unchecked(path: &AbsPath, access: Access) -> Result<Source, MountError> {
    let fd = open(path, ResolveFlags::NO_MAGICLINKS).map_err(|error| failed(path, error))?;
    Source::new(path, access, fd)
}

/// A directory below which no link is followed.
struct Ground<'p> {
    identity: (u64, u64),
    path: &'p AbsPath,
}

/// The directories that can be written from inside. One that is itself reached by a planted link is wrong
/// here, and refused when its own turn comes: that link lies in another of them.
fn grounds<'p>(asks: &[Ask<'p>]) -> Result<Vec<Ground<'p>>, MountError> {
    let written = asks.iter().filter(|ask| ask.written);
    let grounds = written.map(|ask| {
        let opened = open(ask.path, ResolveFlags::NO_MAGICLINKS);
        let status = opened.and_then(fstat).map_err(|error| failed(ask.path, error))?;
        Ok(Ground { identity: (status.st_dev, status.st_ino), path: ask.path })
    });
    grounds.collect()
}

/// Opens `asked`, which has a link in it. The links are read one by one; what is opened in the end is a path
/// without any, in one call, so that nothing can be put in between.
fn follow(asked: &AbsPath, grounds: &[Ground<'_>]) -> Result<OwnedFd, MountError> {
    let failed = |error| failed(asked, error);
    // Says what is wrong with a path that leads nowhere, or through the kernel's own links.
    let opened = open(asked, ResolveFlags::NO_MAGICLINKS).map_err(failed)?;
    if without("links") {
        return Ok(opened);
    }
    let mut links = 0;
    // The names passed so far, each with the ground that it lies in or is.
    let mut passed: Vec<(OsString, Option<&Ground<'_>>)> = Vec::new();
    let mut left: Vec<OsString> = backwards(asked.as_path());
    while let Some(name) = left.pop() {
        if name == OsStr::new("..") {
            passed.pop();
            continue;
        }
        let mut path = whole(&passed);
        path.push(&name);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat2(CWD, &path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).map_err(failed)?;
        let status = fstat(&fd).map_err(failed)?;
        let within = passed.last().and_then(|(_, ground)| *ground);
        if FileType::from_raw_mode(status.st_mode) != FileType::Symlink {
            let itself = grounds.iter().find(|ground| ground.identity == (status.st_dev, status.st_ino));
            passed.push((name, itself.or(within)));
            continue;
        }
        if let Some(ground) = within {
            let within = ground.path.clone();
            return Err(MountError::PlantedLink { path: asked.clone(), link: path, within });
        }
        links += 1;
        if links > LINKS {
            return Err(failed(Errno::LOOP));
        }
        let target = readlinkat(&fd, c"", Vec::new()).map_err(failed)?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            passed.clear();
        }
        left.extend(backwards(&target));
    }
    open(whole(&passed), ResolveFlags::NO_SYMLINKS).map_err(failed)
}

/// The components of `path`, the last one first.
fn backwards(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.map(OsStr::to_owned).collect()
}

/// The absolute path of `names`.
fn whole(names: &[(OsString, Option<&Ground<'_>>)]) -> PathBuf {
    let mut path = PathBuf::from("/");
    path.extend(names.iter().map(|(name, _)| name));
    path
}

fn open(path: impl AsRef<Path>, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
    openat2(CWD, path.as_ref(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn failed(path: &AbsPath, error: Errno) -> MountError {
    MountError::LookUp { path: path.clone(), source: error.into() }
}

/// Refuses what a link leads to where the planner would have refused it by its name.
fn showable(source: &Source, own: &[AbsPath]) -> Result<(), MountError> {
    let real = source.real.as_path();
    let refuse = |why| Err(MountError::LeadsTo { path: source.asked.clone(), real: real.to_owned(), why });
    if real == Path::new("/") {
        return refuse("the whole file system");
    }
    let kernel = ["/proc", "/sys", "/dev"].iter().any(|place| real.starts_with(place));
    if kernel && !(real.starts_with("/dev/shm") && real != Path::new("/dev/shm")) {
        return refuse("the kernel's own files");
    }
    // The environment of the supervisor, which is the caller's: the planner takes home from there too.
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    if let Some(home) = home
        && (home.starts_with(real) || resolved(&home)?.starts_with(real))
    {
        return refuse("your home directory, or what holds it");
    }
    for own in own {
        if real.starts_with(own) || real.starts_with(resolved(own.as_path())?) {
            return refuse("Pinfold's own state");
        }
    }
    Ok(())
}

/// `path` with its links resolved; what does not exist has no other name.
fn resolved(path: &Path) -> Result<PathBuf, MountError> {
    match std::fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        resolved => resolved.map_err(|source| MountError::Inspect { path: path.to_owned(), source }),
    }
}
