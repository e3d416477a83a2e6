//! Files of one group: small texts that hold a number, or lines of a key and a number. What they mean is not known
//! here.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::CgroupError;

/// What one version calls its files.
#[derive(Debug)]
pub(super) struct Names {
    /// Memory in use.
    pub(super) memory: &'static str,
    /// The most at once.
    pub(super) peak: &'static str,
    /// Where `oom_kill` is counted.
    pub(super) oom: &'static str,
    /// Keys of `memory.stat` that are page cache.
    pub(super) cache: [&'static str; 2],
}

/// The directory of a group, held open.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    fd: OwnedFd,
}

impl Directory {
    pub(super) fn new(path: PathBuf, fd: OwnedFd) -> Self {
        Self { path, fd }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is there.
    pub(super) fn has(&self, file: &str) -> bool {
        rustix::fs::statat(&self.fd, file, AtFlags::empty()).is_ok()
    }

    fn read(&self, file: &str) -> Result<String, Errno> {
        let fd = rustix::fs::openat(&self.fd, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            match rustix::io::read(&fd, &mut buffer)? {
                0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
                count => text.extend_from_slice(&buffer[..count]),
            }
        }
    }

    fn unreadable(&self, file: &str, error: Errno) -> CgroupError {
        CgroupError::Read { path: self.path.join(file), source: error.into() }
    }

    fn parsed(&self, file: &str, text: &str) -> Result<u64, CgroupError> {
        let number = text.trim().parse();
        number.map_err(|_| CgroupError::Number { path: self.path.join(file), text: text.to_owned() })
    }

    /// The number that the file holds.
    pub(super) fn number(&self, file: &str) -> Result<u64, CgroupError> {
        let text = self.read(file).map_err(|error| self.unreadable(file, error))?;
        self.parsed(file, &text)
    }

    /// The number that the file holds; nothing where this kernel has no such file.
    pub(super) fn number_if_there(&self, file: &str) -> Result<Option<u64>, CgroupError> {
        match self.read(file) {
            Ok(text) => self.parsed(file, &text).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.unreadable(file, error)),
        }
    }

    /// The number beside `key`; nothing where this kernel has no such key.
    pub(super) fn keyed(&self, file: &str, key: &str) -> Result<Option<u64>, CgroupError> {
        let text = self.read(file).map_err(|error| self.unreadable(file, error))?;
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        value.map(|value| self.parsed(file, value)).transpose()
    }

    pub(super) fn open_to_write(&self, file: &str) -> Result<OwnedFd, CgroupError> {
        let opened = rustix::fs::openat(&self.fd, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        opened.map_err(|error| self.unwritable(file, "", error))
    }

    fn unwritable(&self, file: &str, value: &str, error: Errno) -> CgroupError {
        CgroupError::Write { path: self.path.join(file), value: value.to_owned(), source: error.into() }
    }

    /// Writes a value in one write, as these files want it.
    pub(super) fn write(&self, file: &str, value: impl ToString) -> Result<(), CgroupError> {
        let (fd, value) = (self.open_to_write(file)?, value.to_string());
        match rustix::io::write(fd, value.as_bytes()) {
            Ok(count) if count == value.len() => Ok(()),
            Ok(_) => {
                let source = io::ErrorKind::WriteZero.into();
                Err(CgroupError::Write { path: self.path.join(file), value, source })
            }
            Err(error) => Err(self.unwritable(file, &value, error)),
        }
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
