//! One command, with which the sandbox ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, WaitOptions, wait};

use super::command::Unstarted;
use super::{Channel, Command, Ended, GuestError, Order, Report, pass_on, tell_failure};
use crate::sys;
use crate::sys::clone::Stack;
use crate::sys::signal::Signals;

/// Starts the command and stays until it has ended, or the supervisor has.
pub(super) fn run(
    channel: &Channel,
    lock: Option<BorrowedFd<'_>>,
    command: &mut Command,
) -> Result<(), GuestError> {
    let waiting = Signals::of(&[libc::SIGCHLD]);
    waiting.block().map_err(GuestError::Signals)?;
    if let Some(outer) = command.open_terminal().map_err(GuestError::Terminal)? {
        channel.report(Report::Terminal(outer)).map_err(GuestError::Channel)?;
        // Its size and settings are the caller's before anything looks at them.
        match channel.next_order().map_err(GuestError::Channel)? {
            Some(Order::Go) => {}
            _ => return Ok(()),
        }
    }
    let (main, unstarted) = command.start(&mut Stack::new())?;
    match unstarted {
        None => {}
        // Its exit code says that nothing ran, too.
        Some(Unstarted::Exec(errno)) => channel.report(Report::NoExec(errno)).map_err(GuestError::Channel)?,
        Some(Unstarted::Step(failed)) => tell_failure(channel, &failed),
    }
    sys::descriptors::close_all_but(&[Some(channel.as_fd()), lock]).map_err(GuestError::Descriptors)?;
    let signals = waiting.descriptor().map_err(GuestError::Signals)?;
    match attend(channel, &signals, main)? {
        Some(ended) => channel.report(Report::Ended(ended)).map_err(GuestError::Channel),
        None => Ok(()),
    }
}

/// Passes signals on and reaps until the process `main` has ended, and how; nothing when the supervisor is gone.
fn attend(channel: &Channel, signals: &OwnedFd, main: Pid) -> Result<Option<Ended>, GuestError> {
    loop {
        let mut ready = [PollFd::new(channel, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(GuestError::Signals(error.into())),
        }
        let (order, ended) = (ready[0].revents(), ready[1].revents());
        if !ended.is_empty() {
            while sys::signal::next(signals).map_err(GuestError::Signals)?.is_some() {}
            if let Some(ended) = reap(main)? {
                return Ok(Some(ended));
            }
        }
        if !order.is_empty() {
            match channel.next_order().map_err(GuestError::Channel)? {
                Some(Order::Signal(signal)) => pass_on(main, signal)?,
                Some(order @ (Order::Stop | Order::Continue)) => super::hold(channel, &order)?,
                // The supervisor is gone: everything inside goes with the guest.
                None => return Ok(None),
                Some(_) => return Err(GuestError::Channel(io::ErrorKind::InvalidData.into())),
            }
        }
    }
}

/// Reaps all that has ended; how `main` did when it is among them.
fn reap(main: Pid) -> Result<Option<Ended>, GuestError> {
    let mut status = None;
    loop {
        let alone = match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, ended))) => {
                if pid == main {
                    status = Some(ended.as_raw());
                }
                continue;
            }
            Ok(None) => false,
            Err(rustix::io::Errno::CHILD) => true,
            Err(error) => return Err(GuestError::Signals(error.into())),
        };
        let Some(status) = status else { return Ok(None) };
        let (cpu, peak_memory_bytes) = sys::wait::used_inside().map_err(GuestError::Signals)?;
        return Ok(Some(Ended { status, alone, cpu_us: cpu.as_micros() as u64, peak_memory_bytes }));
    }
}
