//! Closing ranges of descriptors, and putting descriptors at fixed numbers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

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

/// Closes every descriptor but `kept`, the standard three too.
///
/// Owners of the others that live on would later close strangers': the guest has none but those it leaks.
pub(crate) fn close_all_but(kept: impl AsFd) -> io::Result<()> {
    let kept = kept.as_fd().as_raw_fd();
    // SAFETY: no pointers; the effect on owners is the contract above.
    let close = |first: RawFd, last: libc::c_uint| unsafe {
        checked(libc::syscall(libc::SYS_close_range, first, last, 0)).map(drop)
    };
    if kept > 0 {
        close(0, kept.unsigned_abs() - 1)?;
    }
    close(kept + 1, libc::c_uint::MAX)
}

/// One of the standard three, which stay open for the life of the process.
pub(crate) fn standard(number: RawFd) -> BorrowedFd<'static> {
    debug_assert!((0..=2).contains(&number));
    // SAFETY: the runtime opens 0 to 2 at start if they are closed, and nothing here closes them while
    // borrowed: the guest does so only after its last use.
    unsafe { BorrowedFd::borrow_raw(number) }
}
