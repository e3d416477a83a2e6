//! A network namespace of its own, made beside the process that will enter it; and what else can be done beside it, in
//! the same helper: letting go of the old root.

use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::ioctl::{Opcode, Setter, ioctl};
use rustix::mount::UnmountFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, futex};

use super::clone::Beside;

/// A network namespace in the making.
#[derive(Debug)]
pub(crate) struct Making(Beside);

/// How far the process beside is with its root: one of the three below.
static OLD_ROOT: AtomicU32 = AtomicU32::new(IN_USE);
const IN_USE: u32 = 0;
/// It has a new root, with the old one mounted on it: whoever comes first unmounts that.
const LEFT: u32 = 1;
/// Somebody does.
const TAKEN: u32 = 2;

/// The exit code for a failure. Any other is the descriptor of the namespace: set-up has few open, and a
/// number beyond 63 would make the kernel grow a table that is in use by two, which takes it milliseconds.
const FAILED: libc::c_int = 255;

/// The exit code for an old root that could not be let go of.
const NOT_LET_GO: libc::c_int = 254;

/// Begins to make a namespace. The kernel takes as long for it as for all other kinds together, so it is done
/// beside other work.
pub(crate) fn begin() -> io::Result<Making> {
    Beside::start(make).map(Making)
}

impl Making {
    /// Lets the helper, if it is done before this process is, unmount what is mounted on the root that this process has
    /// changed into. The kernel waits for all processors before it is done with that, a tenth of a millisecond or, when
    /// they are busy, several.
    pub(crate) fn let_go_of_old_root(&self) {
        OLD_ROOT.store(LEFT, Ordering::Release);
        // Nobody waiting yet is no failure, and there is no other.
        futex::wake(&OLD_ROOT, futex::Flags::PRIVATE, 1).ok();
    }

    /// Waits until the namespace is there and the old root is not, and enters the namespace.
    pub(crate) fn enter(self) -> io::Result<()> {
        if unmount_old_root().is_err() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let namespace = match self.0.wait()? {
            NOT_LET_GO => return Err(io::ErrorKind::ResourceBusy.into()),
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

/// Runs beside the guest, in its memory: system calls alone, no allocation, and none of the C library's
/// wrappers, which write a failure to the `errno` that both share. rustix makes system calls itself.
extern "C" fn make(_: *mut libc::c_void) -> libc::c_int {
    let Some(number) = try_make().ok().filter(|number| *number < NOT_LET_GO) else { return FAILED };
    while OLD_ROOT.load(Ordering::Acquire) == IN_USE {
        // Woken, or too late to sleep: either way it is looked at again.
        futex::wait(&OLD_ROOT, futex::Flags::PRIVATE, IN_USE, None).ok();
    }
    if unmount_old_root().is_ok() { number } else { NOT_LET_GO }
}

/// Unmounts the old root, unless the other one of the two processes does. The change of the root was that of both
/// (pivot_root(2)); what is unmounted is the topmost mount there.
fn unmount_old_root() -> rustix::io::Result<()> {
    match OLD_ROOT.compare_exchange(LEFT, TAKEN, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => rustix::mount::unmount(c"/", UnmountFlags::DETACH),
        Err(_) => Ok(()),
    }
}

fn try_make() -> rustix::io::Result<RawFd> {
    // SAFETY: the flag does not unshare descriptors, which is what makes the call unsafe.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
    raise(b"lo")?;
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let namespace = rustix::fs::open(c"/proc/thread-self/ns/net", flags, rustix::fs::Mode::empty())?;
    Ok(namespace.into_raw_fd())
}

/// Brings an interface of this network namespace up (netdevice(7)). Loopback gets its addresses by itself.
fn raise(name: &[u8]) -> rustix::io::Result<()> {
    const SET_FLAGS: Opcode = libc::SIOCSIFFLAGS as Opcode;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: ifreq is plain data for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one whole ifreq, which `Setter` owns through the call, and writes nothing.
    unsafe { ioctl(&socket, Setter::<SET_FLAGS, libc::ifreq>::new(request)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_leaves_errno_alone() {
        // SAFETY: the address is this thread's own errno, which lives as long as the thread.
        unsafe { *libc::__errno_location() = 0 };
        assert_eq!(raise(b"no such one"), Err(rustix::io::Errno::NODEV));
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(0));
    }
}
