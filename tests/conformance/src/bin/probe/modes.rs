//! Attempts to leave set-id files and device files behind, by every system call that takes a mode.

use std::io;
use std::os::fd::AsRawFd;

use serde_json::Value;

use crate::answer::{Attempt, c_string, check, number, octal};
use crate::files::{done, open};
use crate::process::file;

/// Bits above the 32 that the kernel reads of a mode.
const IGNORED: u64 = 0xdead_beef_0000_0000;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("chmod", |words| {
        // SAFETY: the path ends with a zero; so below.
        done(unsafe { libc::chmod(c_string(words[0]).as_ptr(), octal(words[1])?) })
    }),
    #[cfg(target_arch = "x86_64")]
    ("chmod-high", |words| {
        let mode = u64::from(octal(words[1])?) | IGNORED;
        // SAFETY: as above.
        raw(unsafe { libc::syscall(libc::SYS_chmod, c_string(words[0]).as_ptr(), mode) })
    }),
    ("fchmod", |words| {
        let opened = file(open(words[0], libc::O_RDONLY)?);
        // SAFETY: takes no pointers.
        done(unsafe { libc::fchmod(opened.as_raw_fd(), octal(words[1])?) })
    }),
    ("fchmodat", |words| {
        // SAFETY: as above.
        raw(unsafe {
            libc::syscall(libc::SYS_fchmodat, libc::AT_FDCWD, c_string(words[0]).as_ptr(), octal(words[1])?)
        })
    }),
    ("fchmodat2", |words| {
        // SAFETY: as above.
        raw(unsafe {
            libc::syscall(
                libc::SYS_fchmodat2,
                libc::AT_FDCWD,
                c_string(words[0]).as_ptr(),
                octal(words[1])?,
                0,
            )
        })
    }),
    #[cfg(target_arch = "x86_64")]
    ("open-mode", |words| {
        let flags = libc::O_CREAT | libc::O_WRONLY;
        // SAFETY: as above.
        raw(unsafe { libc::syscall(libc::SYS_open, c_string(words[0]).as_ptr(), flags, octal(words[1])?) })
    }),
    ("openat-mode", |words| {
        let (path, flags) = (c_string(words[0]), libc::O_CREAT | libc::O_WRONLY);
        // SAFETY: as above.
        raw(unsafe {
            libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, octal(words[1])?)
        })
    }),
    ("openat2-mode", |words| {
        let how = [(libc::O_CREAT | libc::O_WRONLY) as u64, octal(words[1])?.into(), 0];
        let path = c_string(words[0]);
        // SAFETY: `how` has the three words of `struct open_how` (openat2(2)), and its size is given.
        raw(unsafe { libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path.as_ptr(), how.as_ptr(), 24) })
    }),
    #[cfg(target_arch = "x86_64")]
    ("tmpfile-mode", |words| {
        let flags = libc::O_TMPFILE | libc::O_WRONLY;
        // SAFETY: as above.
        raw(unsafe { libc::syscall(libc::SYS_open, c_string(words[0]).as_ptr(), flags, octal(words[1])?) })
    }),
    #[cfg(target_arch = "x86_64")]
    ("creat-mode", |words| {
        // SAFETY: as above.
        raw(unsafe { libc::syscall(libc::SYS_creat, c_string(words[0]).as_ptr(), octal(words[1])?) })
    }),
    ("mknod-mode", |words| {
        // SAFETY: as above.
        done(unsafe { libc::mknod(c_string(words[0]).as_ptr(), libc::S_IFREG | octal(words[1])?, 0) })
    }),
    ("mknodat-mode", |words| {
        let mode = libc::S_IFREG | octal(words[1])?;
        // SAFETY: as above.
        done(unsafe { libc::mknodat(libc::AT_FDCWD, c_string(words[0]).as_ptr(), mode, 0) })
    }),
    ("mkdir-mode", |words| {
        // SAFETY: as above.
        done(unsafe { libc::mkdir(c_string(words[0]).as_ptr(), octal(words[1])?) })
    }),
    ("device", |words| {
        let kind = if words[1] == "block" { libc::S_IFBLK } else { libc::S_IFCHR };
        let device = libc::makedev(number(words[2])? as u32, number(words[3])? as u32);
        // SAFETY: as above.
        done(unsafe { libc::mknod(c_string(words[0]).as_ptr(), kind | 0o666, device) })
    }),
    ("device-at", |words| {
        let kind = if words[1] == "block" { libc::S_IFBLK } else { libc::S_IFCHR };
        let device = libc::makedev(number(words[2])? as u32, number(words[3])? as u32);
        // SAFETY: as above.
        done(unsafe { libc::mknodat(libc::AT_FDCWD, c_string(words[0]).as_ptr(), kind | 0o666, device) })
    }),
    ("fifo", |words| {
        // SAFETY: as above.
        done(unsafe { libc::mkfifo(c_string(words[0]).as_ptr(), 0o644) })
    }),
    ("chown", |words| {
        let id = number(words[1])? as u32;
        // SAFETY: as above.
        done(unsafe { libc::chown(c_string(words[0]).as_ptr(), id, id) })
    }),
];

fn raw(returned: i64) -> io::Result<Value> {
    check(returned).map(Value::from)
}
