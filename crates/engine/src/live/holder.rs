//! The process that holds one live sandbox, from its making to the check at its end.

use std::os::fd::{AsFd, BorrowedFd};

use pinfold_core::coverage::ReceiptLine;
use pinfold_core::id::SandboxId;
use pinfold_core::outcome::{LimitKind, Usage, Violation, Warning};
use pinfold_linux::backend::namespace::{self, Running, Turn, Until};
use pinfold_linux::backend::{Finished, Launch, Task};
use pinfold_linux::environment;
use pinfold_linux::link::{Link, Received};
use serde::{Deserialize, Serialize};

use crate::asked::Prepared;
use crate::failure::Failure;
use crate::run::{JobError, admitting, usage, violations};

/// What a holder tells of its sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Word {
    /// It is there.
    Ready,
    /// It could not be made, or something went wrong with it.
    Failed(Failure),
    /// What it uses now.
    Usage(Usage),
    /// It is gone.
    Over(Box<Over>),
}

/// What came of a live sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Over {
    /// The limit that ended it, if one did.
    pub limit: Option<LimitKind>,
    /// What everything in it used.
    pub usage: Usage,
    /// Limits that were nearly reached.
    pub warnings: Vec<Warning>,
    /// What was attempted.
    pub violations: Vec<Violation>,
    /// Requested beside actual.
    pub receipt: Vec<ReceiptLine>,
}

/// What an owner says to a holder that is to end everything.
pub(super) const END: &[u8] = b"end";
/// What it says to hear what is in use.
pub(super) const USAGE: &[u8] = b"usage";

/// Makes a sandbox and stays until it is gone; the exit code of the process. `door` is the sandbox's end of its
/// owner's door; what happens is told over `status`.
pub fn hold(prepared: &Prepared, id: SandboxId, door: BorrowedFd<'_>, status: &mut Link) -> i32 {
    let word =
        match start(prepared, id, Some(door), false).and_then(|running| attend(prepared, running, status)) {
            Ok(over) => Word::Over(Box::new(over)),
            Err(failure) => Word::Failed(failure),
        };
    let failed = matches!(word, Word::Failed(_));
    // Whoever does not listen any more knows that it is over.
    tell(status, &word);
    i32::from(failed)
}

/// Starts a sandbox that serves clients.
pub(super) fn start(
    prepared: &Prepared,
    id: SandboxId,
    door: Option<BorrowedFd<'_>>,
    sweeps: bool,
) -> Result<Running, Failure> {
    let environment = environment::resolve(&prepared.plan.environment, |name| std::env::var_os(name));
    let launch = Launch {
        id,
        plan: &prepared.plan,
        task: Task::Serve { door },
        environment: &environment,
        state: &prepared.dirs.state,
        sweeps,
    };
    namespace::start(&launch).map_err(failed)
}

fn attend(prepared: &Prepared, mut running: Running, status: &mut Link) -> Result<Over, Failure> {
    let (mut told, mut listens) = (false, true);
    loop {
        if running.is_ready() && !told {
            tell(status, &Word::Ready);
            told = true;
            pinfold_linux::holder::give_memory_back();
        }
        let watched = [(status.as_fd(), Until::Readable)];
        let turn = running.turn(if listens { &watched } else { &[] }).map_err(failed)?;
        let Turn::Going { ready } = turn else { break };
        if !ready.is_empty() {
            match status.receive(false) {
                Ok(Received::Message(message, _)) if message == END => running.kill().map_err(failed)?,
                Ok(Received::Message(..)) => {
                    running.look().map_err(failed)?;
                    // One that is ended for what it uses tells that, and no more.
                    if !running.is_ended() {
                        tell(status, &Word::Usage(used(&mut running)));
                    }
                }
                Ok(Received::Nothing | Received::Part) => {}
                // The owner is gone. The guest sees its door closed, too, but whether it can look is up to what runs
                // inside.
                Ok(Received::End) | Err(_) => {
                    listens = false;
                    running.kill().map_err(failed)?;
                }
            }
        }
    }
    running.finish().map(|finished| over(prepared, finished)).map_err(failed)
}

fn used(running: &mut Running) -> Usage {
    let glance = running.glance();
    Usage {
        wall_ms: u64::try_from(glance.wall.as_millis()).unwrap_or(u64::MAX),
        cpu_ms: u64::try_from(glance.in_use.cpu.as_millis()).unwrap_or(u64::MAX),
        peak_memory_bytes: glance.in_use.memory_bytes,
        peak_processes: glance.in_use.processes,
        ..Usage::default()
    }
}

/// What is told of a sandbox that is gone.
pub(super) fn over(prepared: &Prepared, finished: Finished) -> Over {
    Over {
        limit: finished.limit,
        usage: usage(&finished.usage, 0),
        violations: violations(&finished, &prepared.plan),
        receipt: admitting(prepared.chosen.receipt.clone(), &finished.left),
        warnings: finished.warnings,
    }
}

pub(super) fn failed(error: impl Into<JobError>) -> Failure {
    Failure::from(error.into())
}

fn tell(status: &Link, word: &Word) {
    if let Ok(text) = serde_json::to_vec(word) {
        // An owner that is gone has no use for it.
        drop(status.send(&text, &[]));
    }
}
