//! The process that makes all others. It has one thread and opens no files of its own, so that it can fork at any time;
//! a program with threads, which cannot, asks it over a socket.

use std::os::fd::{AsFd, OwnedFd};

use pinfold_core::coverage::ReceiptLine;
use pinfold_core::id::SandboxId;
use pinfold_core::path::AbsPath;
use pinfold_core::plan::{BackendName, OnOutputLimit};
use pinfold_linux::environment;
use pinfold_linux::holder::Holder;
use pinfold_linux::link::{Link, Received};
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

use super::holder;
use crate::asked::{Asked, Prepared};
use crate::failure::Failure;

/// What it is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Plan a sandbox, and keep the plan.
    Prepare(Box<Asked>),
    /// Make a sandbox by a plan that is kept. The door and the status link come with it.
    Boot {
        /// Which plan.
        number: usize,
        /// What it is called.
        id: SandboxId,
    },
    /// Let go of a plan.
    Forget(usize),
}

/// What it answers to [`Ask::Prepare`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The plan has this number.
    Prepared(usize, Box<Info>),
    /// There is no such sandbox to be had.
    Refused(Failure),
}

/// What a client needs to know of a plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Info {
    /// The wall.
    pub backend: BackendName,
    /// Requested beside actual.
    pub receipt: Vec<ReceiptLine>,
    /// Where commands start.
    pub directory: AbsPath,
    /// Names and values of all variables inside, as bytes.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// The longest that a command takes.
    pub timeout_ms: u64,
    /// The most that is kept of each stream.
    pub max_output_bytes: u64,
    /// Whether a command ends that says more.
    pub ends_at_output_limit: bool,
    /// Where state is kept.
    pub state: AbsPath,
}

/// Serves over `socket` until its other end is gone.
pub fn serve(socket: OwnedFd) -> Result<(), Failure> {
    // What the caller's terminal sends to its foreground is not meant for sandboxes.
    rustix::process::setsid().map_err(|error| broken(&error))?;
    let mut link = Link::from(socket);
    let mut plans: Vec<Option<Prepared>> = Vec::new();
    let mut holders: Vec<Holder> = Vec::new();
    loop {
        let mut fds = vec![PollFd::new(&link, PollFlags::IN)];
        fds.extend(holders.iter().map(|holder| PollFd::new(holder, PollFlags::IN)));
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(broken(&error)),
        }
        let over: Vec<bool> = fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
        let asked = !fds[0].revents().is_empty();
        drop(fds);
        for at in (0..holders.len()).rev().filter(|at| over[*at]) {
            holders.swap_remove(at).wait().map_err(|error| broken(&error))?;
        }
        if !asked {
            continue;
        }
        let (message, fds) = match link.receive(false).map_err(|error| broken(&error))? {
            Received::Message(message, fds) => (message, fds),
            Received::Part | Received::Nothing => continue,
            Received::End => return Ok(()),
        };
        match serde_json::from_slice(&message).map_err(|error| broken(&error))? {
            Ask::Prepare(asked) => {
                let answer = match asked.prepare(&[]) {
                    Ok(prepared) => {
                        let info = Box::new(Info::of(&prepared));
                        let number = plans.iter().position(Option::is_none).unwrap_or(plans.len());
                        plans.resize_with(plans.len().max(number + 1), || None);
                        plans[number] = Some(prepared);
                        Answer::Prepared(number, info)
                    }
                    Err(failure) => Answer::Refused(failure),
                };
                let text = serde_json::to_vec(&answer).map_err(|error| broken(&error))?;
                link.send(&text, &[]).map_err(|error| broken(&error))?;
            }
            Ask::Forget(number) => {
                if let Some(plan) = plans.get_mut(number) {
                    *plan = None;
                }
            }
            Ask::Boot { number, id } => {
                let mut fds = fds.into_iter();
                let plan = plans.get(number).and_then(Option::as_ref);
                let (Some(prepared), Some(door), Some(status)) = (plan, fds.next(), fds.next()) else {
                    return Err(broken(&"a sandbox without a plan, a door or a status link was asked for"));
                };
                let mut status = Link::from(status);
                let (mut client, mut others) = (Some(link), Some(holders));
                let holder = Holder::start(|| {
                    // What belongs to the spawner would be kept open by every sandbox.
                    drop((client.take(), others.take()));
                    holder::hold(prepared, id, door.as_fd(), &mut status)
                });
                link = client.take().ok_or_else(|| broken(&"the socket is gone"))?;
                holders = others.take().unwrap_or_default();
                holders.push(holder.map_err(|error| broken(&error))?);
            }
        }
    }
}

fn broken(error: &dyn std::fmt::Display) -> Failure {
    Failure::new("PF-LIVE-001", format!("the spawner cannot go on: {error}"))
}

impl Info {
    pub(super) fn of(prepared: &Prepared) -> Self {
        let plan = &prepared.plan;
        let environment = environment::resolve(&plan.environment, |name| std::env::var_os(name));
        let bytes = |text: std::ffi::OsString| text.into_encoded_bytes();
        Self {
            backend: prepared.chosen.backend,
            receipt: prepared.chosen.receipt.clone(),
            directory: plan.directory.clone(),
            environment: environment.into_iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
            timeout_ms: plan.limits.timeout_ms.value,
            max_output_bytes: plan.limits.max_output_bytes.value,
            ends_at_output_limit: plan.limits.on_output_limit == OnOutputLimit::Kill,
            state: prepared.dirs.state.clone(),
        }
    }
}
