//! The guest: process 1 inside. It builds the sandbox around itself, starts the command, reaps whatever is
//! left to it, passes signals on, says how the command ended, and takes everything with it when it goes.
//!
//! It is a copy of the supervisor, forked and never exec'd, so it begins by wiping what it inherited. How the
//! command confines itself is in `command`; what is said to the supervisor in `protocol`.

mod command;
mod lost;
mod protocol;

use std::error::Error;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, kill_process_group, set_dumpable_behavior,
    set_parent_process_death_signal, wait,
};

pub(crate) use command::{Command, Confinement, Program};
pub(crate) use protocol::{Channel, Cover, Ended, Order, Report};

use crate::cgroup;
use crate::ids::Ids;
use crate::mounts::{self, Build, Layout};
use crate::namespaces::{self, Network};
use crate::pty;
use crate::steps::{self, StepError, StepFailed};
use crate::survey::With;
use crate::sys;
use crate::sys::signal::Signals;

/// Why the guest could not go on.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The supervisor is gone.
    #[error("the supervisor is gone")]
    Alone,
    /// The socket to the supervisor failed.
    #[error("cannot talk to the supervisor")]
    Channel(#[source] io::Error),
    /// The kernel cannot be told to end the guest with its supervisor.
    #[error("cannot arrange to end with the supervisor")]
    Follow(#[source] io::Error),
    /// The mounts cannot be shown to the supervisor.
    #[error("cannot open the list of mounts")]
    Mounts(#[source] io::Error),
    /// Steps ran in another order than they are listed.
    #[error("the root is not there yet")]
    NoRoot,
    /// Descriptors cannot be closed or moved.
    #[error("cannot put descriptors in order")]
    Descriptors(#[source] io::Error),
    /// The guest cannot be made untraceable.
    #[error("cannot refuse to be traced")]
    Seal(#[source] io::Error),
    /// Signals cannot be set up.
    #[error("cannot set signals up")]
    Signals(#[source] io::Error),
    /// The command's process cannot be made.
    #[error("cannot fork the command")]
    Fork(#[source] io::Error),
    /// The session cannot be made.
    #[error("cannot lead a session")]
    Session(#[source] io::Error),
    /// The working directory cannot be entered.
    #[error("cannot change to the directory {path} inside")]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The score for the out-of-memory killer cannot be raised.
    #[error("cannot raise oom_score_adj")]
    Oom(#[source] io::Error),
    /// The bit cannot be set.
    #[error("cannot set no_new_privs")]
    NoNewPrivileges(#[source] io::Error),
}

/// Everything that the guest was given, and what it has made so far.
pub(crate) struct Guest {
    /// The way out.
    pub(crate) channel: Channel,
    /// Who to be.
    pub(crate) ids: Ids,
    /// What the root consists of, until it is built.
    pub(crate) layout: Option<Layout>,
    /// What is covered, as the supervisor says: where in the root, and with what.
    pub(crate) covers: Vec<(PathBuf, With)>,
    /// What to start.
    pub(crate) command: Command,
    /// The root while it is built.
    pub(crate) build: Option<Build>,
    /// The network while it is made.
    pub(crate) network: Option<Network>,
    /// Ways into its control groups, as the supervisor hands them over.
    pub(crate) entrances: Vec<OwnedFd>,
}

/// Runs the guest, in the process that clone made.
pub(crate) fn run(mut guest: Guest) -> ! {
    let ended = steps::run(steps::guest(), &mut guest).and_then(|()| guest.serve());
    match ended {
        Ok(()) => sys::clone::exit_now(0),
        Err(failed) => {
            tell_failure(&guest.channel, &failed);
            sys::clone::exit_now(1)
        }
    }
}

/// Tells the supervisor which step failed, and why.
pub(crate) fn tell_failure(channel: &Channel, failed: &StepFailed) {
    let report = Report::Failed { step: failed.step.to_owned(), message: reasons(&failed.error) };
    // If even this cannot be sent, the supervisor sees the guest end without a word, which is a failure too.
    if channel.report(report).is_err() {
        sys::clone::exit_now(2);
    }
}

/// An error with all its sources, in one line.
pub(crate) fn reasons(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}

impl Guest {
    /// What the supervisor needs of its copy; the rest is let go of.
    pub(crate) fn into_supervisors(self) -> (Ids, Option<Layout>) {
        (self.ids, self.layout)
    }

    pub(crate) fn wipe(&mut self) -> Result<(), StepError> {
        // The one variable that is read inside; it can only narrow.
        sys::wipe::wipe_arguments_and_environment(crate::landlock::PRETEND_ABI);
        Ok(())
    }

    /// A death before this call is noticed by `await_maps`, which then reads the end of the socket.
    pub(crate) fn follow(&mut self) -> Result<(), StepError> {
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| GuestError::Follow(error.into()))?;
        Ok(())
    }

    pub(crate) fn name(&mut self) -> Result<(), StepError> {
        Ok(namespaces::set_name()?)
    }

    pub(crate) fn begin_network(&mut self) -> Result<(), StepError> {
        self.network = Some(Network::begin()?);
        Ok(())
    }

    pub(crate) fn enter_network(&mut self) -> Result<(), StepError> {
        self.network.take().map_or(Ok(()), Network::enter)?;
        Ok(())
    }

    pub(crate) fn await_maps(&mut self) -> Result<(), StepError> {
        match self.channel.next_order().map_err(GuestError::Channel)? {
            Some(Order::Go) => Ok(()),
            _ => Err(GuestError::Alone.into()),
        }
    }

    /// A change of ids forgets the death signal (prctl(2)), so it is asked for again.
    pub(crate) fn take_on_ids(&mut self) -> Result<(), StepError> {
        self.ids.take_on()?;
        self.follow()
    }

    pub(crate) fn root(&mut self) -> Result<(), StepError> {
        let layout = self.layout.take().ok_or(GuestError::NoRoot)?;
        self.build = Some(Build::new(layout, self.ids.mounts())?);
        Ok(())
    }

    fn build(&mut self) -> Result<&mut Build, GuestError> {
        self.build.as_mut().ok_or(GuestError::NoRoot)
    }

    pub(crate) fn entries(&mut self) -> Result<(), StepError> {
        Ok(self.build()?.entries()?)
    }

    pub(crate) fn system(&mut self) -> Result<(), StepError> {
        Ok(self.build()?.system()?)
    }

    pub(crate) fn proc(&mut self) -> Result<(), StepError> {
        Ok(self.build()?.proc()?)
    }

    pub(crate) fn dev(&mut self) -> Result<(), StepError> {
        Ok(self.build()?.dev()?)
    }

    /// The guest moves itself, for what `cgroup` says; its children are born where it is.
    pub(crate) fn enter_groups(&mut self) -> Result<(), StepError> {
        Ok(cgroup::enter(std::mem::take(&mut self.entrances))?)
    }

    pub(crate) fn zones(&mut self) -> Result<(), StepError> {
        Ok(self.build()?.places()?)
    }

    /// The supervisor looks at zones and mounts them while the steps before this run; here both meet.
    pub(crate) fn take_over(&mut self) -> Result<(), StepError> {
        let build = self.build.as_mut().ok_or(GuestError::NoRoot)?;
        let zones = build.zones();
        loop {
            match self.channel.next_order().map_err(GuestError::Channel)? {
                Some(Order::Mount(mount)) => build.take_mount(mount),
                Some(Order::Enter(entrance)) => self.entrances.push(entrance),
                Some(Order::Covers(covers)) => {
                    for cover in covers {
                        let zone = zones.get(cover.zone).ok_or(GuestError::Alone)?;
                        let top = cover.path.as_os_str().is_empty();
                        let at = if top { zone.clone() } else { zone.join(&cover.path) };
                        self.covers.push((at, cover.with));
                    }
                }
                Some(Order::Covered) => return Ok(()),
                _ => return Err(GuestError::Alone.into()),
            }
        }
    }

    pub(crate) fn covers(&mut self) -> Result<(), StepError> {
        let build = self.build.as_ref().ok_or(GuestError::NoRoot)?;
        for (at, with) in &self.covers {
            mounts::cover(build.root(), at, *with)?;
        }
        Ok(())
    }

    /// A rename on the host can take a cover away (mount_namespaces(7)), so the supervisor watches them.
    pub(crate) fn show_mounts(&mut self) -> Result<(), StepError> {
        if self.covers.is_empty() {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mounts = rustix::fs::open(c"/proc/self/mountinfo", flags, Mode::empty())
            .map_err(|error| GuestError::Mounts(error.into()))?;
        self.channel.report(Report::Mounts(mounts)).map_err(GuestError::Channel)?;
        Ok(())
    }

    pub(crate) fn pivot(&mut self) -> Result<(), StepError> {
        self.build()?.pivot()?;
        self.build = None;
        Ok(())
    }

    pub(crate) fn terminal(&mut self) -> Result<(), StepError> {
        if !self.command.streams.wants_terminal() {
            return Ok(());
        }
        let (outer, inner) = pty::open()?;
        self.command.terminal = Some(inner);
        self.channel.report(Report::Terminal(outer)).map_err(GuestError::Channel)?;
        Ok(())
    }

    /// From here on nothing inside can read this process's memory or descriptors: it is not dumpable, so they
    /// belong to the host's root (proc(5)).
    pub(crate) fn seal(&mut self) -> Result<(), StepError> {
        set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .map_err(|error| GuestError::Seal(error.into()))?;
        Ok(())
    }

    /// Starts the command and stays until it has ended.
    fn serve(&mut self) -> Result<(), StepFailed> {
        let failed = |error: GuestError| StepFailed { step: "serve", error: error.into() };
        let waiting = Signals::of(&[libc::SIGCHLD]);
        waiting.block().map_err(|error| failed(GuestError::Signals(error)))?;
        let Self { command, channel, .. } = self;
        let main = sys::clone::spawn_sharing(|| command.become_program(channel))
            .map_err(|error| failed(GuestError::Fork(error)))?;
        // The command has exec'd or given up by now, and left its status in the shared memory.
        if let Some(status) = command.confined.take() {
            channel.report(Report::Confined(status)).map_err(|error| failed(GuestError::Channel(error)))?;
        }
        sys::descriptors::close_all_but(&self.channel)
            .map_err(|error| failed(GuestError::Descriptors(error)))?;
        let signals = waiting.descriptor().map_err(|error| failed(GuestError::Signals(error)))?;
        let ended = attend(&self.channel, &self.covers, &signals, main).map_err(failed)?;
        let Some(ended) = ended else { return Ok(()) };
        self.channel.report(Report::Ended(ended)).map_err(|error| failed(GuestError::Channel(error)))
    }
}

/// Passes signals on and reaps until the process `main` has ended, and how; nothing when the supervisor is gone.
fn attend(
    channel: &Channel,
    covers: &[(PathBuf, With)],
    signals: &OwnedFd,
    main: Pid,
) -> Result<Option<Ended>, GuestError> {
    loop {
        let mut ready = [PollFd::new(channel, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(GuestError::Signals(error.into())),
        }
        let (order, ended) = (ready[0].revents(), ready[1].revents());
        if !ended.is_empty() {
            while sys::signal::next(signals).map_err(GuestError::Signals)?.is_some() {}
            if let Some(ended) = reap(main)? {
                return Ok(Some(ended));
            }
        }
        if !order.is_empty() {
            match channel.next_order().map_err(GuestError::Channel)? {
                Some(Order::Signal(signal)) => pass_on(main, signal)?,
                Some(Order::Restore(cover)) => lost::restore(channel, covers, cover)?,
                // The supervisor is gone: everything inside goes with the guest.
                None => return Ok(None),
                Some(Order::Go | Order::Mount(_) | Order::Enter(_) | Order::Covers(_) | Order::Covered) => {
                    return Err(GuestError::Channel(io::ErrorKind::InvalidData.into()));
                }
            }
        }
    }
}

/// Reaps all that has ended; how `main` did when it is among them.
fn reap(main: Pid) -> Result<Option<Ended>, GuestError> {
    let mut status = None;
    loop {
        let alone = match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, ended))) => {
                if pid == main {
                    status = Some(ended.as_raw());
                }
                continue;
            }
            Ok(None) => false,
            Err(rustix::io::Errno::CHILD) => true,
            Err(error) => return Err(GuestError::Signals(error.into())),
        };
        let Some(status) = status else { return Ok(None) };
        let (cpu, peak_memory_bytes) = sys::wait::used_inside().map_err(GuestError::Signals)?;
        return Ok(Some(Ended { status, alone, cpu_us: cpu.as_micros() as u64, peak_memory_bytes }));
    }
}

/// Sends a signal to the command's process group, as a terminal would.
fn pass_on(main: Pid, signal: i32) -> Result<(), GuestError> {
    let Some(signal) = Signal::from_named_raw(signal) else { return Ok(()) };
    match kill_process_group(main, signal) {
        // It ended a moment ago, or has not made its group yet and is not running anything either.
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(GuestError::Signals(error.into())),
    }
}
