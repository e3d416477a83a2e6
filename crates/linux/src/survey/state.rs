//! The caller's state directory, and in it one record per zone: who uses the zone now, which names may be
//! placeholders there, and which repositories the last complete look found.
//!
//! Liveness is a lock, never a process number. Whoever uses a zone holds a shared flock(2) on `<zone>.held` until its
//! end, and the kernel lets go of it when the process dies, however it dies. `<zone>.names` holds the record; its
//! exclusive lock makes joining and leaving one at a time. Zones are told apart by device and inode of their root.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::SurveyError;
use super::placeholders::Kind;
use super::places::Place;

/// A record longer than this is not ours, and is started anew.
const MOST: i64 = 4 << 20;

/// A directory of the caller's own, outside every zone.
#[derive(Debug)]
pub struct StateDir {
    directory: OwnedFd,
    path: PathBuf,
}

impl StateDir {
    /// Opens `path`, making it when it is not there. It must belong to the caller and be writable by nobody else:
    /// what is written there decides what the next run trusts.
    pub fn open(path: &Path) -> Result<Self, SurveyError> {
        let failed = |action, source| SurveyError::State { action, name: path.to_owned(), source };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(CWD, path, flags, Mode::empty());
        let directory = match open() {
            Err(Errno::NOENT) => {
                let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
                made.map_err(|error| failed("make", io_errno(&error)))?;
                open().map_err(|source| failed("open", source))?
            }
            other => other.map_err(|source| failed("open", source))?,
        };
        let stat = rustix::fs::fstat(&directory).map_err(|source| failed("look at", source))?;
        if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & 0o022 != 0 {
            return Err(failed("trust", Errno::PERM));
        }
        Ok(Self { directory, path: path.to_owned() })
    }

    /// The directory.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Its path, for words.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Another handle on the same directory.
    pub(crate) fn again(&self) -> Result<Self, SurveyError> {
        let directory = rustix::io::fcntl_dupfd_cloexec(&self.directory, 3)
            .map_err(|source| SurveyError::State { action: "open", name: self.path.clone(), source })?;
        Ok(Self { directory, path: self.path.clone() })
    }

    /// Takes the record of the zone at `place`, to the exclusion of others.
    pub(crate) fn record(&self, place: &Place<'_>) -> Result<Record, SurveyError> {
        let name = format!("{:x}-{:x}", place.stat.st_dev, place.stat.st_ino);
        let names = PathBuf::from(format!("{name}.names"));
        let (file, size) = loop {
            let file = self.open_file(&names)?;
            lock(&file, FlockOperation::LockExclusive, &names)?;
            // Whoever clears old records removes the file under its lock: then there is a newer one.
            if let Ok(stat) = rustix::fs::fstat(&file)
                && stat.st_nlink > 0
            {
                break (file, stat.st_size);
            }
        };
        let mut record = Record {
            file: file.into(),
            held: PathBuf::from(format!("{name}.held")),
            names,
            entries: Vec::new(),
            bytes: Vec::new(),
        };
        record.reload(size)?;
        Ok(record)
    }

    /// Whether nobody uses the zone of this record, which the caller has locked.
    pub(crate) fn is_unused(&self, record: &Record) -> Result<bool, SurveyError> {
        let held = self.open_file(&record.held)?;
        match rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(source) => Err(SurveyError::State { action: "lock", name: record.held.clone(), source }),
        }
    }

    /// Opens a file of this directory for reading and writing, making it when needed.
    pub(crate) fn open_file(&self, name: &Path) -> Result<OwnedFd, SurveyError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|source| SurveyError::State { action: "open", name: name.to_owned(), source })
    }
}

/// The error number of an error that came from a system call.
pub(crate) fn io_errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Takes or changes a lock, again when a signal came between.
pub(crate) fn lock(file: impl AsFd, how: FlockOperation, name: &Path) -> Result<(), SurveyError> {
    rustix::io::retry_on_intr(|| rustix::fs::flock(&file, how)).map_err(|source| SurveyError::State {
        action: "lock",
        name: name.to_owned(),
        source,
    })
}

/// One line of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A name that may be a placeholder, and of which kind.
    Placeholder(Kind, PathBuf),
    /// A git directory.
    Repository(PathBuf),
    /// A run that has not come to its end.
    Mark(Mark),
}

/// A run that began and whose end was not, or not wholly, looked at: it runs still, was killed, or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Which run.
    pub(crate) id: String,
    /// When it began, by the clock of file times.
    pub(crate) since: (i64, i64),
    /// Device and inode of what it covered from the start.
    pub(crate) known: HashSet<(u64, u64)>,
}

impl Mark {
    fn to_text(&self) -> String {
        let mut text = format!("{},{},{}", self.id, self.since.0, self.since.1);
        for (device, inode) in &self.known {
            text.push_str(&format!(",{device:x}:{inode:x}"));
        }
        text
    }

