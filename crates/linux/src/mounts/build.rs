//! Puts a layout together in a new mount namespace. Each public function is one step of `steps`, in its
//! order; what is where was decided in `layout`.
//!
//! Nothing in the namespace runs yet but this code, so a mount may be attached first and restricted after:
//! one recursive call then makes the whole of what is attached so far read-only, private, without set-id and
//! devices.
//!
//! What has a name that nobody but root and this code can change is mounted by it, with mount(2): one call. The new
//! mount calls take three to eight, and a mount namespace each for the mount until it is attached. They are for what
//! may be an attacker's: there, no name is looked up twice, and none through a link.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dev, FileType, Mode, OFlags, ResolveFlags};
use rustix::fs::{mkdirat, mknodat, openat, openat2, statat, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, mount, mount_bind, mount_bind_recursive, move_mount, open_tree,
};

use super::layout::{Entry, Layout, What};
use super::source::Kind;
use super::{MountError, system};
use crate::survey::With;
use crate::sys::descriptors::Done;
use crate::sys::mount::{Attributes, Reach, set_attributes, set_attributes_at};

/// What covers a file that is not to be seen: mode 0, so that reading it fails instead of giving a wrong
/// answer.
pub(super) const NO_FILE: &CStr = c".pinfold/file";
/// What covers a directory that is not to be seen.
pub(super) const NO_DIRECTORY: &CStr = c".pinfold/directory";
/// What covers a link: one that leads nowhere.
pub(super) const NO_LINK: &CStr = c".pinfold/link";

/// One of these as a path.
pub(super) fn path_of(kind: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(kind.to_bytes()))
}

/// Directories of which every host has one; the new root hangs there until it becomes the root.
const HANGERS: &[&str] = &["/tmp", "/var", "/mnt", "/srv"];

const LOCKED: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_RDONLY
    .union(MountAttrFlags::MOUNT_ATTR_NOSUID)
    .union(MountAttrFlags::MOUNT_ATTR_NODEV);
const HARMLESS: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);
/// The same for mount(2).
const QUIET: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Who opens the host paths that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mounts {
    /// The new namespace, by their names.
    Open,
    /// The supervisor, which hands them over.
    HandedOver,
}

/// A root in the making.
#[derive(Debug)]
pub(crate) struct Build {
    layout: Layout,
    root: OwnedFd,
    mounts: Vec<Option<OwnedFd>>,
}

impl Build {
    /// Hangs an empty root up. Before that, while they can still be named, the host paths of `layout` are
    /// opened, unless the supervisor does so and hands them over.
    pub(crate) fn new(mut layout: Layout, mounts: Mounts) -> Result<Self, MountError> {
        let mut opened = Vec::with_capacity(layout.places.len());
        for place in &mut layout.places {
            opened.push(match &mut place.what {
                What::Host(source) if mounts == Mounts::Open => Some(source.mount_inside()?),
                What::Host(_) | What::Memory(_) => None,
            });
        }
        // Made of directories, links and a few small files: far below this.
        let root = new_tmpfs(Path::new("/"), "8m", "0755", HARMLESS)?;
        hang(&root)?;
        // What is mounted by name has a short one.
        rustix::process::fchdir(&root)
            .map_err(|error| MountError::Attach { path: "/".into(), source: error.into() })?;
        Ok(Self { layout, root, mounts: opened })
    }

    /// Takes a mount for the next place that shows something of the host and has none.
    pub(crate) fn take_mount(&mut self, mount: OwnedFd) {
        let places = self.layout.places.iter().zip(&mut self.mounts);
        let waiting = places.filter(|(place, mount)| matches!(place.what, What::Host(_)) && mount.is_none());
        if let Some((_, slot)) = { waiting }.next() {
            *slot = Some(mount);
        }
    }

    /// Where the places are that show something of the host, in the order of the survey's zones.
    pub(crate) fn zones(&self) -> Vec<PathBuf> {
        let hosts = self.layout.places.iter().filter(|place| matches!(place.what, What::Host(_)));
        hosts.map(|place| place.at.clone()).collect()
    }

    /// The root, for covers.
    pub(crate) fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Directories, links and made-up files.
    pub(crate) fn entries(&mut self) -> Result<(), MountError> {
        for entry in &self.layout.entries {
            let (path, made) = match entry {
                Entry::Directory(path, mode) => (path, mkdirat(&self.root, path, Mode::from_raw_mode(*mode))),
                Entry::Link(path, target) => (path, symlinkat(target, &self.root, path)),
                Entry::Point(path) => (path, self.empty_file(path)),
                Entry::File(path, text) => (path, self.file(path, text)),
            };
            made.map_err(|error| MountError::Create { path: path.clone(), source: error.into() })?;
        }
        Ok(())
    }

