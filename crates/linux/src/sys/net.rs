//! A network namespace of its own, made beside the process that will enter it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use super::clone::Beside;

/// A network namespace in the making.
#[derive(Debug)]
pub(crate) struct Making(Beside);

/// The exit code for a failure. Any other is the descriptor of the namespace: set-up has few open, and a
/// number beyond 63 would make the kernel grow a table that is in use by two, which takes it milliseconds.
const FAILED: libc::c_int = 255;

/// Begins to make a namespace. The kernel takes as long for it as for all other kinds together, so it is done
/// beside other work.
pub(crate) fn begin() -> io::Result<Making> {
    Beside::start(make).map(Making)
}

impl Making {
    /// Waits until the namespace is there, and enters it.
    pub(crate) fn enter(self) -> io::Result<()> {
        let namespace = match self.0.wait()? {
            FAILED => return Err(io::ErrorKind::PermissionDenied.into()),
            // SAFETY: `make` ended well, so it left this descriptor open in the shared table, and owned by
            // nothing.
            number => unsafe { OwnedFd::from_raw_fd(number) },
        };
        rustix::thread::move_into_link_name_space(
            std::os::fd::AsFd::as_fd(&namespace),
            Some(LinkNameSpaceType::Network),
        )?;
        Ok(())
    }
}

/// Runs beside the guest: system calls alone, no allocation.
extern "C" fn make(_: *mut libc::c_void) -> libc::c_int {
    try_make().ok().filter(|number| *number < FAILED).unwrap_or(FAILED)
}

fn try_make() -> rustix::io::Result<RawFd> {
    // SAFETY: the flag does not unshare descriptors, which is what makes the call unsafe.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
    raise_loopback()?;
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let namespace = rustix::fs::open(c"/proc/thread-self/ns/net", flags, rustix::fs::Mode::empty())?;
    Ok(namespace.into_raw_fd())
}

/// Brings `lo` of this network namespace up (netdevice(7)). It gets its addresses by itself.
fn raise_loopback() -> rustix::io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: ifreq is plain data for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: `request` is a whole ifreq that lives through the call.
    let returned =
        unsafe { libc::syscall(libc::SYS_ioctl, socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if returned < 0 { Err(rustix::io::Errno::PERM) } else { Ok(()) }
}
