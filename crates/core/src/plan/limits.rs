//! The limits of a plan, each with where its number came from.

use serde::{Deserialize, Serialize};

use crate::origin::Origin;

/// A number and who set it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit<T = u64> {
    /// The number itself.
    pub value: T,
    /// Who set it.
    pub because: Origin,
}

/// How much of the machine may be used. The names are those of the policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// CPU seconds of all processes together.
    pub max_cpu_seconds: Limit,
    /// How many CPUs may be busy at once; none means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Limit<f64>>,
    /// Memory of all processes and tmpfs together.
    #[serde(rename = "maxMemoryMB")]
    pub max_memory_mb: Limit,
    /// What may be written to disk.
    #[serde(rename = "maxDiskMB")]
    pub max_disk_mb: Limit,
    /// Elapsed time.
    pub timeout_ms: Limit,
    /// Processes and threads.
    pub max_processes: Limit,
    /// Open descriptors per process.
    pub max_file_descriptors: Limit,
    /// Standard output and error, each.
    pub max_output_bytes: Limit,
    /// What happens at the output limit.
    pub on_output_limit: OnOutputLimit,
}

/// What happens when output reaches its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnOutputLimit {
    /// The command is killed.
    #[default]
    Kill,
    /// The command goes on; what exceeds the limit is dropped and counted.
    Truncate,
}

impl std::fmt::Display for OnOutputLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Kill => "kill",
            Self::Truncate => "truncate",
        })
    }
}
