//! The limits of a plan: the policy's numbers, raised by an estimate where nobody stated them.

use pinfold_core::origin::Origin;
use pinfold_core::plan::{Limit, Limits};
use pinfold_core::request::Request;

use super::LimitsMode;
use crate::Setting;
use crate::document::Amount;
use crate::estimate::{Estimate, recommend};
use crate::layer::Settled;

pub(super) fn limits(request: &Request, settled: &Settled, mode: LimitsMode) -> Limits {
    let raised = mode == LimitsMode::Auto && settled.profile.may_be_raised() && !settled.limits_locked;
    let command: Vec<String> =
        request.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let estimate = if raised { recommend(&command) } else { None };
    let limit = |setting: &Setting<Amount>, estimated: fn(&Estimate) -> u64| {
        let stated = Limit { value: setting.value.get(), because: setting.origin().clone() };
        match &estimate {
            Some(estimate) if stated.because.is_default() && estimated(estimate) > stated.value => {
                let because = Origin::Estimate(estimate.because.as_str().into());
                Limit { value: estimated(estimate), because }
            }
            _ => stated,
        }
    };
    let proc = &settled.policy.proc;
    Limits {
        max_cpu_seconds: limit(&proc.max_cpu_seconds, |estimate| estimate.cpu_seconds),
        cpus: proc.cpus.value.map(|cpus| Limit { value: cpus.get(), because: proc.cpus.origin().clone() }),
        max_memory_mb: limit(&proc.max_memory_mb, |estimate| estimate.memory_mb),
        max_disk_mb: limit(&proc.max_disk_mb, |estimate| estimate.disk_mb),
        timeout_ms: limit(&proc.timeout_ms, |estimate| estimate.wall_ms),
        max_processes: limit(&proc.max_processes, |estimate| estimate.processes),
        max_file_descriptors: limit(&proc.max_file_descriptors, |estimate| estimate.descriptors),
        max_output_bytes: limit(&proc.max_output_bytes, |estimate| estimate.output_bytes),
        on_output_limit: proc.on_output_limit.value,
    }
}
