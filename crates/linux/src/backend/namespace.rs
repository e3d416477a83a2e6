//! The native wall: seven namespaces, and all that `steps` lists. This file is the supervisor's
//! way from a launch to a running sandbox; watching over it is in `running`.

mod running;

use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use pinfold_core::path::AbsPath;
use pinfold_core::plan::Plan;
use pinfold_core::zone::Access;

pub use super::coverage::cover;
pub use running::{Running, Turn, Until};

use super::{Finished, Launch, RunError, Task};
use crate::cgroup::{Controller, Group, Places, Version};
use crate::descriptors::{Captured, Streams};
use crate::environment;
use crate::guest::{
    self, Channel, Command, Confinement, Cover, Guest, GuestError, Order, Program, Service, Work,
};
use crate::ids::{IdError, Ids};
use crate::landlock::Rules;
use crate::mounts::{Layout, Mounts, Source, What};
use crate::namespaces::{self, NamespaceError};
use crate::probe::{pretends_missing, without};
use crate::rlimits::Rlimits;
use crate::seccomp::{Filter, Network, Options};
use crate::steps::{self, StepError, StepFailed};
use crate::survey::{self, Because, StateDir, Zone};
use crate::sys;
use crate::sys::clone::Forked;
use crate::sys::signal::Signals;
pub(crate) use running::{Waiting, push};

/// Runs a command to its end. The caller must be single-threaded.
pub fn run(launch: &Launch<'_>) -> Result<Finished, RunError> {
    let mut running = start(launch)?;
    while let Turn::Going { .. } = running.turn(&[])? {}
    running.finish()
}

/// Starts a command. The caller must be single-threaded: what is forked goes on running, with its locks.
pub fn start(launch: &Launch<'_>) -> Result<Running, RunError> {
    match start_as(launch, None) {
        // A zone that cannot map owners turned up; nothing has run yet, so it begins again as that owner.
        Err(RunError::Step(StepFailed { error: StepError::Id(IdError::Owner { owner, .. }), .. })) => {
            start_as(launch, Some(owner))
        }
        started => started,
    }
}

fn start_as(launch: &Launch<'_>, owner: Option<(u32, u32)>) -> Result<Running, RunError> {
    let program = match &launch.task {
        Task::Command { words, .. } => {
            let environment = environment::effective(launch.environment);
            Some(Program::new(words, &environment).ok_or(RunError::Command)?)
        }
        Task::Serve { .. } => None,
    };
    let mut start = Start {
        launch,
        owner,
        program,
        streams: None,
        layout: None,
        ids: None,
        filters: None,
        group: None,
        running: None,
        covers: Vec::new(),
    };
    steps::run(steps::host(), &mut start)?;
    start.clone()?;
    let prepared = steps::run(steps::beside(), &mut start);
    match (start.running, prepared) {
        (Some(running), Ok(())) => Ok(running),
        (Some(running), Err(error)) => Err(running.abandon(error.into())),
        (None, prepared) => Err(prepared.map_or_else(RunError::from, |()| RunError::Vanished { status: 0 })),
    }
}

/// What is prepared on the host, step by step.
pub(crate) struct Start<'a> {
    launch: &'a Launch<'a>,
    /// Who the command has to be, where that is known already.
    owner: Option<(u32, u32)>,
    /// The one command, if there is only one.
    program: Option<Program>,
    streams: Option<(Streams, Captured)>,
    layout: Option<Layout>,
    ids: Option<Ids>,
    filters: Option<Confinement>,
    /// On cgroup v2, where the guest is to be born.
    group: Option<Group>,
    /// The guest, once it is there.
    running: Option<Running>,
    covers: Vec<Cover>,
}

