//! Watches what a sandbox uses: samples it, warns when a limit is near, and says which one is passed. The numbers are
//! the control groups' where there are some, else sums over processes. Ending the sandbox is left to `running`.

mod disk;
mod tree;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use pinfold_core::outcome::{Exit, LimitKind, Warning};
use pinfold_core::plan::Limits;

use crate::backend::{InUse, Usage};
use crate::cgroup::{CgroupError, Group, Now};
use disk::Growth;

/// Often enough to catch a bomb before the host feels it, seldom enough not to be felt.
const PERIOD: Duration = Duration::from_millis(50);
/// How often at most, when a limit is near.
const SHORTEST: Duration = Duration::from_millis(1);
/// How often when sampled memory is past half of its limit: nothing else stops it.
const NEAR: Duration = Duration::from_millis(5);
/// The kernel counts CPU time by ticks in one place and exactly in another.
const TICK: Duration = Duration::from_millis(100);

/// Longer than any sandbox lives.
const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

/// What is used of what is allowed.
#[derive(Debug)]
pub(crate) struct Monitor {
    started: Instant,
    timeout: Duration,
    max_cpu: Duration,
    max_memory: u64,
    max_processes: u64,
    due: Instant,
    peak: Peak,
    latest: InUse,
    warnings: Vec<Warning>,
    /// What is written to disk, where something can be.
    disk: Option<Growth>,
}

/// The most that was seen.
#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    memory: u64,
    processes: u64,
}

/// What came of it all.
#[derive(Debug)]
pub(crate) struct Summary {
    /// The limit that did something, though the supervisor did not: the kernel was first.
    pub(crate) limit: Option<LimitKind>,
    /// Forks that the limit refused.
    pub(crate) refused_forks: u64,
    /// The kernel's numbers in place of those given, where it has some.
    pub(crate) usage: Usage,
    /// Every limit that was nearly reached, once.
    pub(crate) warnings: Vec<Warning>,
}

impl Monitor {
    /// Watches over `limits` from now on.
    pub(crate) fn new(limits: &Limits, now: Instant) -> Self {
        Self {
            started: now,
            timeout: Duration::from_millis(limits.timeout_ms.value),
            max_cpu: Duration::from_secs(limits.max_cpu_seconds.value),
            max_memory: limits.max_memory_mb.value.saturating_mul(1 << 20),
            max_processes: limits.max_processes.value,
            due: now + PERIOD,
            peak: Peak::default(),
            latest: InUse::default(),
            warnings: Vec::new(),
            disk: None,
        }
    }

    /// CPU and elapsed time are kept for each command by whoever asked for it, not for all of them together.
    pub(crate) fn serve(&mut self) {
        (self.timeout, self.max_cpu) = (NEVER, NEVER);
    }

    /// Watches over what is written to these directories and below.
    pub(crate) fn watch_disk(&mut self, zones: Vec<OwnedFd>, max: u64) -> io::Result<()> {
        self.disk = if zones.is_empty() { None } else { Some(Growth::new(zones, max)?) };
        Ok(())
    }

    /// What was in use at the last look, and the limits that were near by then.
    pub(crate) fn latest(&self) -> (InUse, &[Warning]) {
        (self.latest, &self.warnings)
    }

    /// When to look next.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Looks at everything below process `guest`; the limit that is passed, if one is.
    pub(crate) fn look(
        &mut self,
        group: Option<&Group>,
        guest: i32,
    ) -> Result<Option<LimitKind>, CgroupError> {
        let group_now = group.map_or_else(|| Ok(Now::default()), |group| group.now(self.max_memory))?;
        let mut now = group_now;
        if now.cpu.is_none() || now.memory.is_none() || now.processes.is_none() {
            let sum = tree::below(guest);
            now.cpu.get_or_insert(sum.cpu);
            now.memory.get_or_insert(sum.memory);
            now.processes.get_or_insert(sum.processes + 1);
        }
        let cpu = now.cpu.unwrap_or_default();
        let (memory, processes) = (now.memory.unwrap_or(0), now.processes.unwrap_or(0).saturating_sub(1));
        self.peak.memory = self.peak.memory.max(memory);
        self.peak.processes = self.peak.processes.max(processes);
        self.latest = InUse { cpu, memory_bytes: memory, processes };

        self.warn_if_near(LimitKind::Cpu, millis(cpu), millis(self.max_cpu));
        self.warn_if_near(LimitKind::Memory, memory, self.max_memory);
        self.warn_if_near(LimitKind::Wall, millis(self.started.elapsed()), millis(self.timeout));
        self.warn_of_processes();
        // The control group holds memory itself; what was sampled is held here.
        let sampled = group_now.memory.is_none();
        self.due = Instant::now() + self.pause(cpu, memory, sampled);
        let full = self.disk_is_full()?;
        Ok(if full {
            Some(LimitKind::Disk)
        } else if now.oom_kills > 0 || (sampled && memory > self.max_memory) {
            Some(LimitKind::Memory)
        } else if cpu >= self.max_cpu {
            Some(LimitKind::Cpu)
        } else {
            None
        })
    }

