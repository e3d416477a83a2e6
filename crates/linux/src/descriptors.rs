//! The standard descriptors: what each of the three is on the host, and what takes its place inside. A
//! terminal of the host never enters; nothing but the three does.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, fstat};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::termios::isatty;

use crate::sys::descriptors::{place, standard};

/// Where the command's input and output go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// To the caller's own three; whichever is a terminal is replaced by one of the sandbox.
    Inherit,
    /// Output and errors to pipes that the caller reads; input as with `Inherit`, but from nowhere when it is
    /// a terminal.
    Capture,
    /// A terminal is replaced by one of the sandbox, as with `Inherit`; other output goes to pipes that the
    /// caller reads and passes on.
    Relay,
}

/// Why the standard descriptors cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DescriptorError {
    /// A directory would be a way out: `openat` from it leads anywhere (CVE-2024-21626).
    #[error("{name} is a directory, which would lead out of the sandbox")]
    Directory {
        /// Which of the three.
        name: &'static str,
    },
    /// One of them cannot be looked at.
    #[error("cannot look at {name}")]
    Look {
        /// Which of the three.
        name: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A pipe or `/dev/null` cannot be opened.
    #[error("cannot open a pipe")]
    Pipe(#[source] io::Error),
    /// One of them cannot be put in place.
    #[error("cannot set {name} up inside")]
    Place {
        /// Which of the three.
        name: &'static str,
        /// Why.
        source: io::Error,
    },
}

const NAMES: [&str; 3] = ["standard input", "standard output", "standard error"];

/// What one of the three is inside.
#[derive(Debug)]
enum Stream {
    /// The caller's own.
    Own,
    /// The inner terminal.
    Terminal,
    /// A pipe, or nothing.
    Other(OwnedFd),
}

/// The three, as the command gets them.
#[derive(Debug)]
pub(crate) struct Streams([Stream; 3]);

/// The ends of pipes that the caller reads.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
}

impl Streams {
    /// Looks at the caller's three.
    pub(crate) fn look(stdio: Stdio) -> Result<(Self, Captured), DescriptorError> {
        let mut streams = [Stream::Own, Stream::Own, Stream::Own];
        let mut captured = Captured::default();
        for (number, stream) in streams.iter_mut().enumerate() {
            let fd = standard(number as i32);
            let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|error| DescriptorError::Pipe(error.into()));
            match (stdio, number) {
                (Stdio::Capture, 1 | 2) | (Stdio::Relay, 1 | 2) if stdio == Stdio::Capture || !isatty(fd) => {
                    let (reader, writer) = pipe()?;
                    *(if number == 1 { &mut captured.stdout } else { &mut captured.stderr }) = Some(reader);
                    *stream = Stream::Other(writer);
                }
                (Stdio::Capture, _) if isatty(fd) => {
                    // The reading end of a pipe that nobody writes to: the end of input, at once.
                    *stream = Stream::Other(pipe()?.0);
                }
                _ if isatty(fd) => *stream = Stream::Terminal,
                _ => check(fd, NAMES[number])?,
            }
        }
        Ok((Self(streams), captured))
    }

    /// The inner terminal where `terminals` says so, and `given` for the rest, unless one of them must not enter.
    pub(crate) fn given(given: Vec<OwnedFd>, terminals: [bool; 3]) -> Result<Self, DescriptorError> {
        let mut given = given.into_iter();
        let mut streams = [Stream::Terminal, Stream::Terminal, Stream::Terminal];
        for (number, stream) in streams.iter_mut().enumerate().filter(|(number, _)| !terminals[*number]) {
            let name = NAMES[number];
            let fd = given
                .next()
                .ok_or(DescriptorError::Place { name, source: io::ErrorKind::NotFound.into() })?;
            check(fd.as_fd(), name)?;
            *stream = Stream::Other(fd);
        }
        Ok(Self(streams))
    }

    /// Those that are no terminal, to be handed over.
    pub(crate) fn to_hand_over(&self) -> Vec<BorrowedFd<'_>> {
        let streams = self.0.iter().enumerate();
        let fds = streams.filter_map(|(number, stream)| match stream {
            Stream::Own => Some(standard(number as i32)),
            Stream::Other(fd) => Some(fd.as_fd()),
            Stream::Terminal => None,
        });
        fds.collect()
    }

    /// Whether any of them is to be the inner terminal.
    pub(crate) fn wants_terminal(&self) -> bool {
        self.0.iter().any(|stream| matches!(stream, Stream::Terminal))
    }

    /// Which of the three are the inner terminal.
    pub(crate) fn terminals(&self) -> [bool; 3] {
        [0, 1, 2].map(|number| matches!(self.0[number], Stream::Terminal))
    }

    /// Puts all three in place, in the process that becomes the command.
    pub(crate) fn place(&self, terminal: Option<&OwnedFd>) -> Result<(), DescriptorError> {
        for (number, stream) in self.0.iter().enumerate() {
            let fd = match (stream, terminal) {
                (Stream::Own, _) => continue,
                (Stream::Terminal, Some(terminal)) => terminal.as_fd(),
                (Stream::Other(fd), _) => fd.as_fd(),
                (Stream::Terminal, None) => {
                    return Err(DescriptorError::Place {
                        name: NAMES[number],
                        source: io::ErrorKind::NotFound.into(),
                    });
                }
            };
            place(fd, number as i32)
                .map_err(|source| DescriptorError::Place { name: NAMES[number], source })?;
        }
        Ok(())
    }
}

/// Takes the caller's standard input out of its place, where nothing is left to be read.
pub fn take_input() -> io::Result<OwnedFd> {
    let taken = standard(0).try_clone_to_owned()?;
    place(std::fs::File::open("/dev/null")?, 0)?;
    Ok(taken)
}

/// Lets all three refer to what `fd` refers to.
pub fn replace_standard(fd: BorrowedFd<'_>) -> io::Result<()> {
    (0..=2).try_for_each(|number| place(fd, number))
}

/// Refuses what must not enter.
fn check(fd: BorrowedFd<'_>, name: &'static str) -> Result<(), DescriptorError> {
    let status = fstat(fd).map_err(|error| DescriptorError::Look { name, source: error.into() })?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => Err(DescriptorError::Directory { name }),
        _ => Ok(()),
    }
}
