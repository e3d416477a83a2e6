//! A user namespace that exists only to carry an id map: an idmapped mount keeps the map and the namespace
//! itself can go.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::process::{Pid, Signal, pidfd_send_signal};

use super::checked;
use super::clone::Child;

/// Room for a function that only pauses; the kernel wants the top 16-byte aligned (clone(2)).
#[repr(align(16))]
#[derive(Debug)]
struct Stack([u8; 4096]);

/// A process in a new user namespace that waits to be killed, by its parent or with it. It has no map yet. Reaped when
/// this is dropped.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) child: Child,
    /// The stack that the holder stands on for as long as it lives.
    stack: Option<Box<Stack>>,
}

impl Drop for Holder {
    /// Its stack must outlive it. Killing what is dead already does nothing.
    fn drop(&mut self) {
        let gone = pidfd_send_signal(&self.child.pidfd, Signal::KILL).is_ok();
        if !gone || super::wait::reap(self.child.pid).is_err() {
            // It cannot be seen to end, so what it stands on is left to it.
            self.stack.take().map(Box::leak);
        }
    }
}

/// Makes a [`Holder`]. It shares this process's memory, which saves copying it: a tenth of the cost of a
/// fork.
pub(crate) fn hold_user_namespace() -> io::Result<Holder> {
    extern "C" fn wait(parent: *mut libc::c_void) -> libc::c_int {
        // SAFETY: neither call takes pointers; the death signal is this process's own. A parent that died
        // before it was set is no parent any more.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() as usize != parent as usize {
                return 1;
            }
        }
        loop {
            // SAFETY: pause takes no pointers, and returns, touching errno, only after a handled signal:
            // callers of the backend install no handlers.
            unsafe { libc::pause() };
        }
    }
    let own = rustix::process::getpid().as_raw_nonzero().get() as usize;
    let mut stack = Box::new(Stack([0; 4096]));
    let mut pidfd: libc::c_int = -1;
    let flags = libc::CLONE_VM | libc::CLONE_NEWUSER | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: the child runs `wait` alone, on a stack that `Holder` keeps until it is reaped, and neither
    // allocates nor writes to shared memory. The pidfd's address is live through the call (clone(2)).
    let pid = unsafe {
        libc::clone(
            wait,
            stack.0.as_mut_ptr().add(stack.0.len()).cast(),
            flags,
            own as *mut libc::c_void,
            &raw mut pidfd,
        )
    };
    checked(pid.into())?;
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::Other)?;
    // SAFETY: the kernel stored a descriptor that this process alone owns (CLONE_PIDFD, clone(2)).
    Ok(Holder { child: Child { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } }, stack: Some(stack) })
}

/// The user namespace that the namespace `of` belongs to (ioctl_nsfs(2)).
pub(crate) fn user_namespace_of(of: &OwnedFd) -> io::Result<OwnedFd> {
    /// `NS_GET_USERNS` of linux/nsfs.h.
    const GET_USER_NAMESPACE: libc::Ioctl = 0xb701;
    // SAFETY: the request takes no argument.
    let fd = unsafe { libc::ioctl(of.as_raw_fd(), GET_USER_NAMESPACE) };
    checked(fd.into())?;
    // SAFETY: the kernel returned a descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
