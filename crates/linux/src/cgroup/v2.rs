//! Version 2: one hierarchy, and controllers that are handed down to those below. See cgroup-v2 in the kernel's
//! documentation.

use pinfold_core::plan::Limits;

use super::files::{Directory, Names};
use super::find::Controller;
use super::{CgroupError, PERIOD_US, quota_us, tasks};

pub(super) const NAMES: Names = Names {
    memory: "memory.current",
    peak: "memory.peak",
    oom: "memory.events",
    cache: ["inactive_file", "active_file"],
};

/// Writes what the plan allows.
pub(super) fn limit(group: &Directory, controller: Controller, limits: &Limits) -> Result<(), CgroupError> {
    match controller {
        Controller::Memory => {
            group.write("memory.max", limits.max_memory_mb.value.saturating_mul(1 << 20))?;
            // Absent from a kernel without swap.
            if group.has("memory.swap.max") {
                group.write("memory.swap.max", 0)?;
            }
            group.write("memory.oom.group", 1)
        }
        Controller::Pids => group.write("pids.max", tasks(limits)),
        Controller::Cpu => match &limits.cpus {
            Some(cpus) => group.write("cpu.max", format!("{} {PERIOD_US}", quota_us(cpus.value))),
            None => Ok(()),
        },
        Controller::Cpuacct => Ok(()),
    }
}
