//! Control groups: one group per sandbox in each hierarchy that is needed, with the plan's limits written into it,
//! and removed at the end. Where groups can be made is found in `find`; what the two versions call things is in `v1`
//! and `v2`. What is done about the numbers is decided in `monitor`.
//!
//! Moving another process takes a lock that waits for every processor: 5 to 10 ms a hierarchy where nothing else
//! moves. A process that moves itself alone by version 1's `tasks` does not take it, and neither does a process that
//! is born in its group (`CLONE_INTO_CGROUP` of version 2), so these two ways are used and no other.

mod files;
mod find;
mod hold;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use pinfold_core::id::SandboxId;
use pinfold_core::plan::Limits;

use files::Directory;
pub use find::{Controller, Places, Version};
use hold::{make_locked, remove};

use crate::sys;

/// The period over which the use of processors is measured, the kernel's default.
const PERIOD_US: u64 = 100_000;

/// How much of a period may be used by everything together; the kernel takes no less than a millisecond.
fn quota_us(cpus: f64) -> u64 {
    ((cpus * PERIOD_US as f64) as u64).max(1000)
}

/// Processes and threads: those of the plan, and the guest. The kernel takes no more than it has numbers for.
fn tasks(limits: &Limits) -> u64 {
    limits.max_processes.value.saturating_add(1).min(1 << 22)
}

