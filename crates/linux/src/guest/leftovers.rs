//! What a command leaves running behind it: found by who its parents are, stopped so that it cannot multiply, and
//! ended. A process whose parent dies becomes a child of the guest, or of the minder that its command has, so nothing
//! inside can leave the tree it was born in.

use std::fs;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, pidfd_open, pidfd_send_signal, wait,
    waitid,
};

use super::GuestError;
use crate::sys;

/// How long what multiplies is chased. Stopped at once, it is over in a moment.
const PATIENCE: Duration = Duration::from_secs(2);

/// Ends every process inside but this one, process 1. The kernel signals all of them at once, so that none can fork
/// away from it.
pub(super) fn end_all() -> Result<(), GuestError> {
    sys::signal::send_to_all(libc::SIGKILL).map_err(GuestError::Signals)?;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return Ok(()),
            Err(error) => return Err(GuestError::Signals(error.into())),
        }
    }
}

/// Ends every process below this one but `kept` and what is below those. Fails if they multiply faster than that.
pub(super) fn end_below(kept: &[Pid]) -> Result<(), GuestError> {
    let deadline = Instant::now() + PATIENCE;
    while has_others(kept)? {
        if Instant::now() >= deadline {
            return Err(GuestError::Leftovers);
        }
        let doomed = stop(kept)?;
        for process in &doomed {
            process.signal(Signal::KILL)?;
        }
        // Those of a parent that is ended too are left to this process; the next look finds what is still there.
        for process in doomed.iter().filter(|process| process.parent == getpid()) {
            match waitid(WaitId::Pid(process.pid), WaitIdOptions::EXITED) {
                Ok(_) | Err(Errno::CHILD | Errno::INTR) => {}
                Err(error) => return Err(GuestError::Signals(error.into())),
            }
        }
    }
    Ok(())
}

/// Whether this process has children, dead or alive, beside `kept`. Whatever is below it is below one of them, or will
/// be one. A look at all processes does not tell: each may fork its successor and be gone before it is looked at.
fn has_others(kept: &[Pid]) -> Result<bool, GuestError> {
    let own = getpid().as_raw_nonzero();
    if let Ok(children) = fs::read_to_string(format!("/proc/self/task/{own}/children")) {
        let mut children = children.split_ascii_whitespace().filter_map(|number| number.parse().ok());
        return Ok(children.any(|number| Pid::from_raw(number).is_some_and(|pid| !kept.contains(&pid))));
    }
    // A kernel without that list (CONFIG_PROC_CHILDREN).
    if !kept.is_empty() {
        return Ok(!below(kept)?.is_empty());
    }
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::All, options) {
        Ok(_) | Err(Errno::INTR) => Ok(true),
        Err(Errno::CHILD) => Ok(false),
        Err(error) => Err(GuestError::Signals(error.into())),
    }
}

/// Stops all of them. What is stopped cannot fork, and what was forked meanwhile is found by looking again, until
/// nothing new turns up.
fn stop(kept: &[Pid]) -> Result<Vec<Process>, GuestError> {
    let mut known: Vec<Process> = Vec::new();
    loop {
        let new: Vec<_> = below(kept)?
            .into_iter()
            .filter(|found| known.iter().all(|known| known.born != found.born || known.pid != found.pid))
            .collect();
        if new.is_empty() {
            return Ok(known);
        }
        for process in &new {
            process.signal(Signal::STOP)?;
        }
        known.extend(new);
    }
}

/// A process that was seen.
struct Process {
    pid: Pid,
    parent: Pid,
    /// When it began, in the kernel's ticks.
    born: u64,
}

impl Process {
    /// Signals it, if its number is not another's by now. One descriptor at a time, for there may be more processes
    /// than descriptors.
    fn signal(&self, signal: Signal) -> Result<(), GuestError> {
        let handle = match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(Errno::SRCH) => return Ok(()),
            Err(error) => return Err(GuestError::Signals(error.into())),
        };
        // Read again, now that the number is held.
        if read(self.pid).is_none_or(|about| about.born != self.born) {
            return Ok(());
        }
        match pidfd_send_signal(&handle, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(GuestError::Signals(error.into())),
        }
    }
}

/// Everything below this process but `kept` and what is below those. Zombies that others have to reap are left out.
fn below(kept: &[Pid]) -> Result<Vec<Process>, GuestError> {
    let entries = fs::read_dir("/proc").map_err(GuestError::Processes)?;
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry.map_err(GuestError::Processes)?;
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = number.and_then(Pid::from_raw)
            && let Some(about) = read(pid)
        {
            all.push((pid, about));
        }
    }
    let mut inside = vec![getpid()];
    let mut processes = Vec::new();
    let mut at = 0;
    while let Some(parent) = inside.get(at).copied() {
        for (pid, about) in all.iter().filter(|(pid, about)| about.parent == parent && !kept.contains(pid)) {
            inside.push(*pid);
            if !about.zombie || parent == getpid() {
                processes.push(Process { pid: *pid, parent, born: about.born });
            }
        }
        at += 1;
    }
    Ok(processes)
}

/// What is known of a process.
struct About {
    parent: Pid,
    born: u64,
    zombie: bool,
}

/// From `/proc/<pid>/stat` (proc_pid_stat(5)); nothing when it is gone. Its name may contain anything, and ends at the
/// last parenthesis.
fn read(pid: Pid) -> Option<About> {
    let text = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&text[end + 1..]).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let zombie = matches!(fields.next()?, "Z" | "X");
    let parent = Pid::from_raw(fields.next()?.parse().ok()?)?;
    let born = fields.nth(17)?.parse().ok()?;
    Some(About { parent, born, zombie })
}