    fn empty_file(&self, path: &Path) -> Result<(), Errno> {
        let mode = if path == path_of(NO_FILE) { 0 } else { 0o444 };
        mknodat(&self.root, path, FileType::RegularFile, Mode::from_raw_mode(mode), Dev::default())
    }

    fn file(&self, path: &Path, text: &[u8]) -> Result<(), Errno> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&self.root, path, flags, Mode::from_raw_mode(0o444))?;
        // tmpfs takes a small file in one write or not at all.
        rustix::io::write(file, text).map(drop)
    }

    /// The host's system directories, then everything so far made read-only, and what is denied covered.
    pub(crate) fn system(&mut self) -> Result<(), MountError> {
        let mut host = PathBuf::new();
        for path in &self.layout.system {
            host.clear();
            host.push("/");
            host.push(path);
            if system::is_roots(path) {
                bind_tree(&host, path)?;
                continue;
            }
            let mount = clone_tree(CWD, &host)
                .map_err(|source| MountError::CloneTree { path: host.clone(), source })?;
            self.attach(&mount, path)?;
        }
        let attributes = Attributes { private: true, ..Attributes::set(LOCKED) };
        set_attributes(&self.root, Reach::Tree, attributes)
            .map_err(|source| MountError::Attributes { path: "/".into(), source })?;
        if crate::probe::without("masks") { Ok(()) } else { cover_all(&self.root, &self.layout.denied) }
    }

    /// A fresh `/proc` of the new process namespace, its dangerous entries covered.
    pub(crate) fn proc(&mut self) -> Result<(), MountError> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        make(Path::new("proc"), "proc", flags, None)?;
        for name in system::PROC_READ_ONLY {
            self.read_only(name)?;
        }
        if crate::probe::without("masks") {
            return Ok(());
        }
        for name in system::PROC_MASKED {
            let at = Path::new("proc").join(name);
            let status = match statat(&self.root, &at, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(status) => status,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(MountError::MountPoint { path: at, source: error.into() }),
            };
            let kind = match FileType::from_raw_mode(status.st_mode) {
                FileType::Directory => NO_DIRECTORY,
                _ => NO_FILE,
            };
            // A copy of part of the read-only root, and so read-only too.
            mount_bind(kind, &at)
                .map_err(|error| MountError::Attach { path: at.clone(), source: error.into() })?;
        }
        Ok(())
    }

    /// Binds an entry of `/proc` over itself, read-only; what a kernel does not have is skipped.
    fn read_only(&self, name: &CStr) -> Result<(), MountError> {
        let path = || PathBuf::from(name.to_string_lossy().into_owned());
        match mount_bind(name, name) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(MountError::Attach { path: path(), source: error.into() }),
        }
        let attributes = Attributes::set(MountAttrFlags::MOUNT_ATTR_RDONLY);
        set_attributes_at(&self.root, name, Reach::Mount, attributes)
            .map_err(|source| MountError::Attributes { path: path(), source })
    }

    /// The devices of the host that are shown, terminals of this sandbox alone, shared memory.
    pub(crate) fn dev(&mut self) -> Result<(), MountError> {
        for name in system::DEVICES {
            let host = Path::new("/dev").join(name);
            bind_tree(&host, host.strip_prefix("/").unwrap_or(&host))?;
        }
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        make(Path::new("dev/pts"), "devpts", flags, Some(c"ptmxmode=0666,mode=0620"))?;
        if self.layout.shared_memory {
            make(Path::new("dev/shm"), "tmpfs", QUIET, Some(c"size=64m,mode=1777"))?;
        }
        Ok(())
    }

    /// Zones and shown paths, outer ones first.
    pub(crate) fn places(&mut self) -> Result<(), MountError> {
        for index in 0..self.layout.places.len() {
            let place = &self.layout.places[index];
            let mount = match (&place.what, self.mounts[index].take()) {
                (What::Memory(size_mb), _) => {
                    self.memory(index, *size_mb)?;
                    continue;
                }
                (What::Host(_), Some(mount)) => mount,
                (What::Host(source), None) => return Err(MountError::Changed { path: source.real.clone() }),
            };
            match &place.within {
                None => self.attach(&mount, &place.at)?,
                Some(within) => self.attach_within(&mount, index, within)?,
            }
        }
        Ok(())
    }

    fn attach_within(&self, mount: &OwnedFd, index: usize, within: &str) -> Result<(), MountError> {
        let point = self.existing_point(index, within)?;
        attach_at(mount, &point)
            .map_err(|source| MountError::Attach { path: self.layout.places[index].at.clone(), source })
    }

    /// Memory for a zone; the home directory lies in `/scratch`.
    fn memory(&self, index: usize, size_mb: u64) -> Result<(), MountError> {
        let at = &self.layout.places[index].at;
        let mode = if at == Path::new("tmp") { "1777" } else { "0755" };
        match &self.layout.places[index].within {
            None => {
                let options = CString::new(format!("size={size_mb}m,mode={mode}")).unwrap_or_default();
                make(at, "tmpfs", QUIET, Some(&options))?;
            }
            Some(within) => {
                let mount = new_tmpfs(at, format!("{size_mb}m"), mode, HARMLESS)?;
                self.attach_within(&mount, index, within)?;
            }
        }
        if at == Path::new("scratch") {
            mkdirat(&self.root, c"scratch/home", Mode::from_raw_mode(0o700))
                .map_err(|error| MountError::Create { path: system::HOME.into(), source: error.into() })?;
        }
        Ok(())
    }

    /// The mount point of a place that lies in another mount: it is made only where that costs memory alone.
    fn existing_point(&self, index: usize, within: &str) -> Result<OwnedFd, MountError> {
        let place = &self.layout.places[index];
        let outer_is_memory = self.layout.places[..index]
            .iter()
            .rev()
            .find(|outer| place.at.starts_with(&outer.at))
            .is_some_and(|outer| matches!(outer.what, What::Memory(_)));
        let kind = match &place.what {
            What::Host(source) => source.kind,
            What::Memory(_) => Kind::Directory,
        };
        if outer_is_memory {
            self.make_point(&place.at, kind)?;
        }
        let directory = if kind == Kind::Directory { OFlags::DIRECTORY } else { OFlags::empty() };
        open_inside(&self.root, &place.at, directory).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => MountError::NoMountPoint {
                name: place.name.clone(),
                path: Path::new("/").join(&place.at),
                within: within.to_owned(),
                kind: if kind == Kind::Directory { "directory" } else { "file" },
            },
            error => MountError::MountPoint { path: place.at.clone(), source: error.into() },
        })
    }

    fn make_point(&self, at: &Path, kind: Kind) -> Result<(), MountError> {
        let failed =
            |path: &Path, error: Errno| MountError::Create { path: path.to_owned(), source: error.into() };
        let mut made = PathBuf::new();
        let last = at.components().count() - 1;
        for (depth, component) in at.components().enumerate() {
            made.push(component);
            let result = match kind {
                Kind::File if depth == last => self.empty_file(&made),
                _ => mkdirat(&self.root, &made, Mode::from_raw_mode(0o755)),
            };
            match result {
                Ok(()) | Err(Errno::EXIST | Errno::ROFS) => {}
                Err(error) => return Err(failed(&made, error)),
            }
        }
        Ok(())
    }

    /// Makes the new root the root. The old one is mounted on it then, until it is let go of; `/` and what is below are
    /// the new one's already.
    pub(crate) fn pivot(&mut self) -> Result<(), MountError> {
        let failed = |error: Errno| MountError::Pivot { source: error.into() };
        // Both arguments alike: the old root ends up above the new one, at the same place (pivot_root(2)).
        rustix::process::pivot_root(c".", c".").map_err(failed)
    }

    /// Attaches at a mount point that this code made.
    fn attach(&self, mount: &OwnedFd, at: &Path) -> Result<(), MountError> {
        move_mount(mount, c"", &self.root, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
            .map_err(|error| MountError::Attach { path: at.to_owned(), source: error.into() })
    }
}

