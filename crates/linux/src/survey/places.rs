//! Looking things up in a zone: every path goes through the zone's root descriptor and none can leave it.
//!
//! A zone's contents are hostile: an earlier run may have left links, FIFOs, deep trees and strange names behind.
//! So nothing here opens a file for reading that was not first seen to be a regular file, and no link is followed
//! (`links` follows them, one step at a time). What is found is judged elsewhere.

use std::ffi::OsStr;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pinfold_core::zone::Access;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat};
use rustix::io::Errno;

use super::{SurveyError, Zone};

/// The longest path the kernel takes in one call, its NUL included (PATH_MAX).
pub(crate) const PATH_MAX: usize = 4096;

/// One zone, as the survey sees it.
pub(crate) struct Place<'z> {
    /// Its position among the zones.
    pub(crate) index: usize,
    /// Its root.
    pub(crate) root: BorrowedFd<'z>,
    /// Where the plan says it is.
    pub(crate) host: &'z Path,
    /// What may be done inside it.
    pub(crate) access: Access,
    /// Device, inode and kind of its root.
    pub(crate) stat: Stat,
    real: OnceLock<PathBuf>,
}

impl<'z> Place<'z> {
    /// Looks at the root of `zone`.
    pub(crate) fn new(index: usize, zone: &'z Zone) -> Result<Self, SurveyError> {
        let stat = rustix::fs::fstat(&zone.root)
            .map_err(|source| SurveyError::Look { path: zone.host.as_path().to_owned(), source })?;
        Ok(Self {
            index,
            root: zone.root.as_fd(),
            host: zone.host.as_path(),
            access: zone.access,
            stat,
            real: OnceLock::new(),
        })
    }

    /// True when the inside may change something here.
    pub(crate) fn writable(&self) -> bool {
        self.access == Access::ReadWrite
    }

    /// True for a zone that is a directory; a zone can be a single file.
    pub(crate) fn is_dir(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }

    /// Where the root really is on the host, links resolved.
    pub(crate) fn real(&self) -> Result<&Path, SurveyError> {
        if let Some(real) = self.real.get() {
            return Ok(real);
        }
        let magic = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&self.root));
        let real = rustix::fs::readlink(magic, Vec::new())
            .map_err(|source| SurveyError::Look { path: self.host.to_owned(), source })?;
        Ok(self.real.get_or_init(|| PathBuf::from(OsStr::from_bytes(real.as_bytes()))))
    }

    /// The host path of something in here, for words and errors.
    pub(crate) fn shown(&self, path: &Path) -> PathBuf {
        if path.as_os_str().is_empty() { self.host.to_owned() } else { self.host.join(path) }
    }

    fn failed(&self, path: &Path, source: Errno) -> SurveyError {
        SurveyError::Look { path: self.shown(path), source }
    }

    /// Opens `path` below the root, following no link and leaving by no `..` (openat2(2)).
    pub(crate) fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        open_beneath(self.root, path, flags)
    }

    /// What lies at `path` itself: a link is seen, not followed. Nothing when it, or a directory on the way, is
    /// not there, or when the way leads through a link.
    pub(crate) fn stat(&self, path: &Path) -> Result<Option<Stat>, SurveyError> {
        match stat_beneath(self.root, path) {
            // Behind a directory that the caller may not search, the inside finds nothing either, unless it is
            // the directory's owner and gives itself the right.
            Err(Errno::ACCESS) if !self.is_behind_own_door(path)? => Ok(None),
            other => other.map_err(|source| self.failed(path, source)),
        }
    }

    /// Whether the directory that keeps the caller from reaching `path` belongs to the caller.
    fn is_behind_own_door(&self, path: &Path) -> Result<bool, SurveyError> {
        let me = rustix::process::geteuid().as_raw();
        for above in path.ancestors().skip(1) {
            match stat_beneath(self.root, above) {
                Ok(Some(door)) => return Ok(door.st_uid == me),
                Ok(None) => return Ok(false),
                Err(Errno::ACCESS) => {}
                Err(source) => return Err(self.failed(above, source)),
            }
        }
        Ok(false)
    }

    /// Where the link at `path` points.
    pub(crate) fn read_link(&self, path: &Path) -> Result<PathBuf, SurveyError> {
        let link =
            self.open(path, OFlags::PATH | OFlags::NOFOLLOW).map_err(|source| self.failed(path, source))?;
        let target =
            rustix::fs::readlinkat(&link, "", Vec::new()).map_err(|source| self.failed(path, source))?;
        Ok(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
    }

    /// The names in the directory at `path` with their kinds; at most `limit`, and whether that was all.
    pub(crate) fn list(
        &self,
        path: &Path,
        limit: usize,
    ) -> Result<(Vec<(PathBuf, FileType)>, bool), SurveyError> {
        let failed = |source| self.failed(path, source);
        let directory = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        let mut entries = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut raw = RawDir::new(&directory, &mut buffer);
        while let Some(entry) = raw.next() {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if entries.len() == limit {
                return Ok((entries, false));
            }
            let mut kind = entry.file_type();
            // Some file systems leave the type out of the directory (readdir(3)).
            if kind == FileType::Unknown {
                kind = match rustix::fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(source) => return Err(failed(source)),
                };
            }
            entries.push((PathBuf::from(OsStr::from_bytes(name)), kind));
        }
        Ok((entries, true))
    }

    /// The contents of the regular file at `path`, or nothing when it is something else, absent, or longer than
    /// `limit`.
    pub(crate) fn read(&self, path: &Path, limit: usize) -> Result<Option<Vec<u8>>, SurveyError> {
        read_beneath(self.root, path, limit).map_err(|source| self.failed(path, source))
    }

    /// The part of a real host path that lies below this zone's root.
    pub(crate) fn below<'p>(&self, real: &'p Path) -> Result<Option<&'p Path>, SurveyError> {
        Ok(real.strip_prefix(self.real()?).ok())
    }
}

