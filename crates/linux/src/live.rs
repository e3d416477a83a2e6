//! A live sandbox as its client sees it: a door, and the commands that were sent through it. [`Client`] runs one for a
//! person, with the caller's own streams.
//!
//! Nothing here forks, so any thread of any program may use it, several at once. Whoever holds the door of a sandbox
//! that was made for it keeps it alive; dropping an [`Execution`] ends its command.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

mod client;

pub use client::{Client, GRACE, Served};

use crate::link::{Link, Received};
use crate::wire::{self, Event, Exec, Request};

/// The way into a live sandbox.
#[derive(Debug)]
pub struct Door(Link);

impl Door {
    /// Both ends: the client's, and the one for the sandbox.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = Link::pair()?;
        Ok((Self(ours), theirs.into()))
    }

    /// From a socket that is connected to a sandbox.
    pub fn from_socket(socket: OwnedFd) -> Self {
        Self(socket.into())
    }

    /// Sends a command in. `streams` are what it reads from and writes to, those left out that are its terminal.
    /// Returns before it has started.
    pub fn exec(&self, exec: &Exec, streams: &[BorrowedFd<'_>]) -> io::Result<Execution> {
        let request = Request::Exec(Box::new(exec.clone())).encode();
        if request.len() > wire::LONGEST {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let (ours, theirs) = Link::pair()?;
        let mut fds = vec![theirs.as_fd()];
        fds.extend_from_slice(streams);
        self.0.send(&[], &fds)?;
        drop(theirs);
        ours.send(&request, &[])?;
        Ok(Execution(ours))
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A command in a live sandbox. Dropping it ends the command and all that it started.
#[derive(Debug)]
pub struct Execution(Link);

/// What was heard of a command.
#[derive(Debug)]
pub enum Heard {
    /// Something happened; with the outer end of its terminal, if that is it.
    Event(Event, Option<OwnedFd>),
    /// Nothing yet.
    Nothing,
    /// The sandbox is gone.
    Gone,
}

impl Execution {
    /// What happened next; with `wait`, waits for it.
    pub fn hear(&mut self, wait: bool) -> io::Result<Heard> {
        loop {
            return match self.0.receive(wait)? {
                Received::Message(message, fds) => {
                    let event = Event::decode(&message)
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                    Ok(Heard::Event(event, fds.into_iter().next()))
                }
                Received::Part => continue,
                Received::Nothing => Ok(Heard::Nothing),
                Received::End => Ok(Heard::Gone),
            };
        }
    }

    /// Lets it begin: its terminal is set up.
    pub fn go(&self) -> io::Result<()> {
        self.0.send(&Request::Go.encode(), &[])
    }

    /// Sends its process group a signal, as a terminal would.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        self.0.send(&Request::Signal(signal).encode(), &[])
    }

    /// Ends it and all that it started; how it ended is still told.
    pub fn kill(&self) -> io::Result<()> {
        self.0.send(&Request::Kill.encode(), &[])
    }
}

impl AsFd for Execution {
    /// Readable when something happened.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Execution {
    /// Another descriptor of the same link.
    fn from(socket: OwnedFd) -> Self {
        Self(socket.into())
    }
}
