//! A path of the host that is shown inside: looked up once, remembered by identity, opened as a mount.
//!
//! Run by root, the mount is made here, before the clone, with root's rights and an id map. Run by a user,
//! only the new namespace may make it, so its process looks the resolved path up again and compares
//! identities.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use pinfold_core::path::AbsPath;
use pinfold_core::zone::Access;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};

use super::MountError;
use crate::sys::mount::{Attributes, Reach, set_attributes};

/// What a mount point must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
}

/// A host path, looked up.
#[derive(Debug)]
pub(crate) struct Source {
    /// As the plan names it.
    pub(crate) asked: AbsPath,
    /// Where it really is: `asked` with every symlink resolved, once.
    pub(crate) real: PathBuf,
    /// What it is.
    pub(crate) kind: Kind,
    /// What may be done with it inside.
    pub(crate) access: Access,
    /// Its owner on disk.
    pub(crate) owner: (u32, u32),
    /// Which object of the host it is, whatever its name.
    identity: (u64, u64),
    /// The looked-up object itself.
    fd: OwnedFd,
    /// The detached mount, where this process may make one.
    mount: Option<OwnedFd>,
}

impl Source {
    /// What `asked` is, as `fd` says, which `lookup` opened with `O_PATH`.
    pub(super) fn new(asked: &AbsPath, access: Access, fd: OwnedFd) -> Result<Self, MountError> {
        let failed = |source: io::Error| MountError::LookUp { path: asked.clone(), source };
        let status = fstat(&fd).map_err(|error| failed(error.into()))?;
        let kind = match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => Kind::Directory,
            FileType::RegularFile => Kind::File,
            _ => return Err(MountError::NeitherFileNorDirectory { path: asked.clone() }),
        };
        let real = real_path(fd.as_fd()).map_err(failed)?;
        Ok(Self {
            asked: asked.clone(),
            real,
            kind,
            access,
            owner: (status.st_uid, status.st_gid),
            identity: (status.st_dev, status.st_ino),
            fd,
            mount: None,
        })
    }

    /// A second handle on the looked-up object, for the survey.
    pub(crate) fn duplicate(&self) -> Result<OwnedFd, MountError> {
        self.fd.try_clone().map_err(|source| MountError::LookUp { path: self.asked.clone(), source })
    }

    /// Makes the mount here and now, with `id_map` applied; for a caller with CAP_SYS_ADMIN.
    pub(crate) fn mount_here(&mut self, id_map: Option<BorrowedFd<'_>>) -> Result<(), MountError> {
        let mount = clone_tree(self.fd.as_fd())
            .map_err(|source| MountError::CloneTree { path: self.real.clone(), source })?;
        let attributes = Attributes { set: flags(self.access), private: true, id_map };
        set_attributes(&mount, Reach::Tree, attributes).map_err(|source| match id_map {
            Some(_) => MountError::IdMap { path: self.real.clone(), source },
            None => MountError::Attributes { path: self.real.clone(), source },
        })?;
        self.mount = Some(mount);
        Ok(())
    }

    /// The mount that [`Source::mount_here`] made.
    pub(crate) fn take_mount(&mut self) -> Option<OwnedFd> {
        self.mount.take()
    }

    /// Makes the mount in the new namespace.
    pub(crate) fn mount_inside(&self) -> Result<OwnedFd, MountError> {
        let failed = |source: io::Error| MountError::CloneTree { path: self.real.clone(), source };
        let fd = openat2(
            CWD,
            &self.real,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        )
        .map_err(|error| failed(error.into()))?;
        let status = fstat(&fd).map_err(|error| failed(error.into()))?;
        if (status.st_dev, status.st_ino) != self.identity {
            return Err(MountError::Changed { path: self.real.clone() });
        }
        let mount = clone_tree(fd.as_fd()).map_err(failed)?;
        let attributes = Attributes { set: flags(self.access), private: true, id_map: None };
        set_attributes(&mount, Reach::Tree, attributes)
            .map_err(|source| MountError::Attributes { path: self.real.clone(), source })?;
        Ok(mount)
    }
}

/// A private copy of the mounts at and below `fd`, attached nowhere. Always the whole tree: the kernel
/// refuses to uncover, in a less privileged namespace, what a mount of the host covers (mount_namespaces(7)).
fn clone_tree(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(fd, c"", flags)?)
}

/// The flags that give `access`.
fn flags(access: Access) -> u64 {
    let always = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let all = match access {
        Access::ReadOnly => always | MountAttrFlags::MOUNT_ATTR_RDONLY,
        Access::ReadWrite => always,
    };
    u64::from(all.bits())
}

/// Where an open descriptor leads, as the kernel names it.
fn real_path(fd: BorrowedFd<'_>) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let path = readlinkat(CWD, Path::new(&link), Vec::new())?;
    Ok(PathBuf::from(std::ffi::OsString::from_vec(path.into_bytes())))
}
