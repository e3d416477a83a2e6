//! The guest: process 1 inside. It builds the sandbox around itself, confines itself, starts commands, reaps whatever
//! is left to it, passes signals on, says how a command ended, and takes everything with it when it goes.
//!
//! It is a copy of the supervisor, forked and never exec'd, so it begins by wiping what it inherited. What confines it
//! is inherited by every command, so that a filter is loaded once however many commands there are, and the guest
//! itself can do no more than they can. How a command starts is in `command`; one command that the sandbox lives and
//! dies with in `once`; any number of them in `service`; what is said to the supervisor in `protocol`.

mod command;
mod leftovers;
mod once;
mod protocol;
mod service;

use std::error::Error;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::process::{
    DumpableBehavior, Pid, Signal, kill_process_group, set_dumpable_behavior, set_parent_process_death_signal,
};

pub(crate) use command::{Command, Program};
pub(crate) use protocol::{Channel, Cover, Ended, Order, Report};
pub(crate) use service::Service;

use crate::cgroup;
use crate::ids::Ids;
use crate::landlock::Enforced;
use crate::mounts::{self, Build, Layout};
use crate::namespaces::{self, Network};
use crate::pty::PtyError;
use crate::seccomp::Filter;
use crate::steps::{self, StepError, StepFailed};
use crate::survey::With;
use crate::sys;
use crate::{capabilities, landlock};

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
    /// What a command left running cannot be caught.
    #[error("what a command left running multiplies faster than it can be ended")]
    Leftovers,
    /// The processes inside cannot be looked at.
    #[error("cannot look at the processes inside")]
    Processes(#[source] io::Error),
    /// The room on the disks of the zones cannot be told.
    #[error("cannot tell how much room the zones have")]
    Disk(#[source] io::Error),
    /// There is no terminal.
    #[error(transparent)]
    Terminal(PtyError),
    /// The bit cannot be set.
    #[error("cannot set no_new_privs")]
    NoNewPrivileges(#[source] io::Error),
}

/// Killed first when the host runs out of memory.
const OOM_SCORE: &[u8] = b"500";

/// What the guest, and with it every command, is confined with.
pub(crate) struct Confinement {
    /// What Landlock allows; nothing where the kernel has none and the plan does without.
    pub(crate) landlock: Option<landlock::Rules>,
    /// The filter, likewise.
    pub(crate) filter: Option<Filter>,
    /// Whether the bit is set.
    pub(crate) no_new_privileges: bool,
    /// Whether capabilities are emptied.
    pub(crate) drop_capabilities: bool,
}

/// What the sandbox is there for.
pub(crate) enum Work {
    /// One command, with which it ends.
    Once(Box<Command>),
    /// Commands that are asked for, until the supervisor ends it.
    Service(Service),
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
    /// What it is confined with.
    pub(crate) confinement: Confinement,
    /// What to do.
    pub(crate) work: Work,
    /// The root while it is built.
    pub(crate) build: Option<Build>,
    /// The network while it is made.
    pub(crate) network: Option<Network>,
    /// Ways into its control groups, as the supervisor hands them over.
    pub(crate) entrances: Vec<OwnedFd>,
    /// What Landlock said.
    pub(crate) confined: String,
}

/// Runs the guest, in the process that clone made.
pub(crate) fn run(mut guest: Guest) -> ! {
    let ended = steps::run(steps::guest(), &mut guest).and_then(|()| guest.work());
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
        sys::wipe::wipe_arguments_and_environment(landlock::PRETEND_ABI);
        // What the caller ignores is its own affair: under nohup(1) no command would ever see SIGHUP.
        for signal in (1..=31).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal)) {
            sys::signal::restore_default(signal).map_err(GuestError::Signals)?;
        }
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
        let build = self.build.take().ok_or(GuestError::NoRoot)?;
        Ok(mounts::cover_all(build.root(), &self.covers)?)
    }

    /// A rename on the host can take a cover away (mount_namespaces(7)), so the supervisor watches the mounts and has
    /// the namespace to put a cover back.
    pub(crate) fn show_mounts(&mut self) -> Result<(), StepError> {
        if self.covers.is_empty() {
            return Ok(());
        }
        let open = |path| {
            let opened = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
            opened.map_err(|error| GuestError::Mounts(error.into()))
        };
        let namespace = Report::Namespace(open(c"/proc/self/ns/mnt")?);
        self.channel.report(namespace).map_err(GuestError::Channel)?;
        let mounts = Report::Mounts(open(c"/proc/self/mountinfo")?);
        self.channel.report(mounts).map_err(GuestError::Channel)?;
        Ok(())
    }

    pub(crate) fn pivot(&mut self) -> Result<(), StepError> {
        self.build()?.pivot()?;
        self.network.as_ref().map_or(Ok(()), Network::let_go_of_old_root)?;
        Ok(())
    }

    /// A process that is not dumpable may not write its own score, and a change of ids may have made it so. Commands
    /// inherit the score; the guest, which uses next to no memory, is not the one that is chosen among them.
    pub(crate) fn oom(&mut self) -> Result<(), StepError> {
        let raise = || -> io::Result<()> {
            set_dumpable_behavior(DumpableBehavior::Dumpable)?;
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            let file = rustix::fs::open(c"/proc/self/oom_score_adj", flags, Mode::empty())?;
            rustix::io::write(file, OOM_SCORE)?;
            Ok(())
        };
        raise().map_err(GuestError::Oom)?;
        Ok(())
    }

    /// From here on nothing inside can read this process's memory or descriptors: it is not dumpable, so they
    /// belong to the host's root (proc(5)).
    pub(crate) fn seal(&mut self) -> Result<(), StepError> {
        set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .map_err(|error| GuestError::Seal(error.into()))?;
        Ok(())
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
        let Some(rules) = &self.confinement.landlock else { return Ok(()) };
        let restricted = landlock::restrict(rules)?;
        let abi = restricted.abi.map_or_else(|| "no ABI".to_owned(), |abi| format!("ABI {abi}"));
        self.confined = match restricted.enforced {
            Enforced::Fully => format!("{abi}, fully enforced"),
            Enforced::Partially(gaps) => format!("{abi}, partially enforced: {gaps}"),
            Enforced::Not(reason) => format!("not enforced: {reason}"),
        };
        Ok(())
    }

    pub(crate) fn seccomp(&mut self) -> Result<(), StepError> {
        if let Some(filter) = &self.confinement.filter {
            filter.install()?;
        }
        Ok(())
    }

    /// Does what it is there for; nothing in here fails without the sandbox ending.
    fn work(&mut self) -> Result<(), StepFailed> {
        let confined = Report::Confined(std::mem::take(&mut self.confined));
        let told = self.channel.report(confined).map_err(GuestError::Channel);
        // What set-up needed is let go of: a live sandbox would keep it for nothing.
        (self.covers, self.confinement.landlock, self.confinement.filter) = (Vec::new(), None, None);
        // The lock on the id stays until nothing runs under that id, whatever becomes of the supervisor.
        let lock = self.ids.lock();
        let worked = told.and_then(|()| match &mut self.work {
            Work::Once(command) => once::run(&self.channel, lock, command),
            Work::Service(service) => service.run(&self.channel, lock),
        });
        worked.map_err(|error| StepFailed { step: "serve", error: error.into() })
    }
}

/// Lets everything inside stand still, or go on.
fn hold(channel: &Channel, order: &Order) -> Result<(), GuestError> {
    match order {
        Order::Stop => {
            sys::signal::send_to_all(libc::SIGSTOP).map_err(GuestError::Signals)?;
            channel.report(Report::Stopped).map_err(GuestError::Channel)
        }
        _ => sys::signal::send_to_all(libc::SIGCONT).map_err(GuestError::Signals),
    }
}

/// Sends a signal to the process group that `leader`, an unreaped child, leads, as a terminal would.
fn pass_on(leader: Pid, signal: i32) -> Result<(), GuestError> {
    let Some(signal) = Signal::from_named_raw(signal) else { return Ok(()) };
    match kill_process_group(leader, signal) {
        // It ended a moment ago, or has not made its group yet and is not running anything either.
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(GuestError::Signals(error.into())),
    }
}