/// True for a name without a directory. By its bytes: taking paths apart is what costs where there are many.
pub(crate) fn is_one_name(path: &Path) -> bool {
    !path.as_os_str().as_bytes().contains(&b'/')
}

/// The directory that `path` lies in, and its name there.
pub(crate) fn split(path: &Path) -> (&Path, &OsStr) {
    let bytes = path.as_os_str().as_bytes();
    let (above, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&bytes[..slash], &bytes[slash + 1..]),
        None => (&bytes[..0], bytes),
    };
    (Path::new(OsStr::from_bytes(above)), OsStr::from_bytes(name))
}

/// Opens `path` below `root`, following no link.
pub(crate) fn open_beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    rustix::io::retry_on_intr(|| {
        // A rename elsewhere during the lookup of a `..` asks for another try (openat2(2), EAGAIN).
        loop {
            match rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                other => return other,
            }
        }
    })
}

/// What lies at `path` below `root`, a link itself rather than where it points.
pub(crate) fn stat_beneath(root: BorrowedFd<'_>, path: &Path) -> Result<Option<Stat>, Errno> {
    let found = if path.as_os_str().is_empty() {
        rustix::fs::fstat(root)
    } else if is_one_name(path) {
        // One component cannot leave the directory: the cheap call will do.
        rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW)
    } else {
        open_beneath(root, path, OFlags::PATH | OFlags::NOFOLLOW).and_then(rustix::fs::fstat)
    };
    match found {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => Ok(None),
        Err(other) => Err(other),
    }
}

/// The contents of a regular file of at most `limit` bytes; nothing for anything else.
pub(crate) fn read_beneath(
    root: BorrowedFd<'_>,
    path: &Path,
    limit: usize,
) -> Result<Option<Vec<u8>>, Errno> {
    // O_NONBLOCK: a FIFO put there since it was looked at must not hang the host; opening one for reading
    // with it never blocks (fifo(7)).
    let file = match open_beneath(root, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::NAMETOOLONG) => {
            return Ok(None);
        }
        Err(other) => return Err(other),
    };
    let stat = rustix::fs::fstat(&file)?;
    let small = u64::try_from(stat.st_size).is_ok_and(|size| size <= limit as u64);
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || !small {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(stat.st_size.unsigned_abs() as usize + 1);
    let mut reader = std::fs::File::from(file).take(limit as u64 + 1);
    reader.read_to_end(&mut bytes).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok((bytes.len() <= limit).then_some(bytes))
}