/// Covers paths in the root `root`, which is read-only by now, in this order.
pub(crate) fn cover_all(root: &OwnedFd, covers: &[(PathBuf, With)]) -> Result<(), MountError> {
    let mut done = Done::default();
    let mut above: Option<(&[u8], OwnedFd)> = None;
    for (at, with) in covers {
        let bytes = at.as_os_str().as_bytes();
        let (directory, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
            Some(slash) if hidden_by(*with).is_some() => (&bytes[..slash], &bytes[slash + 1..]),
            _ => {
                // What is opened must be what is on top now.
                done_with(&mut above, &mut done);
                cover(root, at, *with)?;
                continue;
            }
        };
        if above.as_ref().is_none_or(|(open, _)| *open != directory) {
            done_with(&mut above, &mut done);
            let path = Path::new(OsStr::from_bytes(directory));
            let opened = open_inside(root, path, OFlags::DIRECTORY)
                .map_err(|error| MountError::MountPoint { path: at.clone(), source: error.into() })?;
            above = Some((directory, opened));
        }
        if let (Some((_, directory)), Some(kind)) = (&above, hidden_by(*with)) {
            let mount = nothing(root, kind)?;
            // One name cannot lead out of the directory, and without MOVE_MOUNT_T_SYMLINKS a link is not followed.
            move_mount(&mount, c"", directory, name, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
                .map_err(|error| MountError::Attach { path: at.clone(), source: error.into() })?;
            done.close(mount);
        }
    }
    done_with(&mut above, &mut done);
    Ok(())
}

fn done_with(above: &mut Option<(&[u8], OwnedFd)>, done: &mut Done) {
    if let Some((_, directory)) = above.take() {
        done.close(directory);
    }
}

/// Covers the path `at` in the root `root`.
pub(crate) fn cover(root: &OwnedFd, at: &Path, with: With) -> Result<(), MountError> {
    let point = open_inside(root, at, OFlags::NOFOLLOW)
        .map_err(|error| MountError::MountPoint { path: at.to_owned(), source: error.into() })?;
    let mount = match (with, hidden_by(with)) {
        (_, Some(kind)) => nothing(root, kind)?,
        (With::Pinned, None) => itself(&point, at, None)?,
        (_, None) => itself(&point, at, Some(LOCKED))?,
    };
    attach_at(&mount, &point).map_err(|source| MountError::Attach { path: at.to_owned(), source })
}

/// What of the root hides what lies there; none when it is to be seen.
const fn hidden_by(with: With) -> Option<&'static CStr> {
    match with {
        With::EmptyFile => Some(NO_FILE),
        With::EmptyDir => Some(NO_DIRECTORY),
        With::Absent => Some(NO_LINK),
        With::Itself | With::Pinned => None,
    }
}

