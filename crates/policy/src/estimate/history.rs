//! What earlier runs used, command by command: of each amount the largest that counts, and how long ago that was. It
//! has a fixed size whatever happens, and is read from and written as JSON; files are somebody else's.

use std::collections::HashSet;

use pinfold_core::outcome::{Exit, LimitKind, Outcome};
use pinfold_core::plan::Limits;
use serde::{Deserialize, Serialize};

use super::name::is_name;

/// How many commands are remembered; beyond that, the one that was longest not run is forgotten.
pub const COMMANDS: usize = 128;
/// A peak counts a sixteenth less with every run that succeeded since: half after eleven.
const FADING: f64 = 15.0 / 16.0;
/// Beyond so many runs a peak counts next to nothing, and they are no longer counted.
const LONG_AGO: u32 = 255;
const VERSION: u32 = 1;

/// The amounts of one run or of one command, in the units that runs are measured in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Amounts<T: Default + PartialEq> {
    #[serde(skip_serializing_if = "is_default")]
    pub(super) memory_bytes: T,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) cpu_ms: T,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) wall_ms: T,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) processes: T,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) disk_bytes: T,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) descriptors: T,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) output_bytes: T,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl<T: Default + PartialEq> Amounts<T> {
    /// In the order of the tables.
    pub(super) fn each(&self) -> [&T; 7] {
        let Self { memory_bytes, cpu_ms, wall_ms, processes, disk_bytes, descriptors, output_bytes } = self;
        [memory_bytes, cpu_ms, wall_ms, processes, disk_bytes, descriptors, output_bytes]
    }

    fn each_mut(&mut self) -> [&mut T; 7] {
        let Self { memory_bytes, cpu_ms, wall_ms, processes, disk_bytes, descriptors, output_bytes } = self;
        [memory_bytes, cpu_ms, wall_ms, processes, disk_bytes, descriptors, output_bytes]
    }
}

/// The kinds of limit in the order of the tables.
const KINDS: [LimitKind; 7] = [
    LimitKind::Memory,
    LimitKind::Cpu,
    LimitKind::Wall,
    LimitKind::Processes,
    LimitKind::Disk,
    LimitKind::Fds,
    LimitKind::Output,
];

/// What one run teaches: how much of each amount it needed at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    amounts: Amounts<u64>,
    ended: Option<LimitKind>,
    succeeded: bool,
}

impl Observation {
    /// Of a run under `limits` that came to `outcome`.
    ///
    /// Nothing counts for more than the limit it ran under, and what a limit ended counts for all of that limit.
    pub fn new(limits: &Limits, outcome: &Outcome) -> Self {
        let usage = &outcome.usage;
        let measured = Amounts {
            memory_bytes: usage.peak_memory_bytes,
            cpu_ms: usage.cpu_ms,
            wall_ms: usage.wall_ms,
            processes: usage.peak_processes,
            // Neither is measured: only a run that one of them ended teaches anything about it.
            disk_bytes: 0,
            descriptors: 0,
            output_bytes: usage.output_bytes,
        };
        let mut under = Amounts {
            memory_bytes: limits.max_memory_mb.value.saturating_mul(1 << 20),
            cpu_ms: limits.max_cpu_seconds.value.saturating_mul(1000),
            wall_ms: limits.timeout_ms.value,
            processes: limits.max_processes.value,
            disk_bytes: limits.max_disk_mb.value.saturating_mul(1 << 20),
            descriptors: limits.max_file_descriptors.value,
            output_bytes: limits.max_output_bytes.value,
        };
        // Page cache fills memory up to any limit, and the kernel drops it when there is need. Memory that was near its
        // limit without it was warned about; if it was not, as much as there was is known to be enough.
        let near = |amount: u64, limit: u64| u128::from(amount) * 5 >= u128::from(limit) * 4;
        let cache = near(measured.memory_bytes, under.memory_bytes)
            && outcome.limit != Some(LimitKind::Memory)
            && outcome.warnings.iter().all(|warning| warning.limit_type != LimitKind::Memory);
        if cache {
            under.memory_bytes /= 2;
        }
        let mut amounts = measured;
        for ((amount, limit), kind) in amounts.each_mut().into_iter().zip(under.each()).zip(KINDS) {
            *amount = if outcome.limit == Some(kind) { *limit } else { (*amount).min(*limit) };
        }
        let succeeded = outcome.limit.is_none() && outcome.exit == Exit::Code(0);
        Self { amounts, ended: outcome.limit, succeeded }
    }
}

/// The largest amount that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Peak {
    pub(super) most: u64,
    /// How many runs that succeeded came after it.
    #[serde(default, skip_serializing_if = "is_default")]
    ago: u32,
    /// Whether a limit ended that run, so that more would have been used.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) ended: bool,
}

