//! Resource limits of the calling process, inherited by all it starts. Sums over processes, memory and disk
//! belong to cgroups and the monitor; address space (`RLIMIT_AS`) is never limited, as runtimes reserve far
//! more than they use.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A limit that could not be set.
#[derive(Debug, thiserror::Error)]
#[error("cannot limit {what} to {limit}")]
pub struct RlimitError {
    /// What was to be limited.
    pub what: &'static str,
    /// To how much.
    pub limit: u64,
    /// What the system said.
    pub source: Errno,
}

/// The limits; none leaves one as it is. Limits only ever go down: a hard limit in force that is lower stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rlimits {
    /// Open descriptors per process.
    pub descriptors: Option<u64>,
    /// Processes and threads of the user id; in a fresh user namespace that is the sandbox alone.
    pub processes: Option<u64>,
    /// The size of any one file, in bytes.
    pub file_size: Option<u64>,
    /// CPU seconds of each process: SIGXCPU at this many, SIGKILL one later.
    pub cpu_seconds: Option<u64>,
}

/// Less than any core file, and exactly the value at which the kernel does not start a core handler either: 0
/// stops files only (`|` in core(5) ignores the limit, `coredump_pipe` in the kernel refuses 1).
const NO_CORE: u64 = 1;

impl Rlimits {
    /// Sets the limits, soft and hard, and that no core is dumped.
    pub fn apply(&self) -> Result<(), RlimitError> {
        lower("core dumps", Resource::Core, NO_CORE, NO_CORE)?;
        let limits = [
            ("open descriptors", Resource::Nofile, self.descriptors, 0),
            ("processes", Resource::Nproc, self.processes, 0),
            ("file size", Resource::Fsize, self.file_size, 0),
            ("CPU seconds", Resource::Cpu, self.cpu_seconds, 1),
        ];
        for (what, resource, limit, grace) in limits {
            if let Some(limit) = limit {
                lower(what, resource, limit, limit.saturating_add(grace))?;
            }
        }
        Ok(())
    }
}

fn lower(what: &'static str, resource: Resource, soft: u64, hard: u64) -> Result<(), RlimitError> {
    // Raising a hard limit takes CAP_SYS_RESOURCE on the host, and no sandbox is worth more than its caller
    // has.
    let hard = getrlimit(resource).maximum.map_or(hard, |held| held.min(hard));
    let limit = Rlimit { current: Some(soft.min(hard)), maximum: Some(hard) };
    setrlimit(resource, limit).map_err(|source| RlimitError { what, limit: soft, source })
}
