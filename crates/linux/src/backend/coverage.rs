//! What the namespace wall holds of a plan on this host, control by control. Nothing is started to find out.

use pinfold_core::control::Control;
use pinfold_core::coverage::Coverage;
use pinfold_core::plan::{Plan, Zone, ZoneSource};
use pinfold_core::zone::Access;

use crate::cgroup::{Controller, Places};
use crate::probe::{Found, Probe};
use crate::{ids, landlock};

/// Answers every control of `plan`.
pub fn cover(plan: &Plan, probe: &Probe) -> Coverage {
    let mut coverage = Coverage::default();
    for found in [&probe.user_namespaces, &probe.mount_api] {
        if !found.is_there() {
            for control in Control::ALL {
                coverage.missing(*control, found.why_not());
            }
            return coverage;
        }
    }
    files(&mut coverage, plan, probe);
    network(&mut coverage, plan);
    processes(&mut coverage, plan);
    privileges(&mut coverage, plan, probe);
    limits(&mut coverage, plan, probe);
    coverage
}

fn files(coverage: &mut Coverage, plan: &Plan, probe: &Probe) {
    for control in [Control::FilesOutside, Control::FilesZones] {
        match &probe.landlock {
            // What an old ABI leaves open the mounts hold by themselves, as they hold all of it.
            Found::Yes(abi) => coverage.enforced_but(
                control,
                format!("mount namespace and Landlock ({abi})"),
                landlock::abi().map_or_else(String::new, left_to_mounts),
            ),
            // Without a second line at all the promise is half of what it is elsewhere.
            missing @ Found::No { .. } => {
                let detail = format!("mounts alone hold it: {}", missing.why_not());
                coverage.partial(control, "mount namespace", detail);
            }
        }
    }
    coverage.enforced(Control::FilesDeny, "covered by mounts at start");
    coverage.enforced(Control::FilesProtected, "read-only mounts and placeholders, compared at the end");
    coverage.enforced(Control::FilesLayout, "mount namespace");
    coverage.enforced(Control::FilesSelf, "mount namespace");
    if plan.files.readonly_root {
        coverage.enforced(Control::RootReadonly, "read-only root");
    } else {
        coverage.partial(
            Control::RootReadonly,
            "read-only root",
            "/dev/shm, /tmp and /scratch are writable memory",
        );
    }
    coverage.enforced(Control::EnvClean, "made by the supervisor");
    coverage.enforced(Control::DescriptorsClean, "close_range");
    coverage.enforced(Control::TerminalOwn, "own devpts, relayed");
}

/// What the mounts hold without a second line where Landlock is of `abi`. Signals and sockets are not files.
fn left_to_mounts(abi: u32) -> String {
    landlock::gaps(abi, false).map_or_else(String::new, |gaps| format!("held by the mounts alone: {gaps}"))
}

fn network(coverage: &mut Coverage, plan: &Plan) {
    coverage.enforced(Control::NetworkDirect, "network namespace with loopback alone");
    for control in [Control::NetworkAllowlist, Control::NetworkCredentials] {
        if plan.network.enabled {
            coverage.missing(control, "this backend has no network door yet");
        } else {
            coverage.enforced(control, "no network at all");
        }
    }
}

fn processes(coverage: &mut Coverage, plan: &Plan) {
    coverage.enforced(Control::ProcessesIsolated, "pid namespace");
    coverage.enforced(Control::ProcessesEnd, "pid namespace, ended with its process 1");
    let files = &plan.files;
    let shows_host = files.zones.iter().any(|zone| zone.host().is_some());
    // Sockets and pipes with a path belong to the files of a zone and not to this promise, but who reads it may
    // think of them. Landlock holds them from an ABI on that `landlock` does not use yet.
    let detail = if shows_host || !files.read.is_empty() || !files.write.is_empty() {
        "sockets and pipes that lie in zones are masked where they were found at the start"
    } else {
        ""
    };
    coverage.enforced_but(Control::IpcIsolated, "ipc and network namespaces", detail);
}

