//! System calls that no safe crate offers, each behind a safe function. The only home of `unsafe` in the
//! workspace; what the calls are used for is decided above.
#![allow(unsafe_code)]

pub(crate) mod clone;
pub(crate) mod descriptors;
pub(crate) mod exec;
pub(crate) mod ids;
pub(crate) mod landlock;
pub(crate) mod memory;
pub(crate) mod mount;
pub(crate) mod net;
pub(crate) mod seccomp;
pub(crate) mod signal;
pub(crate) mod tty;
pub(crate) mod wait;
pub(crate) mod wipe;

use std::io;

/// What a raw system call returned, as a result.
fn checked(returned: libc::c_long) -> io::Result<libc::c_long> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}
