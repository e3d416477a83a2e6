//! How much a plan insists on each control, and who says so.
//!
//! Isolation is required. Limits must hold at least in part, so that a host without delegated cgroups still works
//! and says so. What a policy switches off is still given where a wall gives it for nothing.

use pinfold_core::control::{Control, Requirement};
use pinfold_core::origin::Origin;
use pinfold_core::plan::{Asked, Network};

use crate::Setting;
use crate::document::Policy;

pub(super) fn controls(policy: &Policy, network: &Network) -> Vec<Asked> {
    Control::ALL
        .iter()
        .map(|&control| {
            let (requirement, because) = match policy.requirements.get(&control) {
                Some(stated) => (stated.value, stated.origin().clone()),
                None => default(control, policy, network),
            };
            Asked { control, requirement, because }
        })
        .collect()
}

fn default(control: Control, policy: &Policy, network: &Network) -> (Requirement, Origin) {
    let wanted = |setting: &Setting<bool>| {
        let requirement = if setting.value { Requirement::Required } else { Requirement::BestEffort };
        (requirement, setting.origin().clone())
    };
    let (fs, net, proc, security) = (&policy.fs, &policy.net, &policy.proc, &policy.security);
    let required = |origin: &Origin| (Requirement::Required, origin.clone());
    let partial = |origin: &Origin| (Requirement::AtLeastPartial, origin.clone());
    match control {
        Control::FilesZones => required(fs.workspace.origin()),
        Control::FilesDeny => required(fs.deny.origin()),
        Control::FilesLayout => (Requirement::AtLeastPartial, Origin::Rule("layout is a convenience")),
        Control::NetworkDirect => required(net.enabled.origin()),
        Control::NetworkAllowlist => required(net.allowlist.origin()),
        Control::NetworkCredentials if network.rules.iter().any(|rule| rule.credential.is_some()) => {
            required(net.rules.origin())
        }
        Control::NetworkCredentials => (Requirement::BestEffort, Origin::Rule("no secret is brokered")),
        Control::KernelSeccomp => required(security.seccomp_profile.origin()),
        Control::PrivilegesCapabilities => wanted(&security.drop_capabilities),
        Control::PrivilegesNoNew => wanted(&security.no_new_privileges),
        Control::PrivilegesNonRoot => wanted(&security.run_as_non_root),
        Control::RootReadonly => wanted(&security.read_only_root_filesystem),
        Control::LimitCpu => partial(proc.max_cpu_seconds.origin()),
        Control::LimitMemory => partial(proc.max_memory_mb.origin()),
        Control::LimitDisk => partial(proc.max_disk_mb.origin()),
        Control::LimitWall => partial(proc.timeout_ms.origin()),
        Control::LimitProcesses => partial(proc.max_processes.origin()),
        Control::LimitFds => partial(proc.max_file_descriptors.origin()),
        Control::LimitOutput => partial(proc.max_output_bytes.origin()),
        Control::FilesOutside
        | Control::FilesProtected
        | Control::FilesSelf
        | Control::ProcessesIsolated
        | Control::ProcessesEnd
        | Control::IpcIsolated
        | Control::KernelAbi
        | Control::PrivilegesSetid
        | Control::EnvClean
        | Control::DescriptorsClean
        | Control::TerminalOwn => (Requirement::Required, Origin::Rule("always")),
    }
}
