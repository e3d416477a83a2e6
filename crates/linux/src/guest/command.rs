//! The process that becomes the command: each function is one of the last steps, in the order of `steps`, and
//! after them comes exec. Everything is inherited by whatever the command starts.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use super::{Channel, GuestError, Report, tell_failure};
use crate::descriptors::Streams;
use crate::landlock::{self, Enforced};
use crate::probe::without;
use crate::rlimits::Rlimits;
use crate::seccomp::Filter;
use crate::steps::{self, StepError};
use crate::sys;
use crate::sys::exec::Strings;
use crate::sys::signal::Signals;
use crate::{capabilities, pty};

/// The exit codes of a shell for a program that is not there, or cannot be run.
pub(crate) const NOT_FOUND: i32 = 127;
pub(crate) const NOT_RUN: i32 = 126;

/// Killed first when the host runs out of memory; the guest is spared so that it can say what happened.
const OOM_SCORE: &[u8] = b"500";

/// What is executed.
pub(crate) struct Program {
    /// Where it may be, in the order to try.
    candidates: Vec<CString>,
    arguments: Strings,
    environment: Strings,
}

/// What the command is confined with.
pub(crate) struct Confinement {
    /// Resource limits.
    pub(crate) limits: Rlimits,
    /// What Landlock allows; nothing where the kernel has none and the plan does without.
    pub(crate) landlock: Option<landlock::Rules>,
    /// The filter, likewise.
    pub(crate) filter: Option<Filter>,
    /// Whether the bit is set.
    pub(crate) no_new_privileges: bool,
    /// Whether capabilities are emptied.
    pub(crate) drop_capabilities: bool,
}

/// A command ready to be started.
pub(crate) struct Command {
    pub(crate) program: Program,
    /// Where it starts, inside.
    pub(crate) directory: PathBuf,
    pub(crate) streams: Streams,
    pub(crate) confinement: Confinement,
    /// The signals that were blocked when the supervisor started.
    pub(crate) mask: Signals,
    /// The inner terminal, once there is one.
    pub(crate) terminal: Option<OwnedFd>,
    /// What Landlock said, once everything is in force.
    pub(crate) confined: Option<String>,
}

impl Program {
    /// `arguments` with `environment`, looked for along its `PATH`; nothing when one holds a NUL or there is
    /// none.
    pub(crate) fn new(arguments: &[OsString], environment: &[(OsString, OsString)]) -> Option<Self> {
        let c_string = |text: &OsString| CString::new(text.clone().into_vec()).ok();
        let name = arguments.first()?;
        let bare = !name.as_encoded_bytes().contains(&b'/');
        let path = environment.iter().find(|(key, _)| key == "PATH").map(|(_, value)| value.clone());
        let candidates = if bare {
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
    /// Runs the last steps and execs; returns the exit code for when that fails.
    pub(crate) fn become_program(&mut self, channel: &Channel) -> i32 {
        if let Err(failed) = steps::run(steps::command(), self) {
            tell_failure(channel, &failed);
            return NOT_RUN;
        }
        self.confined.get_or_insert_default();
        let errno = self.program.exec().raw_os_error().unwrap_or(libc::EIO);
        let code = if errno == libc::ENOENT { NOT_FOUND } else { NOT_RUN };
        // Should the report be lost, the exit code still says that nothing ran.
        channel.report(Report::NoExec(errno)).map_or(code, |()| code)
    }

    pub(crate) fn session(&mut self) -> Result<(), StepError> {
        rustix::process::setsid().map_err(|error| GuestError::Session(error.into()))?;
        if let Some(terminal) = &self.terminal {
            pty::make_controlling(terminal)?;
        }
        // What the caller ignores is its own affair: under nohup(1) the command would never see SIGHUP.
        for signal in (1..=31).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal)) {
            sys::signal::restore_default(signal).map_err(GuestError::Signals)?;
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

    /// A process that is not dumpable may not write its own score. Being dumpable belongs to the memory, which is the
    /// guest's until exec, so it is taken back at once.
    pub(crate) fn oom(&mut self) -> Result<(), StepError> {
        let raise = || -> io::Result<()> {
            set_dumpable_behavior(DumpableBehavior::Dumpable)?;
            let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
            let file = rustix::fs::open(c"/proc/self/oom_score_adj", flags, rustix::fs::Mode::empty())?;
            rustix::io::write(file, OOM_SCORE)?;
            set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
            Ok(())
        };
        raise().map_err(GuestError::Oom)?;
        Ok(())
    }

    pub(crate) fn limits(&mut self) -> Result<(), StepError> {
        Ok(self.confinement.limits.apply()?)
    }

    pub(crate) fn no_new_privileges(&mut self) -> Result<(), StepError> {
        if self.confinement.no_new_privileges {
            rustix::thread::set_no_new_privs(true)
                .map_err(|error| GuestError::NoNewPrivileges(error.into()))?;
        }
        Ok(())
    }

    pub(crate) fn capabilities(&mut self) -> Result<(), StepError> {
        if self.confinement.drop_capabilities {
            capabilities::drop_all()?;
        }
        Ok(())
    }

    pub(crate) fn landlock(&mut self) -> Result<(), StepError> {
        if let Some(rules) = &self.confinement.landlock {
            let restricted = landlock::restrict(rules)?;
            let abi = restricted.abi.map_or_else(|| "no ABI".to_owned(), |abi| format!("ABI {abi}"));
            self.confined = Some(match restricted.enforced {
                Enforced::Fully => format!("{abi}, fully enforced"),
                Enforced::Partially(gaps) => format!("{abi}, partially enforced: {gaps}"),
                Enforced::Not(reason) => format!("not enforced: {reason}"),
            });
        }
        Ok(())
    }

    pub(crate) fn seccomp(&mut self) -> Result<(), StepError> {
        if let Some(filter) = &self.confinement.filter {
            filter.install()?;
        }
        Ok(())
    }
}
