//! Closing ranges of descriptors, and putting descriptors at fixed numbers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use super::checked;

/// Lets the next exec close every descriptor from `first` up (close_range(2)).
pub(crate) fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    // SAFETY: no pointers, and nothing is closed here.
    let returned =
        unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    checked(returned).map(drop)
}

/// Makes `number` refer to what `fd` refers to; it survives exec.
pub(crate) fn place(fd: impl AsFd, number: RawFd) -> io::Result<()> {
    let raw = fd.as_fd().as_raw_fd();
    if raw == number {
        return rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).map_err(Into::into);
    }
    // SAFETY: no pointers. Callers place at 0 to 2, which this program never owns as an OwnedFd.
    checked(unsafe { libc::syscall(libc::SYS_dup3, raw, number, 0) }).map(drop)
}

/// Closes every descriptor but those in `kept`, the standard three too.
///
/// Owners of the others that live on would later close strangers': the guest has none but those it leaks.
pub(crate) fn close_all_but(kept: &[Option<BorrowedFd<'_>>]) -> io::Result<()> {
    let mut kept: Vec<u32> = kept.iter().flatten().map(|fd| fd.as_raw_fd().unsigned_abs()).collect();
    kept.sort_unstable();
    let mut first = 0;
    for last in kept.into_iter().chain([u32::MAX]) {
        if first < last {
            // The last range has no end that is kept.
            let last = if last == u32::MAX { last } else { last - 1 };
            // SAFETY: no pointers; the effect on owners is the contract above.
            checked(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) })?;
        }
        first = last.saturating_add(1);
    }
    Ok(())
}

/// Descriptors that are done with, closed several at once: as numbers are given out in order, one call mostly does.
#[derive(Debug, Default)]
pub(crate) struct Done(Vec<OwnedFd>);

impl Done {
    /// How many wait to be closed. Few, or the table of descriptors would have to grow: while a process beside this one
    /// shares it, that takes the kernel milliseconds.
    const MOST: usize = 16;

    /// Closes `fd` sooner or later.
    pub(crate) fn close(&mut self, fd: OwnedFd) {
        self.0.push(fd);
        if self.0.len() == Self::MOST {
            self.close_all();
        }
    }

    fn close_all(&mut self) {
        let mut numbers: Vec<RawFd> = self.0.drain(..).map(IntoRawFd::into_raw_fd).collect();
        numbers.sort_unstable();
        for run in numbers.chunk_by(|one, next| one + 1 == *next) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            // SAFETY: no pointers, and each descriptor of the range was owned by `self` alone until a moment ago.
            if unsafe { libc::syscall(libc::SYS_close_range, *first, *last, 0) } == 0 {
                continue;
            }
            for number in run {
                // SAFETY: owned by `self` alone until a moment ago, and not closed by the call that failed.
                drop(unsafe { OwnedFd::from_raw_fd(*number) });
            }
        }
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        self.close_all();
    }
}

/// One of the standard three, which stay open for the life of the process.
pub(crate) fn standard(number: RawFd) -> BorrowedFd<'static> {
    debug_assert!((0..=2).contains(&number));
    // SAFETY: the runtime opens 0 to 2 at start if they are closed, and nothing here closes them while
    // borrowed: the guest does so only after its last use.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// Lets 0 to 2, which must be closed or `fd` itself, refer to what `fd` refers to, so that no descriptor that comes
/// in later gets a number at which [`place`] puts others.
pub(crate) fn occupy_standard(fd: impl AsFd) -> io::Result<()> {
    let raw = fd.as_fd().as_raw_fd();
    for number in (0..=2).filter(|number| *number != raw) {
        // SAFETY: no pointers; nothing owns these numbers, as the contract above says.
        checked(unsafe { libc::syscall(libc::SYS_dup3, raw, number, libc::O_CLOEXEC) })?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_with_is_closed_and_nothing_else() {
        let (mut ends, mut done) = (Vec::new(), Done::default());
        for number in 0..Done::MOST * 3 {
            let (read, write) = rustix::pipe::pipe().unwrap();
            ends.push(read);
            // Every third stays open, so that the ranges have holes.
            if number % 3 == 0 { ends.push(write) } else { done.close(write) }
        }
        drop(done);
        for end in &ends {
            assert!(rustix::io::fcntl_getfd(end).is_ok());
        }
        let closed = |end: &OwnedFd| {
            let mut ready = [rustix::event::PollFd::new(end, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut ready, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))
                .unwrap();
            ready[0].revents().contains(rustix::event::PollFlags::HUP)
        };
        assert_eq!(ends.iter().filter(|end| closed(end)).count(), Done::MOST * 2);
    }
}
