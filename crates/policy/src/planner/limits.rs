//! The limits of a plan: the policy's numbers, raised by an estimate where nobody stated them.

use pinfold_core::outcome::LimitKind;
use pinfold_core::plan::{Limit, Limits};
use pinfold_core::request::Request;

use super::LimitsMode;
use crate::Setting;
use crate::document::Amount;
use crate::estimate::advise;
use crate::layer::Settled;

pub(super) fn limits(request: &Request, settled: &Settled, mode: LimitsMode<'_>) -> Limits {
    let may_be_raised = settled.profile.may_be_raised() && !settled.limits_locked;
    let history = match mode {
        LimitsMode::Policy => None,
        LimitsMode::Auto => Some(None),
        LimitsMode::Learned(history) => Some(Some(history)),
    };
    let advice = history.filter(|_| may_be_raised).map(|history| {
        let words = request.command.iter().map(|word| word.to_string_lossy().into_owned());
        advise(&words.collect::<Vec<_>>(), history)
    });
    let limit = |setting: &Setting<Amount>, kind: LimitKind| {
        let stated = Limit { value: setting.value.get(), because: setting.origin().clone() };
        match advice.as_ref().and_then(|advice| advice.get(kind)) {
            Some(advised) if stated.because.is_default() && advised.value > stated.value => advised.clone(),
            _ => stated,
        }
    };
    let proc = &settled.policy.proc;
    Limits {
        max_cpu_seconds: limit(&proc.max_cpu_seconds, LimitKind::Cpu),
        cpus: proc.cpus.value.map(|cpus| Limit { value: cpus.get(), because: proc.cpus.origin().clone() }),
        max_memory_mb: limit(&proc.max_memory_mb, LimitKind::Memory),
        max_disk_mb: limit(&proc.max_disk_mb, LimitKind::Disk),
        timeout_ms: limit(&proc.timeout_ms, LimitKind::Wall),
        max_processes: limit(&proc.max_processes, LimitKind::Processes),
        max_file_descriptors: limit(&proc.max_file_descriptors, LimitKind::Fds),
        max_output_bytes: limit(&proc.max_output_bytes, LimitKind::Output),
        on_output_limit: proc.on_output_limit.value,
    }
}
