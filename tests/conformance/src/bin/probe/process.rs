//! The probe's own processes: one for each attempt, daemons that try to outlive everything, and what they do
//! then.

use std::ffi::CString;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;

use serde_json::Value;

use crate::answer::{self, Outcome, check};

/// Runs `attempt` in a child, which prints the answer.
pub(crate) fn apart(name: &str, attempt: impl FnOnce() -> io::Result<Value>) -> Outcome {
    // SAFETY: this process has one thread, so the child finds every lock open.
    let child = match check(unsafe { libc::fork() }) {
        Ok(0) => {
            answer::result(name, attempt());
            // SAFETY: leaves at once; what was printed was written without a buffer.
            unsafe { libc::_exit(0) }
        }
        Ok(child) => child as i32,
        Err(error) => return Outcome::Errno(error),
    };
    match wait(child) {
        Ok(status) if libc::WIFSIGNALED(status) => Outcome::Killed(libc::WTERMSIG(status)),
        Ok(_) => Outcome::Printed,
        Err(error) => Outcome::Errno(error),
    }
}

/// Waits for a child; its status as wait(2) encodes it.
pub(crate) fn wait(child: i32) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call.
        match check(unsafe { libc::waitpid(child, &raw mut status, 0) }) {
            Ok(_) => return Ok(status),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Runs `attempt` in a child and gives its success or error: for what would change this process.
pub(crate) fn child(attempt: impl FnOnce() -> io::Result<i64>) -> io::Result<i64> {
    let (mut reader, mut writer) = io::pipe()?;
    // SAFETY: this process has one thread.
    let child = check(unsafe { libc::fork() })? as i32;
    if child == 0 {
        let code = match attempt() {
            Ok(_) => 0,
            Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
        };
        // A lost answer is read as the end of the pipe, and taken for a failure.
        writer.write_all(&code.to_ne_bytes()).unwrap_or_default();
        // SAFETY: leaves at once.
        unsafe { libc::_exit(0) }
    }
    drop(writer);
    let mut code = [0; 4];
    let read = reader.read_exact(&mut code);
    wait(child)?;
    read?;
    match i32::from_ne_bytes(code) {
        0 => Ok(0),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Leaves a process behind that does all it can to stay: in a session of its own, its parent gone. Its
/// command line has `mark` in it; `how` is handed on to [`linger`]. Returns once it runs.
pub(crate) fn daemon(mark: &str, how: &[&str]) -> io::Result<()> {
    // The path by which it was started is still there; `/proc/self/exe` would do too.
    let program = CString::new(std::env::current_exe()?.as_os_str().as_bytes()).unwrap_or_default();
    let mut words = vec![program.clone(), c"linger".to_owned(), answer::c_string(mark)];
    words.extend(how.iter().map(|word| answer::c_string(word)));
    let (mut reader, writer) = io::pipe()?;
    // SAFETY: this process has one thread.
    let child = check(unsafe { libc::fork() })? as i32;
    if child == 0 {
        // SAFETY: takes no pointers; the second fork leaves the session without a leader that waits.
        let second = unsafe {
            libc::setsid();
            libc::fork()
        };
        if second == 0 {
            // SAFETY: takes no pointers. The pipe closes when the program has begun or failed to.
            unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
            let mut pointers: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
            pointers.push(std::ptr::null());
            // SAFETY: the words and the list end with zeros and outlive the call.
            unsafe { libc::execv(program.as_ptr(), pointers.as_ptr()) };
        }
        // SAFETY: leaves at once.
        unsafe { libc::_exit(0) }
    }
    drop(writer);
    wait(child)?;
    let mut nothing = Vec::new();
    reader.read_to_end(&mut nothing)?;
    Ok(())
}

/// Stays. Ignores every signal that can be ignored, and does what `words` say after the mark: `closed` gives
/// the standard streams up, `stopped` stops, `write FILE` writes to a file again and again.
pub(crate) fn linger(words: &[String]) -> ! {
    for signal in 1..65 {
        // SAFETY: ignoring a signal installs no handler; those that cannot be ignored answer with an error.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let how: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
    match how.as_slice() {
        ["closed"] => {
            // SAFETY: nothing uses the standard streams any more.
            unsafe { libc::close_range(0, 2, 0) };
        }
        ["stopped"] => {
            // SAFETY: takes no pointers.
            unsafe { libc::raise(libc::SIGSTOP) };
        }
        ["write", file] => write_forever(file),
        _ => {}
    }
    loop {
        // SAFETY: takes no arguments.
        unsafe { libc::pause() };
    }
}

/// Overwrites `file` with a growing number, a few hundred times a second, whatever happens.
fn write_forever(file: &str) -> ! {
    let mut count = 0u64;
    loop {
        count += 1;
        std::fs::write(file, count.to_string()).unwrap_or_default();
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 3_000_000 };
        // SAFETY: `pause` outlives the call; the rest of an interrupted pause is of no interest.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
}

/// A descriptor that a system call gave, as a file that closes it.
pub(crate) fn file(descriptor: i64) -> std::fs::File {
    // SAFETY: only called with what an open of this process has just returned.
    unsafe { std::fs::File::from_raw_fd(descriptor as i32) }
}
