//! Signals as data: blocked, then read from a descriptor. Handlers would run at any point of the program.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use super::checked;

/// A set of signals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signals(libc::sigset_t);

impl Signals {
    /// Exactly `signals`.
    pub(crate) fn of(signals: &[i32]) -> Self {
        // SAFETY: sigset_t is plain data; sigemptyset and sigaddset write only to the set they are given.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                libc::sigaddset(&raw mut set, *signal);
            }
            Self(set)
        }
    }

    /// Blocks exactly these and returns what was blocked before.
    pub(crate) fn block(&self) -> io::Result<Self> {
        let mut old = Self::of(&[]);
        // SAFETY: both sets are valid and live through the call.
        match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, &raw mut old.0) } {
            0 => Ok(old),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    /// A descriptor from which these can be read while they are blocked (signalfd(2)).
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        // SAFETY: the set is valid and lives through the call.
        let fd = unsafe { libc::signalfd(-1, &raw const self.0, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        checked(fd.into())?;
        // SAFETY: the kernel returned a descriptor that nothing else owns.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// The next signal waiting at `descriptor`, if any.
pub(crate) fn next(descriptor: impl AsFd) -> io::Result<Option<i32>> {
    let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
    match rustix::io::read(descriptor, &mut info) {
        // The signal's number is the first field, 32 bits wide (signalfd(2)).
        Ok(read) if read == info.len() => Ok(Some(i32::from_ne_bytes([info[0], info[1], info[2], info[3]]))),
        Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Gives `signal` its default action again. Rust's runtime ignores SIGPIPE, and exec would pass that on.
pub(crate) fn restore_default(signal: i32) -> io::Result<()> {
    // SAFETY: SIG_DFL is a valid disposition for any signal that has one.
    let old = unsafe { libc::signal(signal, libc::SIG_DFL) };
    if old == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends a signal to every process of this pid namespace but the first (kill(2)); there may be none.
pub(crate) fn send_to_all(signal: i32) -> io::Result<()> {
    // SAFETY: kill takes no pointer. The guest, which alone calls this, is process 1 of a namespace of its own, so
    // nobody outside is meant.
    match unsafe { libc::kill(-1, signal) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            error => Err(error),
        },
    }
}
