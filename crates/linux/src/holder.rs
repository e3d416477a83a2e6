//! The process that holds one sandbox: it makes it, watches over it and looks after what it leaves. One each, so that
//! one that is slow or killed is nobody else's affair, and all of them can be made at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::process::{Pid, Signal, pidfd_send_signal};

use crate::sys;
use crate::sys::clone::{Child, Forked};

/// A holder, as whoever started it sees it.
#[derive(Debug)]
pub struct Holder(Child);

impl Holder {
    /// Runs `body` in a process of its own, which ends with the code that it returns. The caller must be
    /// single-threaded.
    pub fn start(body: impl FnOnce() -> i32) -> io::Result<Self> {
        match sys::clone::clone_into(0, None)? {
            Forked::Child => sys::clone::exit_now(body()),
            Forked::Parent(child) => Ok(Self(child)),
        }
    }

    /// Its number, while it is not reaped.
    pub fn pid(&self) -> i32 {
        Pid::as_raw_nonzero(self.0.pid).get()
    }

    /// Ends it at once; the kernel ends its sandbox.
    pub fn kill(&self) -> io::Result<()> {
        pidfd_send_signal(&self.0.pidfd, Signal::KILL).map_err(Into::into)
    }

    /// Waits for its end.
    pub fn wait(self) -> io::Result<i32> {
        sys::wait::reap(self.0.pid).map(|reaped| reaped.status)
    }
}

impl AsFd for Holder {
    /// Readable when it has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.pidfd.as_fd()
    }
}

/// Closes every descriptor but the standard three and `kept`, in a holder that was just started: what is open belongs
/// to whoever started it. Owners of the others must be forgotten, not dropped, as happens when the process ends.
pub fn keep_only(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let standard = [0, 1, 2].map(|number| Some(sys::descriptors::standard(number)));
    let kept: Vec<_> = standard.into_iter().chain(kept.iter().map(|fd| Some(*fd))).collect();
    sys::descriptors::close_all_but(&kept)
}

/// Gives memory back that set-up used and nobody needs any more.
pub fn give_memory_back() {
    sys::memory::trim();
}
