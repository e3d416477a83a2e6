//! One command in a live sandbox for a person: the caller's streams, terminal and signals, as a command has them that
//! is run on its own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use pinfold_core::outcome::LimitKind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Door, Execution, Heard};
use crate::backend::namespace::{Turn, Until, Waiting, push};
use crate::backend::{RunError, Stdio};
use crate::descriptors::{Captured, Streams};
use crate::pty::Relay;
use crate::sys;
use crate::wire::{Ended, Event, Exec};

/// A command in a live sandbox that has the caller's streams. Dropping it ends the command.
#[derive(Debug)]
pub struct Client {
    execution: Execution,
    signals: Waiting,
    captured: Captured,
    terminals: [bool; 3],
    relay: Option<Relay>,
    deadline: Option<Instant>,
    limit: Option<LimitKind>,
    ended: Option<Ended>,
    not_started: Option<io::Error>,
    gone: bool,
    stuck: bool,
}

/// How long a command may take to end that is told to. More than the guest takes, however many processes there are.
pub const GRACE: Duration = Duration::from_secs(5);

/// What came of it.
#[derive(Debug)]
pub struct Served {
    /// How it ended; nothing when the sandbox was gone first, or when a limit was passed and it did not end: something
    /// inside keeps the guest from ending it.
    pub ended: Option<Ended>,
    /// The limit that ended it, of those that are kept here.
    pub limit: Option<LimitKind>,
    /// Why the program could not be started, if it could not.
    pub not_started: Option<io::Error>,
}

impl Client {
    /// Sends a command in, with the caller's streams.
    pub fn start(
        door: &Door,
        mut exec: Exec,
        stdio: Stdio,
        deadline: Option<Instant>,
    ) -> Result<Self, RunError> {
        let failed = |source| RunError::Supervise { action: "send the command in", source };
        let (streams, captured) = Streams::look(stdio).map_err(|error| failed(io::Error::other(error)))?;
        exec.terminals = streams.terminals();
        let signals = Waiting::begin()?;
        let execution = door.exec(&exec, &streams.to_hand_over()).map_err(failed)?;
        Ok(Self {
            execution,
            signals,
            captured,
            terminals: exec.terminals,
            relay: None,
            deadline,
            limit: None,
            ended: None,
            not_started: None,
            gone: false,
            stuck: false,
        })
    }

    /// Takes the captured pipes, to read from while turning.
    pub fn take_output(&mut self) -> (Option<OwnedFd>, Option<OwnedFd>) {
        (self.captured.stdout.take(), self.captured.stderr.take())
    }

    /// A limit is passed: the command ends. The first one is the one that is told.
    pub fn exceed(&mut self, limit: LimitKind) -> Result<(), RunError> {
        self.limit.get_or_insert(limit);
        self.deadline = Instant::now().checked_add(GRACE);
        self.kill()
    }

    /// Ends the command and all that it started.
    pub fn kill(&mut self) -> Result<(), RunError> {
        match self.execution.kill() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(RunError::Supervise { action: "end the command", source: error })
            }
            // The sandbox is gone, which is heard next.
            _ => Ok(()),
        }
    }

    /// Waits until something happens, to the command or to a descriptor in `watched`, and deals with what is the
    /// command's.
    pub fn turn(&mut self, watched: &[(BorrowedFd<'_>, Until)]) -> Result<Turn, RunError> {
        if self.is_over() {
            return Ok(Turn::Over);
        }
        let mut fds = Vec::with_capacity(5 + watched.len());
        fds.push(PollFd::new(&self.execution, PollFlags::IN));
        fds.push(PollFd::new(&self.signals, PollFlags::IN));
        let inner = self.relay.as_ref().and_then(Relay::inner).map(|(fd, wanted)| push(&mut fds, fd, wanted));
        let typing = self.relay.as_ref().and_then(Relay::typing).map(|fd| push(&mut fds, fd, PollFlags::IN));
        let screen = self.relay.as_ref().and_then(Relay::screen).map(|fd| push(&mut fds, fd, PollFlags::OUT));
        let first = fds.len();
        fds.extend(watched.iter().map(|(fd, until)| {
            let wanted = if *until == Until::Readable { PollFlags::IN } else { PollFlags::OUT };
            PollFd::from_borrowed_fd(*fd, wanted)
        }));
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(RunError::Supervise { action: "wait", source: error.into() }),
        }
        let happened = |at: Option<usize>| at.map_or(PollFlags::empty(), |at| fds[at].revents());
        let (heard, signal) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        let (inner, typing, screen) = (happened(inner), happened(typing), happened(screen));
        let ready = (0..watched.len()).filter(|at| !fds[first + at].revents().is_empty()).collect();
        drop(fds);

        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            match self.limit {
                Some(_) => self.stuck = true,
                None => self.exceed(LimitKind::Wall)?,
            }
        }
        if signal {
            self.signalled()?;
        }
        if heard {
            self.hear()?;
        }
        Relay::turn(&mut self.relay, inner | (screen & PollFlags::OUT), !typing.is_empty())?;
        Ok(if self.is_over() { Turn::Over } else { Turn::Going { ready } })
    }

    /// What came of it.
    pub fn finish(mut self) -> Result<Served, RunError> {
        if let Some(relay) = &mut self.relay {
            relay.show_rest()?;
        }
        Ok(Served { ended: self.ended, limit: self.limit, not_started: self.not_started.take() })
    }

    fn is_over(&self) -> bool {
        self.ended.is_some() || self.not_started.is_some() || self.gone || self.stuck
    }

    fn hear(&mut self) -> Result<(), RunError> {
        let failed = |source| RunError::Supervise { action: "hear the guest", source };
        match self.execution.hear(false).map_err(failed)? {
            Heard::Nothing => {}
            Heard::Gone => self.gone = true,
            Heard::Event(Event::Terminal, terminal) => {
                self.relay = terminal.map(|outer| Relay::new(outer, self.terminals)).transpose()?;
                self.execution.go().map_err(failed)?;
            }
            Heard::Event(Event::Started, _) => {}
            Heard::Event(Event::NotStarted(errno), _) => {
                self.not_started = Some(io::Error::from_raw_os_error(errno));
            }
            Heard::Event(Event::Failed { step, message }, _) => {
                return Err(RunError::Inside { step, message });
            }
            Heard::Event(Event::Ended(ended), _) => self.ended = Some(ended),
        }
        Ok(())
    }

    /// Passes on the signals that came.
    fn signalled(&mut self) -> Result<(), RunError> {
        let failed = |source| RunError::Supervise { action: "pass a signal on", source };
        while let Some(signal) = sys::signal::next(&self.signals).map_err(failed)? {
            match (signal, &self.relay) {
                (libc::SIGWINCH, Some(relay)) => relay.resize()?,
                (libc::SIGWINCH, None) => {}
                _ => self.execution.signal(signal).map_err(failed)?,
            }
        }
        Ok(())
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.execution.as_fd()
    }
}
