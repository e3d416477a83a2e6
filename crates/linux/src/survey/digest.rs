//! What a protected name was at the start, and whether it still is that.
//!
//! Contents need not be read to know that nobody changed them. Every change sets the inode's change time to the
//! present, and no system call sets it to anything else (utimensat(2) sets the other two, and this one to now);
//! the inside can neither set the clock nor write to the disk below the file system. So the same inode with
//! the same size and times is the same file. Only where a change could hide in the clock's own grain, because the
//! file was changed just before it was looked at, is the content digested too, as git does for its index.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use rustix::time::{ClockId, Timespec, clock_gettime};
use sha2::{Digest as _, Sha256};

use super::placeholders::Holder;
use super::places::{read_beneath, stat_beneath};
use super::walk::{Bounds, Then, walk};

/// The grain of file times: a clock tick, or two seconds on the coarsest file systems (vfat).
const GRAIN: i64 = 2;
/// What is digested at most.
const MOST: usize = 1 << 20;
/// What is looked at below a protected directory.
const BELOW: Bounds = Bounds { entries: 20_000, directories: 2_000, depth: 64 };

/// A point in time, by the clock that file times are taken from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    seconds: i64,
    nanoseconds: i64,
    at: Instant,
}

impl Moment {
    /// Now, by the coarse clock: no file is stamped earlier than what it says, and what was changed up to two ticks
    /// before may be stamped later. So a change after this moment is never missed, and one just before it may be
    /// taken for one after it.
    pub(crate) fn now() -> Self {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::RealtimeCoarse);
        Self { seconds: tv_sec, nanoseconds: tv_nsec, at: Instant::now() }
    }

    /// A moment that was written down.
    pub(crate) fn recalled((seconds, nanoseconds): (i64, i64)) -> Self {
        Self { seconds, nanoseconds, at: Instant::now() }
    }

    /// What to write down.
    pub(crate) fn stamp(&self) -> (i64, i64) {
        (self.seconds, self.nanoseconds)
    }

    /// The same moment, or an earlier one if a file system's own clock says so (a network server's can be behind).
    pub(crate) fn no_later_than(self, holders: &[Holder]) -> Self {
        let earliest = holders.iter().filter_map(|holder| holder.made_at).min();
        let (seconds, nanoseconds) = earliest
            .map_or((self.seconds, self.nanoseconds), |made| made.min((self.seconds, self.nanoseconds)));
        Self { seconds, nanoseconds, ..self }
    }

    /// Whether the inode changed at or after this moment.
    pub(crate) fn is_before_change_of(&self, stat: &Stat) -> bool {
        (stat.st_ctime, stat.st_ctime_nsec as i64) >= (self.seconds, self.nanoseconds)
    }

    /// Whether file times can be compared with this moment at all: not when the clock was set back since.
    pub(crate) fn is_comparable(&self) -> bool {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let passed = Duration::from_secs((now.tv_sec - self.seconds).max(0).unsigned_abs() + 1);
        now.tv_sec >= self.seconds && passed >= self.at.elapsed()
    }
}

/// A protected thing that exists, as it was.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Which zone.
    pub(crate) zone: usize,
    /// Where in it.
    pub(crate) path: PathBuf,
    identity: Identity,
    content: Option<[u8; 32]>,
}

/// What cannot stay the same through a change.
#[derive(Debug, PartialEq, Eq)]
struct Identity([u64; 9]);

impl Identity {
    fn of(stat: &Stat) -> Self {
        // A directory's size and times change with its entries, and those are compared one by one.
        let times = [stat.st_mtime as u64, stat.st_mtime_nsec, stat.st_ctime as u64, stat.st_ctime_nsec];
        let [a, b, c, d] = times;
        Self([stat.st_dev, stat.st_ino, stat.st_mode.into(), stat.st_nlink, stat.st_size as u64, a, b, c, d])
    }
}

impl Kept {
    /// Remembers what lies at `path`, just looked at as `stat`.
    pub(crate) fn new(
        root: BorrowedFd<'_>,
        zone: usize,
        path: &Path,
        stat: &Stat,
        now: &Moment,
    ) -> Result<Self, Errno> {
        let recent = stat.st_ctime + GRAIN >= now.seconds;
        let file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let content = if recent && file { digest(root, path)? } else { None };
        Ok(Self { zone, path: path.to_owned(), identity: Identity::of(stat), content })
    }

    /// Whether it is no longer what it was. `suspect` when its cover was lost: then doubt counts as change.
    pub(crate) fn is_changed(
        &self,
        root: BorrowedFd<'_>,
        since: &Moment,
        suspect: bool,
    ) -> Result<bool, Errno> {
        let Some(stat) = stat_beneath(root, &self.path)? else { return Ok(true) };
        if Identity::of(&stat) != self.identity {
            return Ok(true);
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if self.content.is_some() => Ok(digest(root, &self.path)? != self.content),
            // Through a cover that held nobody inside could write, so the tree needs no second look.
            FileType::Directory if suspect => Ok(changed_below(root, &self.path, since)),
            _ => Ok(false),
        }
    }
}

/// Whether anything below a directory changed since, as far as one can tell.
pub(crate) fn changed_below(root: BorrowedFd<'_>, path: &Path, since: &Moment) -> bool {
    let (changed, tally) = walk(root, path, BELOW, |entry, changed| {
        match stat_beneath(root, entry.path) {
            Ok(Some(stat)) if !since.is_before_change_of(&stat) => {}
            _ => changed.push(()),
        }
        Then::Descend
    });
    !changed.is_empty() || tally.bounded || !tally.unreadable.is_empty() || !since.is_comparable()
}

fn digest(root: BorrowedFd<'_>, path: &Path) -> Result<Option<[u8; 32]>, Errno> {
    Ok(read_beneath(root, path, MOST)?.map(|bytes| Sha256::digest(&bytes).into()))
}