/// What is at `point`, once more: with `flags` added to the whole of it, or as it is.
fn itself(point: &OwnedFd, at: &Path, flags: Option<MountAttrFlags>) -> Result<OwnedFd, MountError> {
    let tree = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let mount = open_tree(point, c"", tree)
        .map_err(|error| MountError::CloneTree { path: at.to_owned(), source: error.into() })?;
    if let Some(flags) = flags {
        set_attributes(&mount, Reach::Tree, Attributes::set(flags))
            .map_err(|source| MountError::Attributes { path: at.to_owned(), source })?;
    }
    Ok(mount)
}

/// A mount that shows nothing; a copy of part of the read-only root, and so read-only too.
fn nothing(root: &OwnedFd, kind: &CStr) -> Result<OwnedFd, MountError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    open_tree(root, kind, flags)
        .map_err(|error| MountError::CloneTree { path: path_of(kind).into(), source: error.into() })
}

/// Opens a place in the new root without following any link: what lies there may be an attacker's.
fn open_inside(root: &OwnedFd, at: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat2(
        root,
        at,
        OFlags::PATH | OFlags::CLOEXEC | flags,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}

/// Attaches at an opened mount point.
fn attach_at(mount: &OwnedFd, point: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, c"", point, c"", flags)?)
}

/// Shows the mounts at and below `host` at `at` in the new root, which is the working directory. For names that nobody
/// but root can change.
fn bind_tree(host: &Path, at: &Path) -> Result<(), MountError> {
    mount_bind_recursive(host, at)
        .map_err(|error| MountError::Attach { path: at.to_owned(), source: error.into() })
}

/// Mounts a new file system at a mount point that this code made in the new root, which is the working directory.
fn make(at: &Path, kind: &'static str, flags: MountFlags, options: Option<&CStr>) -> Result<(), MountError> {
    mount(c"none", at, kind, flags, options).map_err(|error| MountError::Make {
        kind,
        path: Path::new("/").join(at),
        source: error.into(),
    })
}

/// A copy of the mounts at and below a path of the host.
fn clone_tree(directory: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(directory, path, flags)?)
}

/// A new tmpfs, not attached yet.
fn new_tmpfs(
    at: &Path,
    size: impl rustix::path::Arg,
    mode: impl rustix::path::Arg,
    flags: MountAttrFlags,
) -> Result<OwnedFd, MountError> {
    let make = || -> io::Result<OwnedFd> {
        let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, c"size", size)?;
        fsconfig_set_string(&context, c"mode", mode)?;
        mount_of(&context, flags)
    };
    make().map_err(|source| MountError::Make { kind: "tmpfs", path: at.to_owned(), source })
}

/// Creates the file system that `context` describes, and a mount of it.
fn mount_of(context: &OwnedFd, flags: MountAttrFlags) -> io::Result<OwnedFd> {
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}

/// Attaches the new root somewhere in the copied tree of the host: `pivot_root` wants it attached.
fn hang(root: &OwnedFd) -> Result<(), MountError> {
    let mut failure = Errno::NOENT;
    for hanger in HANGERS {
        match move_mount(root, c"", CWD, *hanger, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH) {
            Ok(()) => return Ok(()),
            Err(error) => failure = error,
        }
    }
    Err(MountError::Attach { path: HANGERS[0].into(), source: failure.into() })
}
