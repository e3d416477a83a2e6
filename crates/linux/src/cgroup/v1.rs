//! Version 1: a hierarchy for each controller, or for a few of them. See cgroup-v1/memory in the kernel's documentation.

use pinfold_core::plan::Limits;

use super::files::{Directory, Names};
use super::find::Controller;
use super::{CgroupError, PERIOD_US, quota_us, tasks};

pub(super) const NAMES: Names = Names {
    memory: "memory.usage_in_bytes",
    peak: "memory.max_usage_in_bytes",
    oom: "memory.oom_control",
    cache: ["total_inactive_file", "total_active_file"],
};

/// Writes what the plan allows.
pub(super) fn limit(group: &Directory, controller: Controller, limits: &Limits) -> Result<(), CgroupError> {
    match controller {
        Controller::Memory => {
            let bytes = limits.max_memory_mb.value.saturating_mul(1 << 20);
            group.write("memory.limit_in_bytes", bytes)?;
            // Memory and swap together, never below memory alone: so it comes second.
            if group.has("memory.memsw.limit_in_bytes") {
                group.write("memory.memsw.limit_in_bytes", bytes)
            } else {
                group.write("memory.swappiness", 0)
            }
        }
        Controller::Pids => group.write("pids.max", tasks(limits)),
        Controller::Cpu => match &limits.cpus {
            Some(cpus) => {
                group.write("cpu.cfs_period_us", PERIOD_US)?;
                group.write("cpu.cfs_quota_us", quota_us(cpus.value))
            }
            None => Ok(()),
        },
        Controller::Cpuacct => Ok(()),
    }
}
