//! The process that becomes a command: each step is a function here, in the order of `steps`, and after them comes
//! exec. What confines it is the guest's own, inherited.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::process::Pid;

use super::GuestError;
use crate::descriptors::Streams;
use crate::probe::without;
use crate::pty::{self, PtyError};
use crate::rlimits::Rlimits;
use crate::steps::{self, StepError, StepFailed};
use crate::sys;
use crate::sys::clone::Stack;
use crate::sys::exec::Strings;
use crate::sys::signal::Signals;

/// The exit codes of a shell for a program that is not there, or cannot be run.
pub(crate) const NOT_FOUND: i32 = 127;
pub(crate) const NOT_RUN: i32 = 126;

/// What is executed.
pub(crate) struct Program {
    /// Where it may be, in the order to try.
    candidates: Vec<CString>,
    arguments: Strings,
    environment: Strings,
}

/// A command ready to be started.
pub(crate) struct Command {
    pub(crate) program: Program,
    /// Where it starts, inside.
    pub(crate) directory: PathBuf,
    pub(crate) streams: Streams,
    /// What the kernel limits for each process.
    pub(crate) limits: Rlimits,
    /// The signals that it starts with blocked.
    pub(crate) mask: Signals,
    /// The inner terminal, once there is one.
    pub(crate) terminal: Option<OwnedFd>,
}

/// Why a command did not start.
pub(crate) enum Unstarted {
    /// A step failed.
    Step(StepFailed),
    /// The program cannot be executed, by the number of the error.
    Exec(i32),
}

impl Program {
    /// `arguments` with `environment`, looked for along its `PATH`; nothing when one holds a NUL or there is
    /// none.
    pub(crate) fn new(arguments: &[OsString], environment: &[(OsString, OsString)]) -> Option<Self> {
        let c_string = |text: &OsString| CString::new(text.clone().into_vec()).ok();
        let name = arguments.first()?;
        let bare = !name.as_encoded_bytes().contains(&b'/');
        let path = environment.iter().find(|(key, _)| key == "PATH").map(|(_, value)| value.clone());
        let candidates = if name.is_empty() {
            Vec::new() // As in execvp(3): there is none, rather than each directory itself.
        } else if bare {
            std::env::split_paths(&path.unwrap_or_default())
                .filter_map(|d| c_string(&d.join(name).into()))
                .collect()
        } else {
            vec![c_string(name)?]
        };
        let arguments = arguments.iter().map(c_string).collect::<Option<Vec<_>>>()?;
        let variables = environment.iter().map(|(key, value)| {
            let mut text = key.clone();
            text.push("=");
            text.push(value);
            c_string(&text)
        });
        let environment = Strings::new(variables.collect::<Option<Vec<_>>>()?);
        Some(Self { candidates, arguments: Strings::new(arguments), environment })
    }

    /// Becomes the program; returns with the reason why not. Trying goes on as in execvp(3).
    fn exec(&self) -> io::Error {
        let mut reason = io::Error::from_raw_os_error(libc::ENOENT);
        for candidate in &self.candidates {
            let error = sys::exec::execve(candidate, &self.arguments, &self.environment);
            match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                Some(libc::EACCES) => reason = error,
                _ => return error,
            }
        }
        reason
    }
}

impl Command {
    /// Starts it, in a process that shares the guest's memory until it execs; says what came of that.
    pub(crate) fn start(&mut self, stack: &mut Stack) -> Result<(Pid, Option<Unstarted>), GuestError> {
        let mut unstarted = None;
        let pid = sys::clone::spawn_sharing(stack, || {
            let (why, code) = self.become_program();
            unstarted = Some(why);
            code
        });
        Ok((pid.map_err(GuestError::Fork)?, unstarted))
    }

    /// Runs the last steps and execs; returns why that failed, and the exit code for it.
    fn become_program(&mut self) -> (Unstarted, i32) {
        if let Err(failed) = steps::run(steps::command(), self) {
            return (Unstarted::Step(failed), NOT_RUN);
        }
        let errno = self.program.exec().raw_os_error().unwrap_or(libc::EIO);
        (Unstarted::Exec(errno), if errno == libc::ENOENT { NOT_FOUND } else { NOT_RUN })
    }

    /// Opens its terminal, if it wants one, and returns the end that leads out.
    pub(crate) fn open_terminal(&mut self) -> Result<Option<OwnedFd>, PtyError> {
        if !self.streams.wants_terminal() {
            return Ok(None);
        }
        let (outer, inner) = pty::open()?;
        self.terminal = Some(inner);
        Ok(Some(outer))
    }

    pub(crate) fn session(&mut self) -> Result<(), StepError> {
        rustix::process::setsid().map_err(|error| GuestError::Session(error.into()))?;
        if let Some(terminal) = &self.terminal {
            pty::make_controlling(terminal)?;
        }
        self.mask.block().map_err(GuestError::Signals)?;
        Ok(())
    }

    pub(crate) fn streams(&mut self) -> Result<(), StepError> {
        self.streams.place(self.terminal.as_ref())?;
        if !without("descriptors") {
            sys::descriptors::close_on_exec_from(3).map_err(GuestError::Descriptors)?;
        }
        Ok(())
    }

    pub(crate) fn directory(&mut self) -> Result<(), StepError> {
        rustix::process::chdir(&self.directory)
            .map_err(|error| GuestError::Directory { path: self.directory.clone(), source: error.into() })?;
        Ok(())
    }

    pub(crate) fn limits(&mut self) -> Result<(), StepError> {
        Ok(self.limits.apply()?)
    }
}
