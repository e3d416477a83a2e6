//! What every wall of this crate is asked and answers. The walls themselves are below.

pub mod coverage;
mod glance;
pub mod namespace;

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use pinfold_core::control::Control;
use pinfold_core::id::SandboxId;
use pinfold_core::outcome::{Exit, LimitKind, Warning};
use pinfold_core::path::AbsPath;
use pinfold_core::plan::Plan;

pub use crate::descriptors::Stdio;
pub use glance::{Glance, InUse};

use crate::steps::StepFailed;
use crate::survey::{EndReport, SurveyError};

/// What a sandbox is made for.
#[derive(Debug)]
pub enum Task<'a> {
    /// One command, with which it ends.
    Command {
        /// The program and its arguments; at least one word.
        words: &'a [OsString],
        /// Where input and output go.
        stdio: Stdio,
    },
    /// Commands that clients send in (see [`crate::live`]).
    Serve {
        /// The sandbox's end of the door of the client that it belongs to: it ends when that client is gone.
        door: Option<BorrowedFd<'a>>,
    },
}

/// A sandbox to make.
#[derive(Debug)]
pub struct Launch<'a> {
    /// What the sandbox is called.
    pub id: SandboxId,
    /// What must hold.
    pub plan: &'a Plan,
    /// What for.
    pub task: Task<'a>,
    /// The variables inside (see [`crate::environment::resolve`]).
    pub environment: &'a [(OsString, OsString)],
    /// A directory of the caller's own that outlives runs: locks, known repositories, quarantine.
    pub state: &'a AbsPath,
    /// Whether to look for control groups that killed supervisors left. Who makes many sandboxes looks when one was
    /// killed ([`crate::cgroup::sweep_all`]), and not at each.
    pub sweeps: bool,
}

/// From a status as wait(2) encodes it.
fn exit_from_wait(status: i32) -> Exit {
    if libc::WIFSIGNALED(status) {
        Exit::Signal(libc::WTERMSIG(status))
    } else {
        Exit::Code(libc::WEXITSTATUS(status))
    }
}

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Elapsed time.
    pub wall: Duration,
    /// User and system time of everything that ran inside, the set-up included.
    pub cpu: Duration,
    /// The most memory at once, tmpfs and page cache included; without a control group, the private memory that was seen
    /// by sampling, or the largest resident set of any one process.
    pub peak_memory_bytes: u64,
    /// The most processes and threads at once.
    pub peak_processes: u64,
}

/// A command that has ended, and everything inside with it.
#[derive(Debug)]
pub struct Finished {
    /// How.
    pub exit: Exit,
    /// The limit that ended it, if one did.
    pub limit: Option<LimitKind>,
    /// Limits that were nearly reached, each once.
    pub warnings: Vec<Warning>,
    /// Forks that the limit of processes refused, where the kernel counts them.
    pub refused_forks: u64,
    /// Why the program could not be started, when it could not.
    pub not_started: Option<std::io::Error>,
    /// What was used.
    pub usage: Usage,
    /// What Landlock held, in words; empty when it was not reached.
    pub landlock: String,
    /// What became of the protected names.
    pub end: EndReport,
    /// What the covers of this run leave open, control by control.
    pub left: Vec<(Control, String)>,
}

/// Why a command did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no command, or a NUL in one of its words or variables.
    #[error("the command is empty, or one of its words or variables contains a NUL")]
    Command,
    /// A step on the host failed.
    #[error(transparent)]
    Step(#[from] StepFailed),
    /// A step inside failed.
    #[error("step `{step}` failed inside: {message}")]
    Inside {
        /// Which step.
        step: String,
        /// Why.
        message: String,
    },
    /// The guest ended without saying why.
    #[error("the sandbox ended during its set-up, without a reason (status {status:#x})")]
    Vanished {
        /// As wait(2) encodes it.
        status: i32,
    },
    /// The supervisor failed.
    #[error("the supervisor cannot {action}")]
    Supervise {
        /// What it tried.
        action: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// A cover was lost to a change on the host and could not be put back, so the run was ended.
    #[error(
        "a protected path was uncovered by a change on the host and could not be covered again: {message}"
    )]
    Uncovered {
        /// Why.
        message: String,
    },
    /// Control groups failed.
    #[error(transparent)]
    Group(#[from] crate::cgroup::CgroupError),
    /// The caller's terminal failed.
    #[error(transparent)]
    Terminal(#[from] crate::pty::PtyError),
    /// The check at the end failed.
    #[error("the check of protected names at the end failed")]
    End(#[source] SurveyError),
}
