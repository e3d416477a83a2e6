//! The inner terminal. Its pair is opened inside, from the sandbox's own devpts, so that no terminal of the
//! host is ever there; its outer end is handed to the supervisor, which relays bytes and size. Ctrl-C and job
//! control are the work of the inner terminal, for which the outer one is made raw.

mod line;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFlags, Timespec};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};

use line::{Line, Returns};

use crate::sys::descriptors::standard;
use crate::sys::tty::Raw;

/// Why there is no terminal.
#[derive(Debug, thiserror::Error)]
pub enum PtyError {
    /// The pair cannot be opened inside.
    #[error("cannot open a terminal inside")]
    Open(#[source] io::Error),
    /// The inner terminal cannot become the session's own.
    #[error("cannot make the inner terminal the controlling one")]
    Control(#[source] io::Error),
    /// The caller's terminal cannot be made raw.
    #[error("cannot set the caller's terminal up")]
    Outer(#[source] io::Error),
    /// Bytes cannot be passed on.
    #[error("cannot relay between the terminals")]
    Relay(#[source] io::Error),
}

/// Opens a pair: outer end, inner end.
pub(crate) fn open() -> Result<(OwnedFd, OwnedFd), PtyError> {
    let open = || -> Result<_, Errno> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let outer = openpt(flags)?;
        unlockpt(&outer)?;
        // By descriptor and not by name: the name could mean another instance of devpts (ioctl_tty(2)).
        let inner = ioctl_tiocgptpeer(&outer, flags)?;
        Ok((outer, inner))
    };
    open().map_err(|error| PtyError::Open(error.into()))
}

/// Makes the inner terminal the controlling one of this session.
pub(crate) fn make_controlling(inner: &OwnedFd) -> Result<(), PtyError> {
    rustix::process::ioctl_tiocsctty(inner).map_err(|error| PtyError::Control(error.into()))
}

/// How much is read at once.
const CHUNK: usize = 16 * 1024;

/// The relay between the caller's terminal and the inner one.
#[derive(Debug)]
pub(crate) struct Relay {
    outer: OwnedFd,
    /// The caller's terminal as far as the command was given it.
    input: bool,
    output: i32,
    /// The caller's terminal opened once more, so that writing to it never blocks this process and nobody else's
    /// descriptor is made non-blocking.
    screen: OwnedFd,
    /// Said and not yet taken by the caller's terminal.
    unshown: Vec<u8>,
    /// The line of the supervisor's own, and where the cursor is.
    line: Line,
    /// Typed and not yet taken by the inner terminal.
    typed: Vec<u8>,
    /// Whether everything that the inner terminal will ever say has been said.
    over: bool,
    /// Whether the caller's terminal is gone: then the inner one goes too, by dropping this.
    hung_up: bool,
    /// Dropped last of all, when nothing is written any more.
    _raw: Option<Raw>,
}

impl Relay {
    /// Starts relaying for the standard descriptors that are terminals.
    pub(crate) fn new(outer: OwnedFd, terminals: [bool; 3]) -> Result<Self, PtyError> {
        let failed = |error: Errno| PtyError::Outer(error.into());
        let [input, stdout, stderr] = terminals;
        let output = if stdout {
            1
        } else if stderr {
            2
        } else {
            0
        };
        fcntl_setfl(&outer, fcntl_getfl(&outer).map_err(failed)? | OFlags::NONBLOCK).map_err(failed)?;
        let caller = standard(output);
        let mut settings = tcgetattr(caller).map_err(failed)?;
        if !input {
            // The caller's terminal keeps its own translation of line ends, and one is enough.
            settings.output_modes.remove(OutputModes::OPOST);
        }
        tcsetattr(&outer, OptionalActions::Now, &settings).map_err(failed)?;
        let raw = if input { Some(Raw::enter(0).map_err(PtyError::Outer)?) } else { None };
        let again = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let screen = rustix::fs::open(format!("/proc/self/fd/{output}"), again, rustix::fs::Mode::empty())
            .or_else(|_| rustix::io::fcntl_dupfd_cloexec(caller, 3))
            .map_err(failed)?;
        let line = Line::new(if input { Returns::Inner } else { Returns::Outer });
        let (typed, unshown) = (Vec::new(), Vec::new());
        let relay = Self {
            outer,
            input,
            output,
            screen,
            unshown,
            line,
            typed,
            over: false,
            hung_up: false,
            _raw: raw,
        };
        relay.resize()?;
        Ok(relay)
    }

    /// Moves what can be moved: `inner` is what happened at the inner terminal or the caller's, `typing` whether
    /// something was typed. A terminal that is hung up is let go of: what does not listen to SIGHUP finds its own
    /// terminal gone, as it would outside.
    pub(crate) fn turn(relay: &mut Option<Self>, inner: PollFlags, typing: bool) -> Result<(), PtyError> {
        let Some(present) = relay else { return Ok(()) };
        if typing {
            present.read_typed()?;
        }
        if present.is_hung_up() {
            *relay = None;
            return Ok(());
        }
        if inner.contains(PollFlags::OUT) {
            present.write_typed()?;
        }
        if inner.intersects(PollFlags::IN | PollFlags::OUT | PollFlags::HUP | PollFlags::ERR) {
            present.show()?;
        }
        Ok(())
    }

    /// Gives the inner terminal the size of the caller's; its foreground job gets SIGWINCH by that.
    pub(crate) fn resize(&self) -> Result<(), PtyError> {
        let size = tcgetwinsize(standard(self.output)).map_err(|error| PtyError::Outer(error.into()))?;
        tcsetwinsize(&self.outer, size).map_err(|error| PtyError::Relay(error.into()))
    }

    /// The inner terminal and what to wait for on it.
    pub(crate) fn inner(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, self.unshown.is_empty());
        wanted.set(PollFlags::OUT, !self.typed.is_empty());
        (!self.over && !wanted.is_empty()).then(|| (self.outer.as_fd(), wanted))
    }

    /// Whether the caller's terminal is gone.
    pub(crate) fn is_hung_up(&self) -> bool {
        self.hung_up
    }

    /// The caller's terminal while it is behind.
    pub(crate) fn screen(&self) -> Option<BorrowedFd<'_>> {
        (!self.unshown.is_empty()).then(|| self.screen.as_fd())
    }

    /// The caller's terminal while typing is taken from it and passed on fast enough.
    pub(crate) fn typing(&self) -> Option<BorrowedFd<'static>> {
        (self.input && !self.over && self.typed.len() < CHUNK).then(|| standard(0))
    }

