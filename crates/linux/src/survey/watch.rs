//! Noticing that a cover is gone while the sandbox runs.
//!
//! A mount point that is renamed over or removed in *another* mount namespace takes the mounts on it away everywhere
//! (mount_namespaces(7), since Linux 3.18): on the host, `git config` replaces `.git/config` by a rename, and the
//! cover inside is gone with it. The kernel tells of changes of a mount namespace on its mountinfo (poll(2) with
//! POLLPRI; proc_pid_mountinfo(5)), so the supervisor waits for that and asks here what is missing.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What the kernel reads at once, and what is enough for most sandboxes.
const PAGE: usize = 4096;
const USUAL: usize = 4 * PAGE;

/// The mounts of a guest, compared with what they were when everything was in place.
#[derive(Debug)]
pub struct Watch {
    mountinfo: File,
    /// For each cover, where it is inside and what was mounted there last.
    covers: Vec<(PathBuf, Option<Mount>)>,
}

/// What a mount shows: which part of which file system. Not its number, so that a cover that was put back counts as
/// being there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    device: Vec<u8>,
    root: PathBuf,
}

impl Watch {
    /// Takes the present state for the right one. `mountinfo` is `/proc/<guest>/mountinfo`, opened after the last
    /// mount and before anything untrusted runs; `covers` are paths as the guest sees them, in the survey's order.
    pub fn new(mountinfo: File, covers: impl IntoIterator<Item = PathBuf>) -> io::Result<Self> {
        let mut watch = Self { mountinfo, covers: Vec::new() };
        let mut now = watch.read()?;
        let covers = covers.into_iter().map(|path| (now.remove(&path), path));
        watch.covers = covers.map(|(mount, path)| (path, mount)).collect();
        Ok(watch)
    }

    /// Covers that were not there when the watch began.
    pub fn missing(&self) -> Vec<usize> {
        let missing = self.covers.iter().enumerate().filter(|(_, (_, mount))| mount.is_none());
        missing.map(|(at, _)| at).collect()
    }

    /// Whether any mount has changed since the last look: reading all of them is far dearer than asking.
    pub fn has_changed(&self) -> io::Result<bool> {
        let mut asked = [PollFd::new(&self.mountinfo, PollFlags::PRI)];
        poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        Ok(asked[0].revents().intersects(PollFlags::PRI | PollFlags::ERR))
    }

    /// The descriptor to poll for `POLLPRI` and `POLLERR`.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.mountinfo.as_fd()
    }

    /// Reads the mounts again. Returns the positions of covers that are gone, have something else on them, or were
    /// never there. Works after the guest has ended too: the open file keeps its mounts.
    pub fn check(&mut self) -> io::Result<Vec<usize>> {
        let now = self.read()?;
        let gone =
            |(path, mount): &(PathBuf, Option<Mount>)| mount.is_none() || now.get(path) != mount.as_ref();
        Ok(self.covers.iter().enumerate().filter(|(_, cover)| gone(cover)).map(|(at, _)| at).collect())
    }

    /// What is mounted where. Of several at one place the last line is the one on top.
    fn read(&self) -> io::Result<HashMap<PathBuf, Mount>> {
        // The kernel gives a page at a time, however much is asked for.
        let mut text = Vec::with_capacity(USUAL);
        loop {
            text.reserve(PAGE);
            let at = text.len() as u64;
            match rustix::io::pread(&self.mountinfo, rustix::buffer::spare_capacity(&mut text), at) {
                Ok(0) => break,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "a line of mountinfo is not understood");
        lines.map(|line| parse(line).ok_or_else(invalid)).collect()
    }
}

/// One line: `id parent major:minor root mount-point …` (proc_pid_mountinfo(5)).
fn parse(line: &[u8]) -> Option<(PathBuf, Mount)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = fields.nth(2)?.to_vec();
    let root = unescape(fields.next()?)?;
    let path = unescape(fields.next()?)?;
    Some((path, Mount { device, root }))
}

/// Space, tab, line feed and backslash are written as three octal digits.
fn unescape(field: &[u8]) -> Option<PathBuf> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let digits =
            rest.get(..3).filter(|digits| digits.iter().all(|digit| (b'0'..=b'7').contains(digit)))?;
        let value = digits.iter().fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0'));
        out.push(u8::try_from(value).ok()?);
        rest = &rest[3..];
    }
    Some(PathBuf::from(OsString::from_vec(out)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unescaped_exactly() {
        let line = b"36 35 98:0 /a\\040b /m\\134n\\012x\xff rw,noatime master:1 - ext3 /dev/root rw";
        let (path, mount) = parse(line).unwrap();
        assert_eq!(path, PathBuf::from(OsString::from_vec(b"/m\\n\nx\xff".to_vec())));
        assert_eq!(mount.root, PathBuf::from("/a b"));
        assert_eq!(mount.device, b"98:0");
    }

    #[test]
    fn what_is_not_a_line_is_not_guessed() {
        for line in [&b""[..], b"x", b"1 2 3:4 /a", b"1 2 3:4 /a /b\\04", b"1 2 3:4 /a /b\\999"] {
            assert!(parse(line).is_none(), "{line:?}");
        }
    }
}
