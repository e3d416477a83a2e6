//! What a command leaves running behind it: found by who its parents are, stopped so that it cannot multiply, and
//! ended. A process whose parent dies becomes a child of the guest, or of the minder that its command has, so nothing
//! inside can leave the tree it was born in.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, pidfd_open, pidfd_send_signal, wait,
    waitid,
};

use super::GuestError;
use crate::sys;

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

/// Ends every process below this one but `kept` and what is below those.
pub(super) fn end_below(kept: &[Pid]) -> Result<(), GuestError> {
    loop {
        let doomed = stop(kept)?;
        if doomed.is_empty() {
            return Ok(());
        }
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

/// A process, held so that its number cannot become another's.
struct Process {
    pid: Pid,
    parent: Pid,
    /// When it began, in the kernel's ticks.
    born: u64,
    handle: OwnedFd,
}

impl Process {
    fn signal(&self, signal: Signal) -> Result<(), GuestError> {
        match pidfd_send_signal(&self.handle, signal) {
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
    let mut at = 0;
    while let Some(parent) = inside.get(at).copied() {
        let children = all.iter().filter(|(pid, about)| about.parent == parent && !kept.contains(pid));
        inside.extend(children.map(|(pid, _)| *pid));
        at += 1;
    }
    let mut processes = Vec::new();
    for pid in &inside[1..] {
        let handle = match pidfd_open(*pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(Errno::SRCH) => continue,
            Err(error) => return Err(GuestError::Signals(error.into())),
        };
        // Read again, now that the number is held.
        let Some(about) = read(*pid) else { continue };
        let same = all.iter().any(|(other, first)| other == pid && first.born == about.born);
        if same && (!about.zombie || about.parent == getpid()) {
            processes.push(Process { pid: *pid, parent: about.parent, born: about.born, handle });
        }
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
