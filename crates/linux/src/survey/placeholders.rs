//! Placeholders: while a protected name is absent, something inert stands in its place, so that there is something
//! to mount a cover on (CVE-2026-25725: a protected file that is absent at start could be made inside). They are
//! made under the zone's lock, shared by all sandboxes that use the zone, and removed by the last one, if untouched.
//!
//! In a work tree a placeholder is the file of a socket that nobody ever listened on, mode 0: git, on the host and
//! inside, takes no notice of sockets, so that `git status` and `git add -A` do not see thirty new files, and
//! nothing can be written into one by accident. Inside it is covered by a link that leads nowhere, so programs
//! find the name absent. In a git directory it is an empty file, read-only; git reads all of them, and takes an
//! empty one for an absent one, but for `commondir`, where `.` means what its absence means.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::places::{Place, open_beneath, read_beneath, split, stat_beneath};
use super::reach::{Opened, again_if_closed};
use super::state::{Entry, Mark, Record, StateDir, lock};
use super::{SurveyError, With};

/// What a `commondir` placeholder says: the git directory is its own common directory.
const COMMON: &[u8] = b".\n";

/// What kind of thing stands in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The file of a socket.
    Socket,
    /// An empty file.
    File,
    /// A file that says `.`.
    Common,
}

impl Kind {
    /// Its letter in a record.
    pub(crate) const fn tag(self) -> u8 {
        match self {
            Self::Socket => b's',
            Self::File => b'f',
            Self::Common => b'c',
        }
    }

    /// The kind of a letter.
    pub(crate) const fn from_tag(tag: u8) -> Option<Self> {
        match tag {
            b's' => Some(Self::Socket),
            b'f' => Some(Self::File),
            b'c' => Some(Self::Common),
            _ => None,
        }
    }

    /// What covers it inside.
    pub(crate) const fn cover(self) -> With {
        match self {
            Self::Socket => With::Absent,
            Self::File | Self::Common => With::Itself,
        }
    }
}

/// A name that must not be made inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Which zone.
    pub(crate) zone: usize,
    /// Where in it.
    pub(crate) path: PathBuf,
    /// What is to stand there.
    pub(crate) kind: Kind,
}

/// What stands where a placeholder was wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    /// A placeholder, and what covers it.
    Placeholder(With),
    /// Something that was made on the host a moment ago, where this was wanted.
    Other(Kind),
}

/// True for a socket that nobody could have bound and left useful: without any permission.
pub(crate) fn is_socket_placeholder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Socket && stat.st_mode & 0o7777 == 0
}

/// Whether what lies at `path` is a placeholder of this kind that nobody touched.
pub(crate) fn is_untouched(root: BorrowedFd<'_>, path: &Path, kind: Kind) -> Result<bool, Errno> {
    let Some(stat) = stat_beneath(root, path)? else { return Ok(false) };
    let plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_mode & 0o333 == 0
        && stat.st_nlink == 1;
    Ok(match kind {
        // On a file system without sockets an empty file stands in.
        Kind::Socket => is_socket_placeholder(&stat) || plain && stat.st_size == 0,
        Kind::File => plain && stat.st_size == 0,
        Kind::Common => plain && read_beneath(root, path, COMMON.len())?.as_deref() == Some(COMMON),
    })
}

/// A user of a zone, until it leaves.
#[derive(Debug)]
pub(crate) struct Holder {
    /// Which zone.
    pub(crate) zone: usize,
    root: OwnedFd,
    host: PathBuf,
    record: Record,
    held: OwnedFd,
    mine: Vec<Entry>,
    mark: Mark,
    /// When the file system made the first of the placeholders, by its own clock.
    pub(crate) made_at: Option<(i64, i64)>,
    process: rustix::process::Pid,
    left: bool,
}

impl Holder {
    /// Joins the users of a zone and makes what is `wanted` there. Returns what stands where, for covering.
    pub(crate) fn join(
        state: &StateDir,
        place: &Place<'_>,
        record: Record,
        wanted: &[Wanted],
        mark: Mark,
    ) -> Result<(Self, Vec<(PathBuf, Stands)>), SurveyError> {
        let held = state.open_file(&record.held)?;
        lock(&held, FlockOperation::LockShared, &record.held)?;
        let root = rustix::io::fcntl_dupfd_cloexec(place.root, 3)
            .map_err(|source| SurveyError::Look { path: place.host.to_owned(), source })?;
        let mut holder = Self {
            zone: place.index,
            root,
            host: place.host.to_owned(),
            record,
            held,
            mine: Vec::new(),
            mark,
            made_at: None,
            process: rustix::process::getpid(),
            left: false,
        };
        let stand = holder.make(wanted)?;
        holder.record.unlock()?;
        Ok((holder, stand))
    }