    /// Whether more was written to disk than may be.
    fn disk_is_full(&mut self) -> Result<bool, CgroupError> {
        let Some(disk) = &mut self.disk else { return Ok(false) };
        let (max, written) = (disk.max(), disk.look().map_err(CgroupError::Disk)?);
        let Some(written) = written else { return Ok(false) };
        self.warn_if_near(LimitKind::Disk, written, max);
        Ok(written > max)
    }

    /// Until the next look: as long as nothing can be passed meanwhile, even with every processor busy.
    fn pause(&self, cpu: Duration, memory: u64, sampled: bool) -> Duration {
        let warning = self.max_cpu * 4 / 5;
        let next = if cpu < warning { warning } else { self.max_cpu };
        let to_cpu = next.saturating_sub(cpu) / processors();
        let to_memory = if sampled && memory > self.max_memory / 2 { NEAR } else { PERIOD };
        let to_wall = (self.timeout * 4 / 5).checked_sub(self.started.elapsed()).unwrap_or(PERIOD);
        PERIOD.min(to_cpu).min(to_memory).min(to_wall).max(SHORTEST)
    }

    fn warn_of_processes(&mut self) {
        // One process of one is no warning: there is always one.
        if self.max_processes > 1 {
            self.warn_if_near(LimitKind::Processes, self.peak.processes, self.max_processes);
        }
    }

    /// Warns once, at four fifths.
    fn warn_if_near(&mut self, limit_type: LimitKind, current: u64, max: u64) {
        if u128::from(current) * 5 >= u128::from(max) * 4 {
            self.warn(limit_type, current, max);
        }
    }

    fn warn(&mut self, limit_type: LimitKind, current: u64, max: u64) {
        if self.warnings.iter().all(|warning| warning.limit_type != limit_type) {
            self.warnings.push(Warning { limit_type, current, max });
        }
    }

    /// The last look, when everything inside is gone. `usage` is what reaping told, `limit` what the supervisor ended
    /// it for.
    pub(crate) fn sum_up(
        &mut self,
        group: Option<&Group>,
        (limit, exit): (Option<LimitKind>, Exit),
        mut usage: Usage,
    ) -> Result<Summary, CgroupError> {
        let total = group.map_or_else(|| Ok(Default::default()), Group::total)?;
        if let Some(cpu) = group.map_or(Ok(None), Group::cpu)? {
            usage.cpu = cpu;
        }
        usage.peak_memory_bytes = total.peak_memory.unwrap_or(usage.peak_memory_bytes.max(self.peak.memory));
        let counted = total.peak_processes.map(|peak| peak.saturating_sub(1));
        self.peak.processes = counted.unwrap_or(self.peak.processes.max(1));
        usage.peak_processes = self.peak.processes;

        let oom = group.map_or(Ok(0), Group::oom_kills)? > 0;
        let used_up = usage.cpu + TICK >= self.max_cpu;
        let limit = limit.or(match exit {
            _ if oom => Some(LimitKind::Memory),
            // The kernel counts whole ticks for this one, and so may be ahead of what it reports. Far from the limit
            // somebody inside sent it.
            Exit::Signal(libc::SIGXCPU) if usage.cpu * 2 >= self.max_cpu => Some(LimitKind::Cpu),
            Exit::Signal(libc::SIGKILL) if used_up => Some(LimitKind::Cpu),
            Exit::Signal(libc::SIGXFSZ) => Some(LimitKind::Disk),
            _ => None,
        });
        match limit {
            Some(LimitKind::Cpu) => self.warn(LimitKind::Cpu, millis(usage.cpu), millis(self.max_cpu)),
            _ => self.warn_if_near(LimitKind::Cpu, millis(usage.cpu), millis(self.max_cpu)),
        }
        self.warn_if_near(LimitKind::Wall, millis(usage.wall), millis(self.timeout));
        self.warn_of_processes();
        // Faster than a sample: the limit was near before it acted all the same. A peak alone proves nothing, since it
        // counts page cache that the kernel would have dropped.
        if limit == Some(LimitKind::Memory) {
            self.warn(LimitKind::Memory, usage.peak_memory_bytes, self.max_memory);
        }
        let warnings = std::mem::take(&mut self.warnings);
        Ok(Summary { limit, refused_forks: total.refused_forks, usage, warnings })
    }
}

/// How many processors may be busy at once. Asked once, and not before it is needed: it takes reading files.
fn processors() -> u32 {
    static COUNT: OnceLock<u32> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, |count| count.get() as u32))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
