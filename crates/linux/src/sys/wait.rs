//! Reaping with the resources used.

use std::io;
use std::time::Duration;

use rustix::process::Pid;

use super::checked;

/// A process that ended, and what it and its reaped descendants used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reaped {
    /// The status as wait(2) encodes it.
    pub(crate) status: i32,
    /// User and system time.
    pub(crate) cpu: Duration,
    /// The largest resident set of any one process.
    pub(crate) peak_memory_bytes: u64,
}

/// Waits for the child `pid` to end.
pub(crate) fn reap(pid: Pid) -> io::Result<Reaped> {
    wait4(pid.as_raw_nonzero().get(), 0).map(|(_, reaped)| reaped)
}

/// What can be said of all children.
pub(crate) enum Next {
    /// This one has ended, and is reaped.
    Ended(Pid, Reaped),
    /// This one was stopped.
    Stopped(Pid),
    /// There are some, and none has ended.
    NoneYet,
    /// There are none.
    NoneLeft,
}

/// Reaps one child that has ended, or tells of one that was stopped, without waiting.
pub(crate) fn next_ended() -> io::Result<Next> {
    match wait4(-1, libc::WNOHANG | libc::WUNTRACED) {
        Ok((pid, reaped)) => Ok(match Pid::from_raw(pid) {
            None => Next::NoneYet,
            Some(pid) if libc::WIFSTOPPED(reaped.status) => Next::Stopped(pid),
            Some(pid) => Next::Ended(pid, reaped),
        }),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(Next::NoneLeft),
        Err(error) => Err(error),
    }
}

fn wait4(pid: i32, options: i32) -> io::Result<(i32, Reaped)> {
    let mut status = 0;
    // SAFETY: rusage is plain data for which all zeroes is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let ended = loop {
        // SAFETY: both pointers are to live values of the right types.
        let returned = unsafe { libc::wait4(pid, &raw mut status, options, &raw mut usage) };
        match checked(returned.into()) {
            Ok(_) => break returned,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    };
    let (cpu, peak_memory_bytes) = sums(&usage);
    Ok((ended, Reaped { status, cpu, peak_memory_bytes }))
}

/// CPU time and largest resident set of the descendants that this process has reaped.
pub(crate) fn used_inside() -> io::Result<(Duration, u64)> {
    // SAFETY: rusage is plain data for which all zeroes is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live value of the right type.
    checked(unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) }.into())?;
    Ok(sums(&usage))
}

fn sums(usage: &libc::rusage) -> (Duration, u64) {
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    // Kilobytes, says getrusage(2).
    (time(usage.ru_utime) + time(usage.ru_stime), usage.ru_maxrss.unsigned_abs() * 1024)
}
