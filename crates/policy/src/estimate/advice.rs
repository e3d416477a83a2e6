//! Puts the table and the history together: one number for each limit, with where it came from.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use pinfold_core::origin::Origin;
use pinfold_core::outcome::LimitKind;
use pinfold_core::plan::Limit;

use super::history::{History, Peak, Remembered};
use super::table::{CEILING, Need};
use super::{DEPTH, name, of_command};

/// A recommendation is this much of what a command was seen to need: a run that a limit ended gets twice that limit, and
/// ten small runs do not take away what a big one needed, for a peak counts half after eleven.
const HEAD_ROOM: u64 = 2;
/// With fewer successful runs than this the table's number is only raised.
const ENOUGH: u64 = 5;
/// No history lowers the table's number by more than this, so that one run that a limit ended brings it back.
const LOWEST: u64 = 2;
/// How many of a peak's units (bytes, milliseconds) one of the table's is.
const UNITS: Need = [1 << 20, 1000, 1000, 1, 1 << 20, 1, 1 << 10];

/// Recommended limits, each with where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice([Option<Limit>; 7]);

impl Advice {
    /// The limit of this kind in the unit of the plan, if anything is known.
    pub fn get(&self, kind: LimitKind) -> Option<&Limit> {
        self.0[place(kind)].as_ref()
    }
}

/// Where a kind of limit is in the tables.
const fn place(kind: LimitKind) -> usize {
    match kind {
        LimitKind::Memory => 0,
        LimitKind::Cpu => 1,
        LimitKind::Wall => 2,
        LimitKind::Processes => 3,
        LimitKind::Disk => 4,
        LimitKind::Fds => 5,
        LimitKind::Output => 6,
    }
}

/// Limits for a program and its arguments by the table, and by `history` if there is one.
pub fn advise(argv: &[String], history: Option<&History>) -> Advice {
    let table = of_command(argv, DEPTH);
    let name = history.and_then(|history| Some((history, name(argv)?)));
    let learned = name.as_ref().and_then(|(history, name)| Some((name, history.of(name)?)));
    let because: Option<Arc<str>> = table.as_ref().map(|found| found.because.as_str().into());
    Advice(std::array::from_fn(|at| {
        let known = table.as_ref().map(|found| found.need[at]);
        let from_runs = learned.and_then(|(name, remembered)| from_runs(at, known, name, remembered));
        let (value, because) = match (from_runs, known, &because) {
            (Some(learned), ..) => learned,
            (None, Some(known), Some(because)) => (known, Origin::Estimate(because.clone())),
            _ => return None,
        };
        Some(Limit { value: in_plan(at, value), because })
    }))
}

/// The number that earlier runs suggest, where it is not the table's own.
fn from_runs(at: usize, known: Option<u64>, name: &str, remembered: &Remembered) -> Option<(u64, Origin)> {
    let peak = remembered.peaks.each()[at];
    if peak.most == 0 {
        return None;
    }
    let wanted = peak.faded().saturating_mul(HEAD_ROOM).div_ceil(UNITS[at]);
    // Of what is not measured, successful runs teach nothing.
    let measured = at != place(LimitKind::Disk) && at != place(LimitKind::Fds);
    let least = match known {
        Some(known) if remembered.succeeded < ENOUGH || !measured => known,
        Some(known) => known.div_ceil(LOWEST),
        None => 1,
    };
    let value = wanted.max(least).min(CEILING[at]);
    let half = if value > wanted { "; half of the estimate" } else { "" };
    let because = || Origin::Learned(format!("{}{half}", words(at, name, remembered.runs, peak)).into());
    (known != Some(value)).then(|| (value, because()))
}

/// As the plan counts: the table has seconds and KiB where that has milliseconds and bytes.
fn in_plan(at: usize, value: u64) -> u64 {
    if at == place(LimitKind::Wall) {
        value.saturating_mul(1000)
    } else if at == place(LimitKind::Output) {
        value.saturating_mul(1024)
    } else {
        value
    }
}

fn words(at: usize, name: &str, runs: u64, peak: &Peak) -> String {
    let unit = ["MB", "s", "s", "processes", "MB", "descriptors", "KiB"][at];
    let amount = match UNITS[at] {
        1 => peak.most.to_string(),
        each => {
            let tenths = peak.most.saturating_mul(10).div_ceil(each);
            match tenths % 10 {
                0 => (tenths / 10).to_string(),
                rest => format!("{}.{rest}", tenths / 10),
            }
        }
    };
    let runs = if runs == 1 { "1 earlier run".to_owned() } else { format!("{runs} earlier runs") };
    let ended = if peak.ended { ", where the limit ended it" } else { "" };
    format!("from {runs} of `{name}`, peak {amount} {unit}{ended}")
}
