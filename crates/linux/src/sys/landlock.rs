//! The three system calls of Landlock, landlock(7), by their numbers: libc has no functions for them. Which
//! rights are handled and given is not known here.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `struct landlock_ruleset_attr`. A kernel that knows a shorter one takes this if what it does not know is
/// zero.
#[repr(C)]
struct RulesetAttributes {
    handled_files: u64,
    handled_network: u64,
    scoped: u64,
}

/// `struct landlock_path_beneath_attr`, packed as in the kernel's header.
#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: i32,
}

const VERSION: u32 = 1;
const PATH_BENEATH: u32 = 1;

/// The ABI that the kernel offers; `ENOSYS` without Landlock, `EOPNOTSUPP` where it was not enabled at boot.
pub(crate) fn version() -> io::Result<u32> {
    let none = std::ptr::null::<RulesetAttributes>();
    // SAFETY: with this flag the kernel wants a null pointer and size 0, and touches no memory
    // (landlock_create_ruleset(2)).
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, VERSION) };
    u32::try_from(version).map_err(|_| io::Error::last_os_error())
}

/// An empty ruleset that handles these file rights and scopes.
pub(crate) fn create(handled_files: u64, scoped: u64) -> io::Result<OwnedFd> {
    let attributes = RulesetAttributes { handled_files, handled_network: 0, scoped };
    // SAFETY: the pointer is to `attributes`, alive until the call returns, and the size is its own; the
    // kernel only reads it (landlock_create_ruleset(2)).
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const attributes,
            size_of::<RulesetAttributes>(),
            0_u32,
        )
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just returned this descriptor, close-on-exec, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// Allows `rights` on `parent` and, if it is a directory, on everything below.
pub(crate) fn allow(ruleset: BorrowedFd<'_>, parent: BorrowedFd<'_>, rights: u64) -> io::Result<()> {
    let rule = PathBeneath { allowed: rights, parent: parent.as_raw_fd() };
    // SAFETY: the pointer is to `rule`, alive until the call returns, of the type that PATH_BENEATH names;
    // both descriptors are borrowed, so open (landlock_add_rule(2)).
    let answer = unsafe {
        libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), PATH_BENEATH, &raw const rule, 0_u32)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Holds the calling thread and all that it starts to `ruleset`, for good. Fails with `EPERM` unless
/// no_new_privs is set.
pub(crate) fn restrict(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is borrowed, so open; no memory is passed (landlock_restrict_self(2)).
    let answer = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0_u32) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