    fn make(&mut self, wanted: &[Wanted]) -> Result<Vec<(PathBuf, Stands)>, SurveyError> {
        // Compared as bytes: comparing paths component by component is what costs here.
        let mut known: HashSet<(Kind, &OsStr)> = HashSet::with_capacity(wanted.len());
        let mut mine: Vec<Entry> = Vec::with_capacity(wanted.len());
        for want in wanted {
            if known.insert((want.kind, want.path.as_os_str())) {
                mine.push(Entry::Placeholder(want.kind, want.path.clone()));
            }
        }
        let others: Vec<(Kind, PathBuf)> = self
            .record
            .placeholders()
            .filter(|(kind, path)| !known.contains(&(*kind, path.as_os_str())))
            .map(|(kind, path)| (kind, path.to_owned()))
            .collect();
        let mut entries = mine.clone();
        if !others.is_empty() {
            if self.is_alone()? {
                // Left by a run that was killed, or by other rules: nobody needs them now.
                for (kind, path) in others {
                    // Who closed a directory there is gone, and said so or was killed.
                    self.remove(kind, &path, &mut Vec::new())?;
                }
            } else {
                entries.extend(others.into_iter().map(|(kind, path)| Entry::Placeholder(kind, path)));
            }
        }
        entries.extend(self.record.repositories().map(|path| Entry::Repository(path.to_owned())));
        entries.extend(self.record.marks().cloned().map(Entry::Mark));
        entries.push(Entry::Mark(self.mark.clone()));
        // Written down before they are made: a crash in between leaves too long a list, not a stray file.
        self.record.write(entries)?;
        self.mine = mine;
        let mut stand = Vec::with_capacity(wanted.len());
        let mut parent: Option<(PathBuf, OwnedFd)> = None;
        // All sockets are names of the first: making a name is cheap, but making and removing some thirty inodes
        // at every run is not. ext4 does not use an inode again for a minute, and searches past all it skips.
        let mut first: Option<(OwnedFd, OsString)> = None;
        for want in wanted {
            let (above, name) = split(&want.path);
            let directory = if above.as_os_str().is_empty() {
                self.root.as_fd()
            } else {
                if parent.as_ref().is_none_or(|(path, _)| path.as_os_str() != above.as_os_str()) {
                    let opened = open_beneath(self.root.as_fd(), above, OFlags::PATH | OFlags::DIRECTORY);
                    parent =
                        Some((above.to_owned(), opened.map_err(|source| self.failed(&want.path, source))?));
                }
                parent.as_ref().map_or(self.root.as_fd(), |(_, directory)| directory.as_fd())
            };
            let made = match &first {
                Some((above, first)) if want.kind == Kind::Socket => {
                    match rustix::fs::linkat(above, first, directory, name, AtFlags::empty()) {
                        Ok(()) => Ok(With::Absent),
                        Err(Errno::EXIST) => Err(Errno::EXIST),
                        // Another file system, or one without second names.
                        Err(_) => make_one(directory, Path::new(name), want.kind),
                    }
                }
                _ => make_one(directory, Path::new(name), want.kind),
            };
            if first.is_none() && made == Ok(With::Absent) {
                let above = rustix::io::fcntl_dupfd_cloexec(directory, 3);
                first = Some((above.map_err(|source| self.failed(&want.path, source))?, name.to_owned()));
            }
            let fresh = made.is_ok();
            let stands = match made {
                Ok(with) => Some(Stands::Placeholder(with)),
                Err(Errno::EXIST)
                    if is_untouched(directory, Path::new(name), want.kind).is_ok_and(|own| own) =>
                {
                    Some(Stands::Placeholder(want.kind.cover()))
                }
                Err(Errno::EXIST) => Some(Stands::Other(want.kind)),
                // What the caller cannot make, the inside cannot either, unless it owns the directory and
                // gives itself the right.
                Err(Errno::ROFS) => None,
                Err(Errno::ACCESS)
                    if !owns(directory).map_err(|source| self.failed(&want.path, source))? =>
                {
                    None
                }
                Err(source) => return Err(self.failed(&want.path, source)),
            };
            if self.made_at.is_none() && fresh {
                let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
                let stat = stat.map_err(|source| self.failed(&want.path, source))?;
                self.made_at = Some((stat.st_ctime, stat.st_ctime_nsec as i64));
            }
            stand.extend(stands.map(|stands| (want.path.clone(), stands)));
        }
        Ok(stand)
    }

    fn failed(&self, path: &Path, source: Errno) -> SurveyError {
        SurveyError::Placeholder { path: self.host.join(path), source }
    }

