//! What an attempt gives, and how it is printed.

use std::ffi::CString;
use std::io::{self, Write};

use serde_json::{Value, json};

/// A name, and what it does with its words.
pub(crate) type Attempt = (&'static str, fn(&[&str]) -> io::Result<Value>);

/// What came of an attempt, when its own process did not say it.
pub(crate) enum Outcome {
    /// It printed its answer itself.
    Printed,
    /// It was killed by this signal.
    Killed(i32),
    /// It could not even be started.
    Errno(io::Error),
}

/// Prints what `attempt` could not print itself.
pub(crate) fn print(attempt: &str, outcome: Outcome) {
    match outcome {
        Outcome::Printed => {}
        Outcome::Killed(signal) => line(&json!({ "attempt": attempt, "killed": signal_name(signal) })),
        Outcome::Errno(error) => line(&json!({ "attempt": attempt, "errno": errno_name(&error) })),
    }
}

/// Prints the answer of an attempt, in one write.
pub(crate) fn result(attempt: &str, result: io::Result<Value>) {
    line(&match result {
        Ok(value) => json!({ "attempt": attempt, "ok": value }),
        Err(error) => json!({ "attempt": attempt, "errno": errno_name(&error) }),
    });
}

fn line(value: &Value) {
    // With nobody to tell, there is nothing to do about it.
    io::stdout().write_all(format!("{value}\n").as_bytes()).unwrap_or_default();
}

/// The value of a system call, or its error.
pub(crate) fn check(returned: impl Into<i64>) -> io::Result<i64> {
    match returned.into() {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

/// A word as the kernel takes it.
pub(crate) fn c_string(word: &str) -> CString {
    CString::new(word).unwrap_or_default()
}

/// A number in decimal.
pub(crate) fn number(word: &str) -> io::Result<i64> {
    word.parse().map_err(|_| io::Error::from_raw_os_error(libc::EDOM))
}

/// A mode in octal.
pub(crate) fn octal(word: &str) -> io::Result<u32> {
    u32::from_str_radix(word, 8).map_err(|_| io::Error::from_raw_os_error(libc::EDOM))
}

/// The errors that the tests name; others by number.
fn errno_name(error: &io::Error) -> String {
    const NAMES: &[(i32, &str)] = &[
        (libc::EPERM, "EPERM"),
        (libc::ENOENT, "ENOENT"),
        (libc::ESRCH, "ESRCH"),
        (libc::EIO, "EIO"),
        (libc::ENXIO, "ENXIO"),
        (libc::EBADF, "EBADF"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::ENOMEM, "ENOMEM"),
        (libc::EACCES, "EACCES"),
        (libc::EFAULT, "EFAULT"),
        (libc::EBUSY, "EBUSY"),
        (libc::EEXIST, "EEXIST"),
        (libc::EXDEV, "EXDEV"),
        (libc::ENODEV, "ENODEV"),
        (libc::ENOTDIR, "ENOTDIR"),
        (libc::EISDIR, "EISDIR"),
        (libc::EINVAL, "EINVAL"),
        (libc::EMFILE, "EMFILE"),
        (libc::ENOTTY, "ENOTTY"),
        (libc::ETXTBSY, "ETXTBSY"),
        (libc::EFBIG, "EFBIG"),
        (libc::ENOSPC, "ENOSPC"),
        (libc::EROFS, "EROFS"),
        (libc::EDOM, "EDOM"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::ENOTEMPTY, "ENOTEMPTY"),
        (libc::ELOOP, "ELOOP"),
        (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT"),
        (libc::ESOCKTNOSUPPORT, "ESOCKTNOSUPPORT"),
        (libc::EOPNOTSUPP, "EOPNOTSUPP"),
        (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
        (libc::EADDRNOTAVAIL, "EADDRNOTAVAIL"),
        (libc::ENETDOWN, "ENETDOWN"),
        (libc::ENETUNREACH, "ENETUNREACH"),
        (libc::EHOSTUNREACH, "EHOSTUNREACH"),
        (libc::ECONNREFUSED, "ECONNREFUSED"),
        (libc::ETIMEDOUT, "ETIMEDOUT"),
        (libc::ENOKEY, "ENOKEY"),
        (libc::EUSERS, "EUSERS"),
        (libc::EOVERFLOW, "EOVERFLOW"),
    ];
    let code = error.raw_os_error().unwrap_or(0);
    if (EXIT..EXIT + 256).contains(&code) {
        return format!("EXIT{}", code - EXIT);
    }
    NAMES
        .iter()
        .find(|(known, _)| *known == code)
        .map_or_else(|| format!("E{code}"), |(_, name)| (*name).to_owned())
}

/// Error numbers from here on stand for the exit codes of programs, which have no errors of their own.
const EXIT: i32 = 100_000;

/// The error that stands for a program's exit code.
pub(crate) fn exit_error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(EXIT + code)
}

fn signal_name(signal: i32) -> String {
    const NAMES: &[(i32, &str)] = &[
        (libc::SIGSYS, "SIGSYS"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGXFSZ, "SIGXFSZ"),
    ];
    NAMES
        .iter()
        .find(|(known, _)| *known == signal)
        .map_or_else(|| format!("SIG{signal}"), |(_, name)| (*name).to_owned())
}