impl Start<'_> {
    pub(crate) fn stdio(&mut self) -> Result<(), StepError> {
        if let Task::Command { stdio, .. } = self.launch.task {
            self.streams = Some(Streams::look(stdio)?);
        }
        Ok(())
    }

    pub(crate) fn layout(&mut self) -> Result<(), StepError> {
        let path = self.launch.environment.iter().find(|(name, _)| name == "PATH");
        let path = path.map_or(OsStr::new(""), |(_, value)| value.as_os_str());
        let program = match &self.launch.task {
            Task::Command { words, .. } => words.first().map_or(OsStr::new(""), |name| name.as_os_str()),
            Task::Serve { .. } => OsStr::new(""),
        };
        self.layout = Some(Layout::new(self.launch.plan, program, path)?);
        Ok(())
    }

    pub(crate) fn ids(&mut self) -> Result<(), StepError> {
        self.ids = Some(Ids::choose(
            self.launch.plan.privileges.user_id,
            self.owner,
            Some(self.launch.state.as_path()),
        )?);
        Ok(())
    }

    pub(crate) fn group(&mut self) -> Result<(), StepError> {
        let places = Places::here();
        if places.version == Version::V2 {
            self.group = Group::make(places, &self.launch.id, &self.launch.plan.limits, self.launch.sweeps)?;
        }
        Ok(())
    }

    /// The guest does not wait for these: making them takes the kernel a while, and it has a root to build.
    pub(crate) fn groups(&mut self) -> Result<(), StepError> {
        let running = self.running.as_mut().ok_or(GuestError::Alone)?;
        let places = Places::here();
        if places.version == Version::V1
            && let Some(group) =
                Group::make(places, &self.launch.id, &self.launch.plan.limits, self.launch.sweeps)?
        {
            for entrance in group.entrances()? {
                running.order(Order::Enter(entrance))?;
            }
            running.count_in(group);
        }
        Ok(())
    }

    pub(crate) fn maps(&mut self) -> Result<(), StepError> {
        let running = self.running.as_mut().ok_or(GuestError::Alone)?;
        running.map_ids()?;
        Ok(running.order(Order::Go)?)
    }

    pub(crate) fn survey(&mut self) -> Result<(), StepError> {
        let layout = self.layout.as_ref().ok_or(GuestError::NoRoot)?;
        let running = self.running.as_mut().ok_or(GuestError::Alone)?;
        let mut zones = Vec::new();
        let mut positions = Vec::new();
        for (position, (place, source)) in layout.hosts().enumerate() {
            // The whole host, in a debug build that does without mounts: nothing to be looked at.
            if place.unasked {
                continue;
            }
            positions.push(position);
            let inside = AbsPath::new(PathBuf::from("/").join(&place.at)).unwrap_or_else(|_| AbsPath::root());
            let (host, access) = (source.asked.clone(), source.access);
            zones.push(Zone { root: source.duplicate()?, host, inside, access });
        }
        let writable = layout.hosts().filter(|(_, source)| source.access == Access::ReadWrite);
        let writable = writable.map(|(_, source)| source.duplicate()).collect::<Result<Vec<_>, _>>()?;
        let max = self.launch.plan.limits.max_disk_mb.value.saturating_mul(1 << 20);
        running.watch_disk(writable, max).map_err(GuestError::Disk)?;
        let state = StateDir::open(self.launch.state.as_path())?;
        let survey = survey::take(&self.launch.plan.files, &zones, &state)?;
        let (mut numbers, mut places) = (Vec::new(), Vec::new());
        for (number, cover) in survey.covers.iter().enumerate() {
            if is_switched_off(cover.because) {
                continue;
            }
            let inside = zones[cover.zone].inside.as_path();
            let empty = cover.path.as_os_str().is_empty();
            let at = if empty { inside.to_owned() } else { inside.join(&cover.path) };
            places.push((at, cover.with));
            numbers.push(number);
            self.covers.push(Cover {
                zone: positions[cover.zone],
                path: cover.path.clone(),
                with: cover.with,
            });
        }
        running.keep(survey, numbers, places);
        Ok(())
    }

    pub(crate) fn owners(&mut self) -> Result<(), StepError> {
        let layout = self.layout.as_mut().ok_or(GuestError::NoRoot)?;
        let running = self.running.as_ref().ok_or(GuestError::Alone)?;
        if running.ids().mounts() == Mounts::Open {
            return Ok(());
        }
        running.ids().mount(layout.sources())?;
        for mount in layout.sources().filter_map(Source::take_mount) {
            running.order(Order::Mount(mount))?;
        }
        Ok(())
    }

    pub(crate) fn hand_over(&mut self) -> Result<(), StepError> {
        let running = self.running.as_ref().ok_or(GuestError::Alone)?;
        running.order(Order::Covers(std::mem::take(&mut self.covers)))?;
        running.order(Order::Covered)?;
        // The guest has all it waits for.
        running.ids().reap_holders();
        Ok(())
    }

    pub(crate) fn filters(&mut self) -> Result<(), StepError> {
        let plan = self.launch.plan;
        let layout = self.layout.as_ref().ok_or(GuestError::NoRoot)?;
        let network = if plan.network.enabled { Network::Door } else { Network::Loopback };
        let filter = if without("seccomp") || pretends_missing("seccomp") {
            None
        } else {
            Some(Filter::compile(&plan.privileges.seccomp, Options { network, shares_host: false })?)
        };
        let landlock = (!without("landlock") && !pretends_missing("landlock")).then(|| rules(layout));
        self.filters = Some(Confinement {
            landlock,
            filter,
            no_new_privileges: plan.privileges.no_new_privileges && !without("no_new_privs"),
            drop_capabilities: plan.privileges.drop_capabilities && !without("capabilities"),
        });
        Ok(())
    }

    /// What the guest is there for.
    fn work(&mut self, mask: Signals) -> Result<(Work, Captured, [bool; 3]), RunError> {
        let limits = limits(self.launch.plan);
        let unprepared = || StepFailed { step: "clone", error: GuestError::NoRoot.into() };
        match &self.launch.task {
            Task::Command { .. } => {
                let (streams, captured) = self.streams.take().ok_or_else(unprepared)?;
                let terminals = streams.terminals();
                let command = Command {
                    program: self.program.take().ok_or_else(unprepared)?,
                    directory: self.launch.plan.directory.as_path().to_owned(),
                    streams,
                    limits,
                    mask,
                    terminal: None,
                };
                Ok((Work::Once(Box::new(command)), captured, terminals))
            }
            Task::Serve { door } => {
                let owner = door.map(duplicate).transpose()?.map(Into::into);
                let service = Service { owner, limits };
                Ok((Work::Service(service), Captured::default(), [false; 3]))
            }
        }
    }

    /// Makes the sandbox's first process from what the steps prepared.
    fn clone(&mut self) -> Result<(), RunError> {
        let unprepared = || StepFailed { step: "clone", error: GuestError::NoRoot.into() };
        let ids = self.ids.take().ok_or_else(unprepared)?;
        let confinement = self.filters.take().ok_or_else(unprepared)?;
        let (host, inside) =
            Channel::pair().map_err(|source| RunError::Supervise { action: "make a socket", source })?;
        let signals = Waiting::begin()?;
        let (work, captured, terminals) = self.work(signals.before())?;
        let layout = self.layout.take();
        let guest = Guest {
            channel: inside,
            ids,
            layout,
            covers: Vec::new(),
            confinement,
            work,
            build: None,
            network: None,
            entrances: Vec::new(),
            confined: String::new(),
        };
        let group = self.group.take();
        let birthplace = group.as_ref().and_then(Group::birthplace);
        let child = match sys::clone::clone_into(namespaces::flags(), birthplace) {
            Ok(Forked::Child) => {
                // A copy of the supervisor's end would keep the guest from seeing it closed.
                drop(host);
                guest::run(guest)
            }
            Ok(Forked::Parent(child)) => child,
            Err(error) => {
                return Err(StepFailed { step: "clone", error: NamespaceError::Clone(error).into() }.into());
            }
        };
        let (ids, layout) = guest.into_supervisors();
        self.layout = layout;
        let mut running =
            Running::new(child, host, ids, signals, (captured, terminals), &self.launch.plan.limits);
        if let Task::Serve { .. } = self.launch.task {
            running.serve();
        }
        self.running = Some(running);
        if let (Some(running), Some(group)) = (&mut self.running, group) {
            running.count_in(group);
        }
        Ok(())
    }
}

fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd, RunError> {
    fd.try_clone_to_owned().map_err(|source| RunError::Supervise { action: "hand the door over", source })
}

/// Whether a debug build is told to leave such covers out.
fn is_switched_off(because: Because) -> bool {
    match because {
        Because::Deny | Because::Own | Because::Special => without("masks"),
        Because::Protected | Because::Placeholder => without("protect"),
    }
}

/// The limits that the kernel keeps per process. The guest is a process too and is not counted. Where a control group
/// counts as well, it comes first: it counts everything together, and tells.
fn limits(plan: &Plan) -> Rlimits {
    let behind = |controller| u64::from(Places::here().has(controller));
    let processes = plan.limits.max_processes.value.saturating_add(1);
    Rlimits {
        descriptors: Some(plan.limits.max_file_descriptors.value),
        processes: Some(processes.saturating_add(behind(Controller::Pids))),
        file_size: Some(plan.limits.max_disk_mb.value.saturating_mul(1 << 20)),
        cpu_seconds: Some(plan.limits.max_cpu_seconds.value.saturating_add(behind(Controller::Cpuacct))),
    }
}

/// What Landlock allows: the same as the mounts, said a second time.
fn rules(layout: &Layout) -> Rules {
    let inside = |path: &PathBuf| PathBuf::from("/").join(path);
    let mut rules = Rules { devices: vec!["/dev".into(), "/proc".into()], scoped: true, ..Rules::default() };
    // Names alone: `ls /` works, and nothing of the host lies below this root.
    rules.list.push("/".into());
    rules.read.push("/etc".into());
    rules.read.extend(layout.system.iter().filter(|path| !path.starts_with("etc")).map(inside));
    if layout.shared_memory {
        rules.write.push("/dev/shm".into());
    }
    for place in &layout.places {
        match &place.what {
            What::Host(source) if source.access == Access::ReadOnly => rules.read.push(inside(&place.at)),
            // Shown by a debug build that does without mounts: exactly what Landlock has to hold.
            What::Host(_) if place.unasked => {}
            What::Host(_) | What::Memory(_) => rules.write.push(inside(&place.at)),
        }
    }
    rules
}