    /// A mark that is not understood still is one, of a run that covered nothing and began long ago.
    fn from_text(text: &str) -> Self {
        let mut parts = text.split(',');
        let id = parts.next().unwrap_or_default().to_owned();
        let mut number = || parts.next().and_then(|part| part.parse().ok()).unwrap_or_default();
        let since = (number(), number());
        let pair = |part: &str| {
            let (device, inode) = part.split_once(':')?;
            Some((u64::from_str_radix(device, 16).ok()?, u64::from_str_radix(inode, 16).ok()?))
        };
        Self { id, since, known: parts.filter_map(pair).collect() }
    }
}

/// The record of one zone, locked until it is dropped or unlocked.
#[derive(Debug)]
pub(crate) struct Record {
    file: std::fs::File,
    names: PathBuf,
    /// The file that users of the zone hold a shared lock on.
    pub(crate) held: PathBuf,
    entries: Vec<Entry>,
    /// The same as it is written.
    bytes: Vec<u8>,
}

impl Record {
    fn failed(&self, action: &'static str, error: &std::io::Error) -> SurveyError {
        SurveyError::State { action, name: self.names.clone(), source: io_errno(error) }
    }

    /// Takes the lock again after [`Record::unlock`], and reads what others wrote meanwhile.
    pub(crate) fn relock(&mut self) -> Result<(), SurveyError> {
        lock(&self.file, FlockOperation::LockExclusive, &self.names)?;
        let stat = rustix::fs::fstat(&self.file).map_err(|error| self.failed("read", &error.into()))?;
        self.reload(stat.st_size)
    }

    /// Lets others in. What they write is read by [`Record::relock`]; until then nothing of it is kept.
    pub(crate) fn unlock(&mut self) -> Result<(), SurveyError> {
        (self.entries, self.bytes) = (Vec::new(), Vec::new());
        lock(&self.file, FlockOperation::Unlock, &self.names)
    }

    fn reload(&mut self, size: i64) -> Result<(), SurveyError> {
        let failed = |source| SurveyError::State { action: "read", name: self.names.clone(), source };
        let mut bytes = vec![0; size.clamp(0, MOST).unsigned_abs() as usize];
        let mut read = 0;
        while read < bytes.len() {
            match rustix::io::pread(&self.file, &mut bytes[read..], read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(Errno::INTR) => {}
                Err(source) => return Err(failed(source)),
            }
        }
        bytes.truncate(read);
        if bytes != self.bytes {
            self.entries = bytes.split(|byte| *byte == 0).filter_map(parse).collect();
            self.bytes = bytes;
        }
        Ok(())
    }

    /// The git directories that the last complete look found.
    pub(crate) fn repositories(&self) -> impl Iterator<Item = &Path> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Repository(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// The names that may be placeholders.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = (Kind, &Path)> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Placeholder(kind, path) => Some((*kind, path.as_path())),
            _ => None,
        })
    }

    /// The runs that have not come to their end.
    pub(crate) fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Mark(mark) => Some(mark),
            _ => None,
        })
    }

    /// Forgets the runs that have not come to their end, for what they left was looked at.
    pub(crate) fn settle(&mut self, repositories: Vec<PathBuf>) -> Result<(), SurveyError> {
        let placeholders = self.entries.iter().filter(|entry| matches!(entry, Entry::Placeholder(..)));
        let mut entries: Vec<Entry> = placeholders.cloned().collect();
        entries.extend(repositories.into_iter().map(Entry::Repository));
        self.write(entries)
    }

    /// Replaces the record, unless it says the same already.
    pub(crate) fn write(&mut self, entries: Vec<Entry>) -> Result<(), SurveyError> {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        for entry in &entries {
            let (tag, text) = match entry {
                Entry::Placeholder(kind, path) => (kind.tag(), path.as_os_str().as_bytes()),
                Entry::Repository(path) => (b'g', path.as_os_str().as_bytes()),
                Entry::Mark(mark) => (b'm', &*mark.to_text().into_bytes()),
            };
            bytes.push(tag);
            bytes.extend(text);
            bytes.push(0);
        }
        if bytes == self.bytes {
            self.entries = entries;
            return Ok(());
        }
        let mut written = self.file.write_all_at(&bytes, 0);
        // Shortened last: a reader after a crash finds too many names rather than too few. What was read is what is
        // there, unless it was too long to be read.
        if bytes.len() < self.bytes.len() || self.bytes.len() as i64 >= MOST {
            written = written.and_then(|()| self.file.set_len(bytes.len() as u64));
        }
        written.map_err(|error| self.failed("write", &error))?;
        (self.entries, self.bytes) = (entries, bytes);
        Ok(())
    }
}

fn parse(line: &[u8]) -> Option<Entry> {
    let (tag, path) = line.split_first()?;
    if *tag == b'm' {
        return Some(Entry::Mark(Mark::from_text(&String::from_utf8_lossy(path))));
    }
    let path = PathBuf::from(OsStr::from_bytes(path));
    // Written by us alone, and still never more than a path below the zone.
    let below = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    match (below, tag, Kind::from_tag(*tag)) {
        (true, b'g', _) => Some(Entry::Repository(path)),
        (true, _, Some(kind)) => Some(Entry::Placeholder(kind, path)),
        _ => None,
    }
}
