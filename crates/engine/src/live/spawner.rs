//! The process that makes all others. It has one thread and opens no files of its own, so that it can fork at any time;
//! a program with threads, which cannot, asks it over a socket.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};

use pinfold_core::coverage::ReceiptLine;
use pinfold_core::id::SandboxId;
use pinfold_core::path::AbsPath;
use pinfold_core::plan::{BackendName, OnOutputLimit};
use pinfold_linux::environment;
use pinfold_linux::holder::Holder;
use pinfold_linux::link::{Link, Received};
use rustix::event::epoll;
use serde::{Deserialize, Serialize};

use super::holder;
use crate::asked::{Asked, Prepared};
use crate::failure::Failure;

/// The client among what is waited for; the holders are numbered from there.
const CLIENT: u64 = 0;

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
    /// CPU seconds of each process of a command.
    pub max_cpu_seconds: u64,
    /// The most that is kept of each stream.
    pub max_output_bytes: u64,
    /// Whether a command ends that says more.
    pub ends_at_output_limit: bool,
    /// Where state is kept.
    pub state: AbsPath,
}

/// Serves over standard input, a socket, until its other end is gone.
pub fn serve() -> Result<(), Failure> {
    // In its place every holder would keep it open, and the client could not tell that there is nobody any more who
    // answers.
    let socket = pinfold_linux::descriptors::take_input().map_err(|error| broken(&error))?;
    // What the caller's terminal sends to its foreground is not meant for sandboxes.
    rustix::process::setsid().map_err(|error| broken(&error))?;
    let mut link = Link::from(socket);
    let mut plans: Vec<Option<Prepared>> = Vec::new();
    let mut holders: HashMap<u64, (SandboxId, Holder)> = HashMap::new();
    // Sandboxes whose holder was killed: the kernel may still be ending what they consist of.
    let mut killed: Vec<SandboxId> = Vec::new();
    // Not poll(2): with many sandboxes every turn would look at all of them.
    let waiting = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| broken(&error))?;
    let watch = |fd: BorrowedFd<'_>, number: u64| {
        epoll::add(&waiting, fd, epoll::EventData::new_u64(number), epoll::EventFlags::IN)
            .map_err(|error| broken(&error))
    };
    watch(link.as_fd(), CLIENT)?;
    pinfold_linux::cgroup::sweep_all().map_err(|error| broken(&error))?;
    let mut happened = Vec::with_capacity(64);
    let mut count = CLIENT;
    loop {
        happened.clear();
        match epoll::wait(&waiting, rustix::buffer::spare_capacity(&mut happened), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(broken(&error)),
        }
        let mut asked = false;
        for event in &happened {
            match event.data.u64() {
                CLIENT => asked = true,
                number => {
                    let Some((id, holder)) = holders.remove(&number) else { continue };
                    epoll::delete(&waiting, &holder).map_err(|error| broken(&error))?;
                    if holder.wait().map_err(|error| broken(&error))? != 0 {
                        killed.push(id);
                    }
                }
            }
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
                let answer = match asked.prepare() {
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
                for id in std::mem::take(&mut killed) {
                    if !pinfold_linux::cgroup::sweep(&id).map_err(|error| broken(&error))? {
                        killed.push(id);
                    }
                }
                let holder = Holder::start(|| {
                    // What belongs to the spawner would be kept open by every sandbox.
                    match pinfold_linux::holder::keep_only(&[door.as_fd(), status.as_fd()]) {
                        Ok(()) => holder::hold(prepared, id, door.as_fd(), &mut status),
                        Err(_) => 1,
                    }
                });
                let holder = holder.map_err(|error| broken(&error))?;
                count += 1;
                watch(holder.as_fd(), count)?;
                holders.insert(count, (id, holder));
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
            max_cpu_seconds: plan.limits.max_cpu_seconds.value,
            max_output_bytes: plan.limits.max_output_bytes.value,
            ends_at_output_limit: plan.limits.on_output_limit == OnOutputLimit::Kill,
            state: prepared.dirs.state.clone(),
        }
    }
}
