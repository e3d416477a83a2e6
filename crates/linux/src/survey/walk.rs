//! Walking a tree: names and kinds only, no file is opened or asked about. A walk of the whole starts alone, and takes
//! threads to help once the tree proves large; a bounded one stays alone. Knows nothing of what is looked for.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, OFlags, RawDir};
use rustix::io::Errno;

use super::places::{PATH_MAX, open_beneath};

/// Directories waiting before threads are worth their start (about 50 µs each).
const CROWD: usize = 256;
/// Directories that a thread takes at once, at most.
const BATCH: usize = 32;

/// What a directory's path must leave free, so that everything in it and in a git directory below it can be named.
const ROOM: usize = 512;

/// How far a walk may go.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// Entries read in all.
    pub(crate) entries: u64,
    /// Directories read in all.
    pub(crate) directories: u64,
    /// Levels below the root.
    pub(crate) depth: usize,
}

impl Bounds {
    /// Everything there is.
    pub(crate) const NONE: Self = Self { entries: u64::MAX, directories: u64::MAX, depth: usize::MAX };
}

/// One name in a directory.
pub(crate) struct Entry<'a> {
    /// Its path below the walk's root.
    pub(crate) path: &'a Path,
    /// The last component of it.
    pub(crate) name: &'a [u8],
    /// What it is.
    pub(crate) kind: FileType,
}

/// Whether to look below a directory; of no meaning for anything else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Look.
    Descend,
    /// Leave it.
    Skip,
}

/// What a walk cost, and what it left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Entries read.
    pub(crate) entries: u64,
    /// Directories read.
    pub(crate) directories: u64,
    /// Time taken.
    pub(crate) elapsed: Duration,
    /// True when a bound stopped it.
    pub(crate) bounded: bool,
    /// True when every name of the directory that it began with was read.
    pub(crate) start_read: bool,
    /// Directories whose path is too long for what they hold to be named in one call.
    pub(crate) too_deep: Vec<PathBuf>,
    /// Directories that could not be read, and why.
    pub(crate) unreadable: Vec<(PathBuf, Errno)>,
}

struct Shared<T> {
    waiting: VecDeque<PathBuf>,
    busy: usize,
    idle: usize,
    found: Vec<T>,
    tally: Tally,
}

/// Walks everything below `start` (relative to `root`), calling `visit` for every entry. Links are entries, never
/// followed. `visit` runs on several threads at once when the tree is large.
pub(crate) fn walk<T: Send>(
    root: BorrowedFd<'_>,
    start: &Path,
    bounds: Bounds,
    visit: impl Fn(&Entry<'_>, &mut Vec<T>) -> Then + Sync,
) -> (Vec<T>, Tally) {
    let began = Instant::now();
    let shared = Mutex::new(Shared {
        waiting: VecDeque::from([start.to_owned()]),
        busy: 0,
        idle: 0,
        found: Vec::new(),
        tally: Tally::default(),
    });
    let changed = Condvar::new();
    let base = start.components().count();
    let crowded = work(root, base, bounds, &visit, &shared, &changed, true);
    if crowded {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| work(root, base, bounds, &visit, &shared, &changed, false));
            }
            work(root, base, bounds, &visit, &shared, &changed, false);
        });
    }
    let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut tally = shared.tally;
    tally.elapsed = began.elapsed();
    (shared.found, tally)
}

