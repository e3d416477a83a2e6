//! The one system call of seccomp: loading a program. What the program says is not known here.

use std::io;

/// What seccomp(2) answered to a filter for all threads of this process.
pub(crate) enum Loaded {
    /// Every thread has it.
    Everywhere,
    /// Nothing was loaded, because this thread has filters of its own.
    Diverged(i32),
}

/// Loads `program` into every thread of this process. Fails with `EACCES` unless no_new_privs is set.
pub(crate) fn load(program: &[libc::sock_filter]) -> io::Result<Loaded> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    // SAFETY: `filter` points at `len` initialised instructions, which the borrow of `program` keeps alive
    // for the call; the kernel copies them, checks them, and writes to none of this process's memory
    // (seccomp(2)).
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    match answer {
        0 => Ok(Loaded::Everywhere),
        thread if thread > 0 => Ok(Loaded::Diverged(thread as i32)),
        _ => Err(io::Error::last_os_error()),
    }
}