impl Peak {
    /// What it counts for now. Of two peaks the larger stays the larger, so that one is enough to keep.
    pub(super) fn faded(&self) -> u64 {
        (self.most as f64 * FADING.powi(self.ago.min(LONG_AGO) as i32)).ceil() as u64
    }
}

/// What is remembered of one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Remembered {
    command: String,
    /// All runs.
    pub(super) runs: u64,
    /// Those that ended by themselves and well.
    pub(super) succeeded: u64,
    /// Those that a limit ended.
    ended: u64,
    pub(super) peaks: Amounts<Peak>,
}

impl Remembered {
    fn new(command: &str) -> Self {
        Self { command: command.to_owned(), runs: 0, succeeded: 0, ended: 0, peaks: Amounts::default() }
    }

    fn learn(&mut self, run: &Observation) {
        self.runs = self.runs.saturating_add(1);
        self.succeeded = self.succeeded.saturating_add(run.succeeded.into());
        self.ended = self.ended.saturating_add(run.ended.is_some().into());
        for ((peak, amount), kind) in self.peaks.each_mut().into_iter().zip(run.amounts.each()).zip(KINDS) {
            if *amount == 0 {
                continue;
            }
            // What failed early says nothing about what the command needs when it does not fail.
            if run.succeeded {
                peak.ago = (peak.ago + 1).min(LONG_AGO);
            }
            if *amount >= peak.faded() {
                *peak = Peak { most: *amount, ago: 0, ended: run.ended == Some(kind) };
            }
        }
    }
}

/// What earlier runs used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    version: u32,
    /// The one that ran last comes last.
    commands: Vec<Remembered>,
}

impl Default for History {
    fn default() -> Self {
        Self { version: VERSION, commands: Vec::new() }
    }
}

/// Text that is no history.
#[derive(Debug, thiserror::Error)]
pub enum DamagedHistory {
    /// It is no JSON, or not the JSON of a history.
    #[error("it is no history of this version: {0}")]
    Text(#[from] serde_json::Error),
    /// It is of a version that is not known here.
    #[error("its version is {0}, and this build knows {VERSION}")]
    Version(u32),
    /// It has more than a history can have.
    #[error("it has {0} commands, and {COMMANDS} is the most")]
    TooMany(usize),
    /// A command that could not have been written.
    #[error("command {0} could not have been written: {1}")]
    Command(usize, &'static str),
}

impl History {
    /// Reads a history. One that this code could not have written is damaged, not repaired.
    pub fn from_json(text: &[u8]) -> Result<Self, DamagedHistory> {
        let history: Self = serde_json::from_slice(text)?;
        if history.version != VERSION {
            return Err(DamagedHistory::Version(history.version));
        }
        if history.commands.len() > COMMANDS {
            return Err(DamagedHistory::TooMany(history.commands.len()));
        }
        let mut seen = HashSet::new();
        for (at, command) in history.commands.iter().enumerate() {
            let wrong = |why| Err(DamagedHistory::Command(at, why));
            if !is_name(&command.command) {
                return wrong("its name is none");
            }
            if !seen.insert(&command.command) {
                return wrong("it is there twice");
            }
            if command.runs < command.succeeded.saturating_add(command.ended) || command.runs == 0 {
                return wrong("its runs do not add up");
            }
        }
        Ok(history)
    }

    /// The text of it, one command a line, ending with a line end.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = format!("{{\"version\":{},\"commands\":[", self.version);
        for (at, command) in self.commands.iter().enumerate() {
            text.push_str(if at == 0 { "\n" } else { ",\n" });
            text.push_str(&serde_json::to_string(command)?);
        }
        text.push_str("\n]}\n");
        Ok(text)
    }

    /// Remembers a run of `command`, which is a name as [`super::name`] gives it.
    pub fn learn(&mut self, command: &str, run: &Observation) {
        let known = self.commands.iter().position(|remembered| remembered.command == command);
        let mut remembered =
            known.map_or_else(|| Remembered::new(command), |known| self.commands.remove(known));
        remembered.learn(run);
        self.commands.push(remembered);
        let over = self.commands.len().saturating_sub(COMMANDS);
        self.commands.drain(..over);
    }

    /// How many runs of `command` are remembered.
    pub fn runs(&self, command: &str) -> u64 {
        self.of(command).map_or(0, |remembered| remembered.runs)
    }

    /// How many commands are remembered.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    pub(super) fn of(&self, command: &str) -> Option<&Remembered> {
        self.commands.iter().find(|remembered| remembered.command == command)
    }
}
