//! `execve`.

use std::ffi::{CStr, CString};
use std::io;

/// A list of C strings with its terminating null, ready for `execve`.
pub(crate) struct Strings {
    /// Keeps alive, unmoved, what `pointers` points to.
    _owned: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl Strings {
    pub(crate) fn new(owned: Vec<CString>) -> Self {
        let pointers = owned.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
        Self { _owned: owned, pointers }
    }
}

/// Becomes `program`; returns only with the reason why not.
pub(crate) fn execve(program: &CStr, arguments: &Strings, environment: &Strings) -> io::Error {
    // SAFETY: `program` is a C string, and both lists are null-terminated arrays of pointers to C strings
    // that their owners keep alive.
    unsafe { libc::execve(program.as_ptr(), arguments.pointers.as_ptr(), environment.pointers.as_ptr()) };
    io::Error::last_os_error()
}
