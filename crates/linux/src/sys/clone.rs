//! Making processes: `clone3` with new namespaces, and a plain fork of the guest. What the child does is not
//! decided here.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Pid;
use rustix::thread::UnshareFlags;

use super::checked;

/// Who returned from a fork.
pub(crate) enum Forked {
    /// The new process.
    Child,
    /// The old one, with a handle on the new.
    Parent(Child),
}

/// A process this one made and must reap.
#[derive(Debug)]
pub(crate) struct Child {
    /// Its number as seen here; valid until it is reaped.
    pub(crate) pid: Pid,
    /// A descriptor that stays valid after reaping.
    pub(crate) pidfd: OwnedFd,
}

/// The C library's own constant is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Copies this process into the new namespaces `flags` names, and into the control group `group` (clone3(2)).
///
/// The raw call skips the C library's fork handlers, so this process must be single-threaded: then no lock of
/// the allocator can be held by a thread that the copy does not have. `backend` states that to its callers.
pub(crate) fn clone_into(flags: u64, group: Option<BorrowedFd<'_>>) -> io::Result<Forked> {
    let mut pidfd: libc::c_int = -1;
    let args = libc::clone_args {
        flags: flags | libc::CLONE_PIDFD as u64 | group.map_or(0, |_| CLONE_INTO_CGROUP),
        pidfd: (&raw mut pidfd) as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: group.map_or(0, |group| group.as_raw_fd() as u64),
    };
    // SAFETY: `args` is a whole clone_args whose only pointer is to a live int, and `group` is open. Without CLONE_VM the child
    // has its own copy of all memory, and without CLONE_THREAD no state is shared but descriptors' offsets.
    let returned = checked(unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) })?;
    match Pid::from_raw(returned as i32) {
        None => Ok(Forked::Child),
        // SAFETY: the kernel stored a descriptor that this process alone owns (CLONE_PIDFD, clone(2)).
        Some(pid) => Ok(Forked::Parent(Child { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } })),
    }
}

/// Copies this process with the plain call, which the filter lets through; the copy's number, or nothing in the copy.
/// As with [`clone_into`], this process must be single-threaded.
pub(crate) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: without a stack, flags or pointers the child has its own copy of all memory and goes on from here
    // (clone(2)).
    let returned = checked(unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) })?;
    Ok(Pid::from_raw(returned as i32))
}

/// The stack of a process that shares this one's memory while this one stands still; untouched pages of it cost
/// nothing.
pub(crate) struct Stack(Vec<u128>);

impl Stack {
    const BYTES: usize = 256 * 1024;

    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(Self::BYTES / size_of::<u128>()))
    }
}

/// Starts a process that runs `body` in this process's memory while this one stands still, until the new one
/// execs or exits with the code that `body` returns (vfork in clone(2)). It saves copying the memory, a third
/// of the cost.
pub(crate) fn spawn_sharing<F: FnOnce() -> i32>(stack: &mut Stack, body: F) -> io::Result<Pid> {
    extern "C" fn enter<F: FnOnce() -> i32>(body: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `spawn_sharing` passes a live `Option<F>` that nothing else uses until this process is
        // done.
        let body = unsafe { &mut *body.cast::<Option<F>>() };
        let code = body.take().map_or(1, |body| body());
        exit_now(code)
    }
    let mut body = Some(body);
    let top = stack.0.spare_capacity_mut().as_mut_ptr_range().end;
    // SAFETY: the stack and `body` outlive the new process's use of them, because CLONE_VFORK holds this
    // process until then; for the same reason nothing touches the shared memory at the same time. The stack's
    // top is 16-byte aligned. Without CLONE_FILES and CLONE_SIGHAND descriptors and dispositions are the new
    // process's own.
    let pid = unsafe {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        libc::clone(enter::<F>, top.cast(), flags, (&raw mut body).cast())
    };
    checked(pid.into())?;
    Pid::from_raw(pid).ok_or_else(|| io::ErrorKind::Other.into())
}

/// A process beside this one that shares its memory and descriptors and runs one function.
#[derive(Debug)]
pub(crate) struct Beside {
    pid: Pid,
    /// What it stands on while it lives.
    _stack: Box<Room>,
}

/// Room for a function that makes a few system calls; the kernel wants the top 16-byte aligned (clone(2)).
#[repr(align(16))]
#[derive(Debug)]
struct Room([u8; 16 * 1024]);

impl Beside {
    /// Starts `body`, which runs at the same time as this process: it must make system calls and nothing
    /// else, in particular neither allocate nor touch what is not its own. Its result is the exit code.
    pub(crate) fn start(body: extern "C" fn(*mut libc::c_void) -> libc::c_int) -> io::Result<Self> {
        let mut stack = Box::new(Room([0; 16 * 1024]));
        // SAFETY: `body` keeps to system calls, as its documentation here demands and its two authors,
        // `namespaces` and `sys::ids`, uphold; the stack lives until the process is reaped, in `wait`.
        let pid = unsafe {
            let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::SIGCHLD;
            let top = stack.0.as_mut_ptr().add(stack.0.len());
            libc::clone(body, top.cast(), flags, std::ptr::null_mut())
        };
        checked(pid.into())?;
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::Other)?;
        Ok(Self { pid, _stack: stack })
    }

    /// Waits for its end and returns its exit code.
    pub(crate) fn wait(self) -> io::Result<i32> {
        let reaped = super::wait::reap(self.pid)?;
        if libc::WIFEXITED(reaped.status) { Ok(libc::WEXITSTATUS(reaped.status)) } else { Ok(255) }
    }
}

/// Ends this process at once: no destructors and no exit handlers, which belong to the process it was copied
/// from.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes no pointers and does not return.
    unsafe { libc::_exit(code) }
}

/// Makes the caller's present control groups the root of those that it sees.
pub(crate) fn new_cgroup_namespace() -> io::Result<()> {
    // SAFETY: the flag does not unshare descriptors, which is what makes the call unsafe.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWCGROUP)? };
    Ok(())
}