fn privileges(coverage: &mut Coverage, plan: &Plan, probe: &Probe) {
    match &probe.seccomp {
        Found::Yes(_) => {
            coverage.enforced(Control::KernelSeccomp, "seccomp");
            coverage.enforced(Control::KernelAbi, "seccomp");
            coverage.enforced(Control::PrivilegesSetid, "seccomp and nosuid mounts");
        }
        missing @ Found::No { .. } => {
            for control in [Control::KernelSeccomp, Control::KernelAbi] {
                coverage.missing(control, missing.why_not());
            }
            coverage.partial(
                Control::PrivilegesSetid,
                "nosuid mounts",
                "set-id files can be left on the host",
            );
        }
    }
    if plan.privileges.drop_capabilities {
        coverage.enforced(Control::PrivilegesCapabilities, "capset, in a user namespace of its own");
    } else {
        coverage
            .missing(Control::PrivilegesCapabilities, "the policy keeps capabilities of the user namespace");
    }
    if plan.privileges.no_new_privileges {
        coverage.enforced(Control::PrivilegesNoNew, "no_new_privs and nosuid mounts");
    } else {
        coverage.missing(Control::PrivilegesNoNew, "the policy allows new privileges");
    }
    match &probe.non_root {
        Found::Yes(_) => {
            let (who, detail) = ids::outlook(plan, probe.idmapped_mounts.is_there());
            coverage.enforced_but(Control::PrivilegesNonRoot, format!("user namespace: {who}"), detail);
        }
        missing @ Found::No { .. } => coverage.missing(Control::PrivilegesNonRoot, missing.why_not()),
    }
}

fn limits(coverage: &mut Coverage, plan: &Plan, probe: &Probe) {
    let groups = probe.cgroups;
    coverage.enforced(Control::LimitWall, "the supervisor's timer");
    let counted = if groups.has(Controller::Pids) {
        groups.mechanism(Controller::Pids) + " and "
    } else {
        String::new()
    };
    coverage.enforced(Control::LimitProcesses, counted + "RLIMIT_NPROC of a user namespace of its own");
    coverage.enforced(Control::LimitFds, "RLIMIT_NOFILE");
    cpu(coverage, plan, groups);
    disk(coverage, plan);
    if groups.has(Controller::Memory) {
        coverage.enforced(Control::LimitMemory, groups.mechanism(Controller::Memory));
    } else {
        let detail = format!(
            "private memory, every 50 ms or sooner; shared memory and tmpfs are bounded by their own sizes: {}",
            groups.why_not()
        );
        coverage.partial(Control::LimitMemory, "sampled by the supervisor", detail);
    }
    coverage.enforced(Control::LimitOutput, "counted by the supervisor, unless it goes to a terminal");
}

fn cpu(coverage: &mut Coverage, plan: &Plan, groups: &Places) {
    let acted = "read by the supervisor before it can be passed, and RLIMIT_CPU";
    if !groups.has(Controller::Cpuacct) {
        let detail = format!("a process that reaps no children hides their time: {}", groups.why_not());
        coverage.partial(Control::LimitCpu, "sums of all processes, sampled, and RLIMIT_CPU", detail);
    } else if plan.limits.cpus.is_some() && !groups.has(Controller::Cpu) {
        let mechanism = format!("{}, {acted}", groups.mechanism(Controller::Cpuacct));
        let detail = format!("more processors than `proc.cpus` may be busy at once: {}", groups.why_not());
        coverage.partial(Control::LimitCpu, mechanism, detail);
    } else {
        coverage.enforced(Control::LimitCpu, format!("{}, {acted}", groups.mechanism(Controller::Cpuacct)));
    }
}

/// What is in memory has a size of its own; what is on disk is measured, and each file has a bound.
fn disk(coverage: &mut Coverage, plan: &Plan) {
    let on_disk = |zone: &Zone| matches!(zone.source, ZoneSource::Host { access: Access::ReadWrite, .. });
    if plan.files.zones.iter().any(on_disk) || !plan.files.write.is_empty() {
        let detail =
            "measured several times a second; files that were there before are bounded each, not together";
        coverage.partial(Control::LimitDisk, "growth measured, RLIMIT_FSIZE and sized tmpfs", detail);
    } else {
        coverage.enforced(Control::LimitDisk, "nothing on disk is writable; sized tmpfs and RLIMIT_FSIZE");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_old_landlock_leaves_open_is_said() {
        assert!(left_to_mounts(1).contains("truncated"), "{}", left_to_mounts(1));
        assert!(left_to_mounts(4).contains("ioctl"));
        assert_eq!(left_to_mounts(5), "");
    }
}