/// Takes directories until none is left. Returns early, and true, when `alone` and the queue became a crowd.
fn work<T: Send>(
    root: BorrowedFd<'_>,
    base: usize,
    bounds: Bounds,
    visit: &(impl Fn(&Entry<'_>, &mut Vec<T>) -> Then + Sync),
    shared: &Mutex<Shared<T>>,
    changed: &Condvar,
    alone: bool,
) -> bool {
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    let whole = bounds.depth == usize::MAX;
    // On the stack, where only what is filled costs memory; taken from the heap and given back, it moves the heap's end.
    let mut buffer = [MaybeUninit::uninit(); 32 * 1024];
    let mut batch: Vec<PathBuf> = Vec::new();
    let mut state = lock();
    loop {
        if alone && whole && state.waiting.len() >= CROWD {
            return true;
        }
        // A bounded walk takes the nearest first, a whole one the latest, which keeps the queue short.
        let share = if alone { 1 } else { (state.waiting.len() / 16).clamp(1, BATCH) };
        while batch.len() < share
            && let Some(next) = if whole { state.waiting.pop_back() } else { state.waiting.pop_front() }
        {
            if state.tally.directories >= bounds.directories || state.tally.entries >= bounds.entries {
                state.tally.bounded = true;
            } else {
                state.tally.directories += 1;
                batch.push(next);
            }
        }
        if batch.is_empty() {
            if state.busy == 0 {
                // Waking is a system call, whether anybody waits or not.
                if state.idle > 0 {
                    changed.notify_all();
                }
                return false;
            }
            state.idle += 1;
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            continue;
        }
        state.busy += 1;
        let room = bounds.entries - state.tally.entries;
        drop(state);

        let mut done = Done::default();
        for directory in batch.drain(..) {
            done.read(root, directory, base, bounds.depth, room, &mut buffer, visit);
        }

        state = lock();
        state.busy -= 1;
        state.found.append(&mut done.found);
        let more = bounds.directories.saturating_sub(state.tally.directories) as usize;
        let more = more.saturating_sub(state.waiting.len());
        done.bounded |= done.below.len() > more;
        state.waiting.extend(done.below.into_iter().take(more));
        let tally = &mut state.tally;
        tally.entries += done.entries;
        tally.bounded |= done.bounded;
        tally.start_read |= done.start_read;
        tally.too_deep.append(&mut done.too_deep);
        tally.unreadable.append(&mut done.unreadable);
        if state.idle > 0 && (state.busy == 0 || !state.waiting.is_empty()) {
            changed.notify_all();
        }
    }
}

/// What one batch gave.
struct Done<T> {
    found: Vec<T>,
    below: Vec<PathBuf>,
    entries: u64,
    bounded: bool,
    start_read: bool,
    too_deep: Vec<PathBuf>,
    unreadable: Vec<(PathBuf, Errno)>,
}

impl<T> Default for Done<T> {
    fn default() -> Self {
        let (too_deep, unreadable) = (Vec::new(), Vec::new());
        let (bounded, start_read) = (false, false);
        Self { found: Vec::new(), below: Vec::new(), entries: 0, bounded, start_read, too_deep, unreadable }
    }
}

impl<T> Done<T> {
    /// Reads one directory.
    #[allow(clippy::too_many_arguments)] // what a walk is made of
    fn read(
        &mut self,
        root: BorrowedFd<'_>,
        directory: PathBuf,
        base: usize,
        depth: usize,
        room: u64,
        buffer: &mut [MaybeUninit<u8>],
        visit: &impl Fn(&Entry<'_>, &mut Vec<T>) -> Then,
    ) {
        let levels = directory.components().count();
        let deepest = depth != usize::MAX && levels >= base + depth;
        let (found, below, too_deep) = (&mut self.found, &mut self.below, &mut self.too_deep);
        let bounded = &mut self.bounded;
        let read = read(root, &directory, room, buffer, |entry| {
            if visit(entry, found) == Then::Skip || entry.kind != FileType::Directory {
                return;
            }
            if deepest {
                *bounded = true;
            } else if entry.path.as_os_str().len() + ROOM > PATH_MAX {
                too_deep.push(entry.path.to_owned());
            } else {
                below.push(entry.path.to_owned());
            }
        });
        match read {
            Ok((entries, whole)) => {
                self.entries += entries;
                self.bounded |= !whole;
                self.start_read |= whole && levels == base;
            }
            // Gone since it was listed: whatever took its place was made by someone else while we looked.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(Errno::NAMETOOLONG) => self.too_deep.push(directory),
            Err(source) => self.unreadable.push((directory, source)),
        }
    }
}

/// Reads one directory: how many entries, and whether that was all of it.
fn read(
    root: BorrowedFd<'_>,
    directory: &Path,
    room: u64,
    buffer: &mut [MaybeUninit<u8>],
    mut each: impl FnMut(&Entry<'_>),
) -> Result<(u64, bool), Errno> {
    let open = open_beneath(root, directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK)?;
    let mut raw = RawDir::new(&open, buffer);
    let mut entries = 0;
    let mut path = directory.as_os_str().as_bytes().to_vec();
    if !path.is_empty() {
        path.push(b'/');
    }
    let prefix = path.len();
    while let Some(entry) = raw.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if entries == room {
            return Ok((entries, false));
        }
        entries += 1;
        let mut kind = entry.file_type();
        // Some file systems leave the type out of the directory (readdir(3)).
        if kind == FileType::Unknown {
            kind = match rustix::fs::statat(&open, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) => continue,
                Err(source) => return Err(source),
            };
        }
        path.truncate(prefix);
        path.extend_from_slice(name);
        each(&Entry { path: Path::new(OsStr::from_bytes(&path)), name, kind });
    }
    Ok((entries, true))
}