    /// Takes what was typed.
    pub(crate) fn read_typed(&mut self) -> Result<(), PtyError> {
        let mut chunk = [0; CHUNK];
        match rustix::io::read(standard(0), &mut chunk) {
            // A raw terminal reads nothing only when it is gone (termios(3)).
            Ok(0) | Err(Errno::IO) => (self.input, self.hung_up) = (false, true),
            Ok(length) => self.typed.extend_from_slice(&chunk[..length]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(PtyError::Relay(error.into())),
        }
        self.write_typed()
    }

    /// Passes on what was typed, as far as the inner terminal takes it.
    pub(crate) fn write_typed(&mut self) -> Result<(), PtyError> {
        while !self.typed.is_empty() {
            match rustix::io::write(&self.outer, &self.typed) {
                Ok(length) => drop(self.typed.drain(..length)),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                // Nobody has the inner terminal open any more.
                Err(Errno::IO) => self.typed.clear(),
                Err(error) => return Err(PtyError::Relay(error.into())),
            }
        }
        Ok(())
    }

    /// Shows what the inner terminal says, one chunk of it. False when there is nothing more just now, or the caller's
    /// terminal takes no more.
    pub(crate) fn show(&mut self) -> Result<bool, PtyError> {
        if !self.unshown.is_empty() {
            return self.write_shown();
        }
        let mut chunk = [0; CHUNK];
        let length = match rustix::io::read(&self.outer, &mut chunk) {
            // EIO: the last inner descriptor was closed (pty(7)).
            Ok(0) | Err(Errno::IO) => {
                self.over = true;
                return Ok(false);
            }
            Ok(length) => length,
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::INTR) => return Ok(true),
            Err(error) => return Err(PtyError::Relay(error.into())),
        };
        self.unshown.extend_from_slice(self.line.make_way(&chunk[..length]));
        self.unshown.extend_from_slice(&chunk[..length]);
        self.write_shown()
    }

    /// Shows a line of the supervisor's own below what has been said, or nothing where that would tear it or the
    /// caller's terminal is behind.
    pub(crate) fn draw(&mut self, text: &str) -> Result<(), PtyError> {
        if self.unshown.is_empty() && !self.hung_up {
            // A terminal that cannot be asked has no room.
            let columns = tcgetwinsize(standard(self.output)).map_or(0, |size| size.ws_col.into());
            self.unshown = self.line.draw(text, columns);
            self.write_shown()?;
        }
        Ok(())
    }

    /// Writes what is waiting to be shown; true when all of it was taken.
    fn write_shown(&mut self) -> Result<bool, PtyError> {
        while !self.unshown.is_empty() {
            match rustix::io::write(&self.screen, &self.unshown) {
                Ok(length) => drop(self.unshown.drain(..length)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                // The caller's terminal is gone; SIGHUP tells the command.
                Err(Errno::IO) => self.unshown.clear(),
                Err(error) => return Err(PtyError::Relay(error.into())),
            }
        }
        Ok(true)
    }

    /// Shows what is left at the end, and waits a moment for a terminal that is behind: not for one that nobody reads.
    pub(crate) fn show_rest(&mut self) -> Result<(), PtyError> {
        const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
        loop {
            while self.show()? {}
            self.unshown.extend_from_slice(self.line.take_away());
            self.write_shown()?;
            if self.unshown.is_empty() {
                return Ok(());
            }
            let mut wanted = [rustix::event::PollFd::new(&self.screen, PollFlags::OUT)];
            match rustix::event::poll(&mut wanted, Some(&PATIENCE)) {
                Ok(0) => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(PtyError::Relay(error.into())),
            }
        }
    }
}

impl Drop for Relay {
    /// For the ways out that are errors: what is drawn does not stay.
    fn drop(&mut self) {
        self.unshown.extend_from_slice(self.line.take_away());
        // Nobody is left to tell.
        self.write_shown().map(drop).unwrap_or_default();
    }
}
