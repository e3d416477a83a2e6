//! What a sandbox has written to the host's disks: the files in its writable zones that were made since it started.
//!
//! Looking at all of them takes long, so that is done only when the disk has lost nearly as much room as may be written;
//! somebody else may have taken it. Files that were there before are not counted: how large they were is not known.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, StatxFlags, fstatvfs, openat, statx};
use rustix::io::Errno;

/// How many times as long as a look took it waits for the next one.
const REST: u32 = 10;
/// How deep it looks. Deeper than any program builds; each level holds a descriptor.
const DEEP: usize = 200;

/// The writable zones, and what was there at the start.
#[derive(Debug)]
pub(crate) struct Growth {
    zones: Vec<(OwnedFd, u64)>,
    max: u64,
    since: i64,
    rests_until: Instant,
}

impl Growth {
    /// From now on.
    pub(crate) fn new(zones: Vec<OwnedFd>, max: u64) -> Result<Self, Errno> {
        let zones = zones.into_iter().map(|zone| free(&zone).map(|free| (zone, free)));
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            zones: zones.collect::<Result<_, _>>()?,
            max,
            // Clocks of file systems are coarse, and may lag by a tick.
            since: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            rests_until: Instant::now(),
        })
    }

    /// The most that may be written.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// How much was written, if it may be near the limit.
    pub(crate) fn look(&mut self) -> Result<Option<u64>, Errno> {
        let mut lost = false;
        for (zone, before) in &self.zones {
            lost |= u128::from(before.saturating_sub(free(zone)?)) * 5 >= u128::from(self.max) * 4;
        }
        if !lost || Instant::now() < self.rests_until {
            return Ok(None);
        }
        let started = Instant::now();
        let mut seen = HashSet::new();
        let mut written = 0;
        for (zone, _) in &self.zones {
            written += self.written(zone.as_fd(), DEEP, &mut seen)?;
        }
        self.rests_until = Instant::now() + (started.elapsed() * REST).min(Duration::from_secs(10));
        Ok(Some(written))
    }

    /// What lies below `directory`. What goes away meanwhile is not there.
    fn written(
        &self,
        directory: BorrowedFd<'_>,
        deep: usize,
        seen: &mut HashSet<(u64, u64)>,
    ) -> Result<u64, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match openat(directory, c".", flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::ACCESS | Errno::STALE) => return Ok(0),
            Err(error) => return Err(error),
        };
        let mut written = 0;
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let wanted = StatxFlags::BTIME | StatxFlags::BLOCKS | StatxFlags::INO | StatxFlags::TYPE;
            let status = match statx(&opened, name, AtFlags::SYMLINK_NOFOLLOW, wanted | StatxFlags::MTIME) {
                Ok(status) => status,
                Err(Errno::NOENT | Errno::ACCESS | Errno::STALE) => continue,
                Err(error) => return Err(error),
            };
            // Where the file system does not say when a file was made, its last change has to do.
            let told = StatxFlags::from_bits_retain(status.stx_mask).contains(StatxFlags::BTIME);
            let made = if told { status.stx_btime.tv_sec } else { status.stx_mtime.tv_sec };
            let device = u64::from(status.stx_dev_major) << 32 | u64::from(status.stx_dev_minor);
            if made >= self.since && seen.insert((device, status.stx_ino)) {
                written += status.stx_blocks.saturating_mul(512);
            }
            let kind = FileType::from_raw_mode(status.stx_mode.into());
            if kind == FileType::Directory && deep > 0 {
                match openat(&opened, name, flags | OFlags::PATH, Mode::empty()) {
                    Ok(inner) => written += self.written(inner.as_fd(), deep - 1, seen)?,
                    Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(written)
    }
}

/// The room that is left, in bytes.
fn free(zone: &OwnedFd) -> Result<u64, Errno> {
    fstatvfs(zone).map(|status| status.f_bfree.saturating_mul(status.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_counts_and_each_file_once() {
        let place = tempfile::tempdir().unwrap();
        let zone = || OwnedFd::from(std::fs::File::open(place.path()).unwrap());
        let mut growth = Growth::new(vec![zone(), zone()], 1 << 20).unwrap();
        std::fs::create_dir_all(place.path().join("a/b")).unwrap();
        std::fs::write(place.path().join("a/b/c"), vec![1; 3 << 20]).unwrap();
        std::fs::hard_link(place.path().join("a/b/c"), place.path().join("again")).unwrap();
        std::os::unix::fs::symlink("/", place.path().join("out")).unwrap();
        let written = growth.written(zone().as_fd(), DEEP, &mut HashSet::new()).unwrap();
        assert!((3 << 20..4 << 20).contains(&written), "{written}");
        growth.since = i64::MAX;
        assert_eq!(growth.written(zone().as_fd(), DEEP, &mut HashSet::new()).unwrap(), 0);
    }
}
