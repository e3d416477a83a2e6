//! Attempts on terminals: typing into one for others to execute, and finding one of the host.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use serde_json::{Value, json};

use crate::answer::{Attempt, check};
use crate::files::{done, open};
use crate::process::{child, file};

/// Bits above the 32 that the kernel reads of a request (CVE-2019-10063).
const IGNORED: u64 = 0xdead_beef_0000_0000;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("type", |_| on_own_terminal(|terminal| ioctl(terminal, libc::TIOCSTI))),
    ("type-high", |_| on_own_terminal(|terminal| ioctl(terminal, libc::TIOCSTI | IGNORED))),
    ("console", |_| on_own_terminal(|terminal| ioctl(terminal, libc::TIOCLINUX))),
    ("console-high", |_| on_own_terminal(|terminal| ioctl(terminal, libc::TIOCLINUX | IGNORED))),
    ("discipline", |_| on_own_terminal(|terminal| ioctl(terminal, 0x5423))),
    // The requests that job control and editors need.
    ("terminal-size", |_| {
        on_own_terminal(|terminal| {
            let mut size = [0u16; 4];
            // SAFETY: `size` is as large as `struct winsize`.
            check(unsafe { libc::ioctl(terminal, libc::TIOCGWINSZ as _, size.as_mut_ptr()) })
        })
    }),
    ("controlling-terminal", |_| {
        open("/dev/tty", libc::O_RDWR).map(|opened| drop(file(opened))).map(|()| json!(true))
    }),
    ("console-device", |_| {
        open("/dev/console", libc::O_RDWR).map(|opened| drop(file(opened))).map(|()| json!(true))
    }),
    ("terminal-name", |words| {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", words[0]))?;
        Ok(path.to_string_lossy().into_owned().into())
    }),
    ("type-into", |words| {
        let number: RawFd = words[0].parse().map_err(|_| io::Error::from_raw_os_error(libc::EDOM))?;
        ioctl(number, libc::TIOCSTI).map(Value::from)
    }),
    ("ioctl-null", |_| {
        let null = file(open("/dev/null", libc::O_RDWR)?);
        // SAFETY: takes no pointers.
        done(unsafe { libc::ioctl(null.as_raw_fd(), libc::FIOCLEX as _) })
    }),
];

fn on_own_terminal(attempt: impl FnOnce(RawFd) -> io::Result<i64>) -> io::Result<Value> {
    child(|| on_own(attempt)).map(Value::from)
}

/// Opens a terminal of its own and makes it the controlling one, as the kernel asks of whoever types into it.
fn on_own(attempt: impl FnOnce(RawFd) -> io::Result<i64>) -> io::Result<i64> {
    let outer = file(open("/dev/ptmx", libc::O_RDWR | libc::O_NOCTTY)?);
    let inner = inner(&outer)?;
    // SAFETY: takes no pointers. Closing the outer end hangs up on the session, which must not end it
    // unanswered.
    unsafe {
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        check(libc::setsid())?;
        check(libc::ioctl(inner.as_raw_fd(), libc::TIOCSCTTY as _, 0))?;
    }
    attempt(inner.as_raw_fd())
}

fn inner(outer: &File) -> io::Result<File> {
    let unlocked = 0;
    let mut number = 0;
    // SAFETY: both numbers outlive the calls.
    unsafe {
        check(libc::ioctl(outer.as_raw_fd(), libc::TIOCSPTLCK as _, &raw const unlocked))?;
        check(libc::ioctl(outer.as_raw_fd(), libc::TIOCGPTN as _, &raw mut number))?;
    }
    open(&format!("/dev/pts/{number}"), libc::O_RDWR | libc::O_NOCTTY).map(file)
}

fn ioctl(terminal: RawFd, request: u64) -> io::Result<i64> {
    let letter = b"x\0";
    // SAFETY: the requests read one byte, or, for disciplines, four of which two are given and the kernel's
    // own check of the number refuses; the letter outlives the call.
    check(unsafe { libc::syscall(libc::SYS_ioctl, terminal, request, letter.as_ptr()) })
}