/// Why control groups failed.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A group cannot be made.
    #[error("cannot make the control group {path}")]
    Make {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of a group cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of a group says something else than it should.
    #[error("cannot find a number in {path}: {text:?}")]
    Number {
        /// Which.
        path: PathBuf,
        /// What it says.
        text: String,
    },
    /// A file of a group cannot be written.
    #[error("cannot write {value} to {path}")]
    Write {
        /// Which.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// Why not.
        source: io::Error,
    },
    /// The guest cannot enter its group.
    #[error("cannot enter the control group")]
    Enter(#[source] io::Error),
    /// A group cannot be removed.
    #[error("cannot remove the control group {path}")]
    Remove {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What was written to disk cannot be told.
    #[error("cannot tell how much was written to disk")]
    Disk(#[source] rustix::io::Errno),
    /// Leftovers cannot be looked for.
    #[error("cannot look for groups left in {path}")]
    Sweep {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// What is in use now; nothing where no controller counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Now {
    /// Memory; near the limit, without page cache, which the kernel drops when it needs room.
    pub(crate) memory: Option<u64>,
    /// CPU time so far.
    pub(crate) cpu: Option<Duration>,
    /// Processes and threads, the guest included.
    pub(crate) processes: Option<u64>,
    /// Processes that were killed for want of memory.
    pub(crate) oom_kills: u64,
}

/// What was used in all; nothing where no controller counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    /// The most memory at once, page cache included.
    pub(crate) peak_memory: Option<u64>,
    /// The most processes and threads at once, the guest included.
    pub(crate) peak_processes: Option<u64>,
    /// Forks that the limit refused.
    pub(crate) refused_forks: u64,
}

/// The groups of one sandbox. Dropping them removes them.
#[derive(Debug)]
pub(crate) struct Group {
    version: Version,
    members: Vec<Member>,
}

/// The group in one hierarchy.
#[derive(Debug)]
struct Member {
    controllers: Vec<Controller>,
    directory: Directory,
}

/// Removes what killed supervisors left.
pub fn sweep_all() -> Result<(), CgroupError> {
    Places::here().hierarchies.iter().try_for_each(|hierarchy| hold::sweep(&hierarchy.parent))
}

/// Removes what the killed supervisor of one sandbox left; false while there is still something in it.
pub fn sweep(id: &SandboxId) -> Result<bool, CgroupError> {
    let mut gone = true;
    for hierarchy in &Places::here().hierarchies {
        gone &= hold::remove_left(&hierarchy.parent, id)?;
    }
    Ok(gone)
}

impl Group {
    /// Makes the groups that `limits` need where `places` has room. `sweeps`: removes what killed supervisors left
    /// there.
    pub(crate) fn make(
        places: &Places,
        id: &SandboxId,
        limits: &Limits,
        sweeps: bool,
    ) -> Result<Option<Self>, CgroupError> {
        let mut group = Self { version: places.version, members: Vec::new() };
        for hierarchy in &places.hierarchies {
            let needed = |controller: &&Controller| **controller != Controller::Cpu || limits.cpus.is_some();
            let controllers: Vec<_> = hierarchy.controllers.iter().filter(needed).copied().collect();
            if controllers.is_empty() {
                continue;
            }
            let directory = make_locked(&hierarchy.parent, id)?;
            group.members.push(Member { controllers, directory });
            if sweeps {
                hold::sweep(&hierarchy.parent)?;
            }
        }
        group.limit(limits)?;
        Ok((!group.members.is_empty()).then_some(group))
    }

    fn limit(&self, limits: &Limits) -> Result<(), CgroupError> {
        for member in &self.members {
            for controller in &member.controllers {
                match self.version {
                    Version::V1 => v1::limit(&member.directory, *controller, limits)?,
                    Version::V2 => v2::limit(&member.directory, *controller, limits)?,
                }
            }
        }
        Ok(())
    }

    /// Version 1: what the guest writes `0` to, one for each hierarchy.
    pub(crate) fn entrances(&self) -> Result<Vec<OwnedFd>, CgroupError> {
        self.members.iter().map(|member| member.directory.open_to_write("tasks")).collect()
    }

    /// Version 2: the directory in which the guest is born.
    pub(crate) fn birthplace(&self) -> Option<BorrowedFd<'_>> {
        let v2 = self.version == Version::V2;
        self.members.first().filter(|_| v2).map(|member| member.directory.as_fd())
    }

    fn with(&self, controller: Controller) -> Option<&Directory> {
        let member = self.members.iter().find(|member| member.controllers.contains(&controller));
        member.map(|member| &member.directory)
    }

    fn names(&self) -> &'static files::Names {
        match self.version {
            Version::V1 => &v1::NAMES,
            Version::V2 => &v2::NAMES,
        }
    }

    /// What is in use now. Page cache fills memory up to its limit in any long run, so it is left out where that limit,
    /// `max_memory`, is near; it is not asked for before, since the kernel has to add it up.
    pub(crate) fn now(&self, max_memory: u64) -> Result<Now, CgroupError> {
        let (names, mut now) = (self.names(), Now::default());
        if let Some(directory) = self.with(Controller::Memory) {
            let mut used = directory.number(names.memory)?;
            if used >= max_memory / 2 {
                for key in names.cache {
                    used = used.saturating_sub(directory.keyed("memory.stat", key)?.unwrap_or(0));
                }
            }
            now.memory = Some(used);
            now.oom_kills = self.oom_kills()?;
        }
        if let Some(directory) = self.with(Controller::Pids) {
            now.processes = Some(directory.number("pids.current")?);
        }
        now.cpu = self.cpu()?;
        Ok(now)
    }

    /// CPU time of everything that ever ran in it.
    pub(crate) fn cpu(&self) -> Result<Option<Duration>, CgroupError> {
        let Some(directory) = self.with(Controller::Cpuacct) else { return Ok(None) };
        Ok(match self.version {
            Version::V1 => Some(Duration::from_nanos(directory.number("cpuacct.usage")?)),
            Version::V2 => directory.keyed("cpu.stat", "usage_usec")?.map(Duration::from_micros),
        })
    }

    /// Processes that were killed for want of memory.
    pub(crate) fn oom_kills(&self) -> Result<u64, CgroupError> {
        let Some(directory) = self.with(Controller::Memory) else { return Ok(0) };
        Ok(directory.keyed(self.names().oom, "oom_kill")?.unwrap_or(0))
    }

    /// What was used in all.
    pub(crate) fn total(&self) -> Result<Total, CgroupError> {
        let mut total = Total::default();
        if let Some(directory) = self.with(Controller::Memory) {
            total.peak_memory = directory.number_if_there(self.names().peak)?;
        }
        if let Some(directory) = self.with(Controller::Pids) {
            total.peak_processes = directory.number_if_there("pids.peak")?;
            total.refused_forks = directory.keyed("pids.events", "max")?.unwrap_or(0);
        }
        Ok(total)
    }

    /// Removes it, once everything inside has been reaped.
    pub(crate) fn remove(mut self) -> Result<(), CgroupError> {
        self.members.drain(..).try_for_each(|member| remove(member.directory.path()))
    }
}

impl Drop for Group {
    /// For the ways out that are errors; what stays is removed by the next start.
    fn drop(&mut self) {
        for member in self.members.drain(..) {
            drop(remove(member.directory.path()));
        }
    }
}

/// Moves the calling process, which must have one thread, into the version 1 groups that `entrances` belong to, and
/// makes them the root of all that it sees: their names are nobody's business inside.
pub(crate) fn enter(entrances: Vec<OwnedFd>) -> Result<(), CgroupError> {
    let failed = |error: io::Error| CgroupError::Enter(error);
    for entrance in &entrances {
        rustix::io::write(entrance, b"0").map_err(|error| failed(error.into()))?;
    }
    if entrances.is_empty() { Ok(()) } else { sys::clone::new_cgroup_namespace().map_err(failed) }
}