    /// Whether nobody else uses the zone. Only to be asked under the record's lock: changing a shared lock into an
    /// exclusive one lets go of it for a moment (flock(2)).
    fn is_alone(&self) -> Result<bool, SurveyError> {
        let name = &self.record.held;
        match rustix::fs::flock(&self.held, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                lock(&self.held, FlockOperation::LockShared, name)?;
                Ok(true)
            }
            Err(Errno::WOULDBLOCK) => {
                lock(&self.held, FlockOperation::LockShared, name)?;
                Ok(false)
            }
            Err(source) => Err(SurveyError::State { action: "lock", name: name.clone(), source }),
        }
    }

    /// Removes a placeholder that nobody touched; false when something else is there now. A directory that the inside
    /// closed is opened for it.
    fn remove(&self, kind: Kind, path: &Path, opened: &mut Vec<Opened>) -> Result<bool, SurveyError> {
        let root = self.root.as_fd();
        let (above, name) = split(path);
        let removed = again_if_closed(root, above, opened, || {
            let opened;
            let directory = if above.as_os_str().is_empty() {
                root
            } else {
                opened = open_beneath(root, above, OFlags::PATH | OFlags::DIRECTORY)?;
                opened.as_fd()
            };
            if !is_untouched(directory, Path::new(name), kind)? {
                return Ok(stat_beneath(directory, Path::new(name))?.is_none());
            }
            rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
            Ok(true)
        });
        match removed {
            // Nothing is there, or no directory that it could be in.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => Ok(true),
            other => other.map_err(|source| self.failed(path, source)),
        }
    }

    /// Leaves the zone. The last one to leave removes all placeholders. `repositories` are the git directories found by
    /// a look at the whole; the run's mark goes if that was `complete`.
    pub(crate) fn leave(mut self, repositories: Option<Vec<PathBuf>>, complete: bool) -> Gone {
        self.left = true;
        let mut gone = Gone::default();
        if let Err(error) = self.go(repositories, complete, &mut gone) {
            gone.failures.push(error);
        }
        gone
    }

    fn go(
        &mut self,
        repositories: Option<Vec<PathBuf>>,
        complete: bool,
        gone: &mut Gone,
    ) -> Result<(), SurveyError> {
        self.record.relock()?;
        let known = |record: &Record| record.repositories().map(Path::to_owned).collect();
        let repositories = repositories.unwrap_or_else(|| known(&self.record));
        let mut entries;
        if self.is_alone()? {
            let all: Vec<_> =
                self.record.placeholders().map(|(kind, path)| (kind, path.to_owned())).collect();
            // The list stays: the next run will most likely want the same.
            entries = std::mem::take(&mut self.mine);
            for (kind, path) in all {
                match self.remove(kind, &path, &mut gone.opened) {
                    Ok(true) => {}
                    Ok(false) => gone.kept.push(self.host.join(path)),
                    Err(error) => {
                        // Still there, so the next run has to know of it.
                        gone.failures.push(error);
                        let entry = Entry::Placeholder(kind, path);
                        if !entries.contains(&entry) {
                            entries.push(entry);
                        }
                    }
                }
            }
        } else {
            let all = self.record.placeholders();
            entries = all.map(|(kind, path)| Entry::Placeholder(kind, path.to_owned())).collect();
        }
        entries.extend(repositories.into_iter().map(Entry::Repository));
        let marks = self.record.marks().filter(|mark| !complete || mark.id != self.mark.id);
        entries.extend(marks.cloned().map(Entry::Mark));
        self.record.write(entries)?;
        self.record.unlock()
    }
}

/// What became of the placeholders of a zone.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    /// Those that are someone's files now.
    pub(crate) kept: Vec<PathBuf>,
    /// Directories that had to be opened to remove one.
    pub(crate) opened: Vec<Opened>,
    /// What could not be done.
    pub(crate) failures: Vec<SurveyError>,
}

impl Drop for Holder {
    /// A start that failed half-way leaves too. A failure here has nobody to go to, and the next run on the zone
    /// removes what is left. In a process that was forked meanwhile nothing is done: it holds the same lock.
    fn drop(&mut self) {
        if !self.left && rustix::process::getpid() == self.process {
            self.left = true;
            self.go(None, false, &mut Gone::default()).ok();
        }
    }
}

/// Whether the caller owns this directory.
fn owns(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(rustix::fs::fstat(directory)?.st_uid == rustix::process::geteuid().as_raw())
}

/// Makes one, and says what covers it. Never through a link, never over anything.
fn make_one(directory: BorrowedFd<'_>, name: &Path, kind: Kind) -> Result<With, Errno> {
    let read = Mode::RUSR | Mode::RGRP | Mode::ROTH;
    match kind {
        Kind::Socket => match rustix::fs::mknodat(directory, name, FileType::Socket, Mode::empty(), 0) {
            // Not every file system has sockets; all have files.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                make_one(directory, name, Kind::File)
            }
            made => made.map(|()| With::Absent),
        },
        Kind::File => {
            rustix::fs::mknodat(directory, name, FileType::RegularFile, read, 0).map(|()| With::Itself)
        }
        Kind::Common => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(directory, name, flags, read)?;
            rustix::io::write(&file, COMMON).map(|_| With::Itself)
        }
    }
}
