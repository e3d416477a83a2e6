//! What runs teach, and what that does to the numbers.

use pinfold_core::id::SandboxId;
use pinfold_core::outcome::{Exit, Outcome, Said, Usage, Warning};
use pinfold_core::plan::{BackendName, Limits, OnOutputLimit};
use proptest::prelude::*;

use super::super::history::{COMMANDS, Observation};
use super::*;

/// The kinds that are measured, in the order of the tables.
const MEASURED: [LimitKind; 5] =
    [LimitKind::Memory, LimitKind::Cpu, LimitKind::Wall, LimitKind::Processes, LimitKind::Output];
const ALL: [LimitKind; 7] = [
    LimitKind::Memory,
    LimitKind::Cpu,
    LimitKind::Wall,
    LimitKind::Processes,
    LimitKind::Disk,
    LimitKind::Fds,
    LimitKind::Output,
];
const MB: u64 = 1 << 20;

fn argv(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn limits(memory_mb: u64) -> Limits {
    let limit = |value| Limit { value, because: Origin::Rule("a test") };
    Limits {
        max_cpu_seconds: limit(CEILING[1]),
        cpus: None,
        max_memory_mb: limit(memory_mb),
        max_disk_mb: limit(512),
        timeout_ms: limit(CEILING[2] * 1000),
        max_processes: limit(CEILING[3]),
        max_file_descriptors: limit(256),
        max_output_bytes: limit(CEILING[6] * 1024),
        on_output_limit: OnOutputLimit::Kill,
    }
}

fn outcome(usage: Usage) -> Outcome {
    Outcome {
        id: SandboxId::from_random([7; 8]),
        backend: BackendName::Namespace,
        exit: Exit::Code(0),
        stdout: Said::default(),
        stderr: Said::default(),
        timed_out: false,
        limit: None,
        usage,
        violations: Vec::new(),
        warnings: Vec::new(),
        receipt: Vec::new(),
    }
}

/// A run that used so much memory and nothing else worth mention.
fn memory(mb: u64) -> Outcome {
    outcome(Usage { peak_memory_bytes: mb * MB, ..Usage::default() })
}

fn ended(kind: LimitKind) -> Outcome {
    Outcome { limit: Some(kind), exit: Exit::Signal(9), ..memory(1) }
}

fn failed(mb: u64) -> Outcome {
    Outcome { exit: Exit::Code(1), ..memory(mb) }
}

fn learned(command: &str, runs: &[Outcome]) -> History {
    let mut history = History::default();
    for run in runs {
        history.learn(command, &Observation::new(&limits(8192), run));
    }
    history
}

fn value(line: &str, history: &History, kind: LimitKind) -> u64 {
    advise(&argv(line), Some(history)).get(kind).map_or(0, |limit| limit.value)
}

fn memory_of(line: &str, history: &History) -> u64 {
    value(line, history, LimitKind::Memory)
}

fn because(line: &str, history: &History, kind: LimitKind) -> String {
    advise(&argv(line), Some(history)).get(kind).map(|limit| limit.because.to_string()).unwrap_or_default()
}

#[test]
fn without_a_history_the_table_speaks() {
    let table = advise(&argv("cargo build"), None);
    assert_eq!(table, advise(&argv("cargo build"), Some(&History::default())));
    assert_eq!(table.get(LimitKind::Memory).unwrap().value, 1024);
    assert_eq!(table.get(LimitKind::Wall).unwrap().value, 300_000);
    assert_eq!(table.get(LimitKind::Output).unwrap().value, 1 << 20);
    assert_eq!(table.get(LimitKind::Fds).unwrap().because.to_string(), "estimate for `cargo build`");
    assert!(ALL.iter().all(|kind| advise(&argv("crunch"), None).get(*kind).is_none()));
}

#[test]
fn one_big_run_raises_the_number_and_says_so() {
    let history = learned("cargo build", &[memory(900)]);
    assert_eq!(memory_of("env A=b cargo build -p x", &history), 1800);
    let why = because("cargo build", &history, LimitKind::Memory);
    assert_eq!(why, "from 1 earlier run of `cargo build`, peak 900 MB");
    assert_eq!(because("cargo build", &history, LimitKind::Fds), "estimate for `cargo build`");
    assert_eq!(memory_of("cargo check", &history), 1024, "another command");
    let unknown = learned("crunch", &[memory(300), failed(200)]);
    assert_eq!(memory_of("./crunch --all", &unknown), 600);
    assert_eq!(
        because("crunch", &unknown, LimitKind::Memory),
        "from 2 earlier runs of `crunch`, peak 300 MB"
    );
}

#[test]
fn what_a_limit_ended_gets_twice_that_limit() {
    let mut history = History::default();
    let mut at = 256;
    for _ in 0..5 {
        history.learn("crunch", &Observation::new(&limits(at), &ended(LimitKind::Memory)));
        let next = memory_of("crunch", &history);
        assert_eq!(next, at * 2);
        at = next;
    }
    history.learn("crunch", &Observation::new(&limits(at), &ended(LimitKind::Memory)));
    assert_eq!(memory_of("crunch", &history), CEILING[0], "no further than the ceiling");
    assert!(because("crunch", &history, LimitKind::Memory).ends_with("where the limit ended it"));
    for (kind, expected) in [(LimitKind::Disk, 1024), (LimitKind::Fds, 512)] {
        assert_eq!(value("crunch", &learned("crunch", &[ended(kind)]), kind), expected, "{kind:?}");
    }
}

#[test]
fn a_few_small_runs_starve_nothing() {
    let big = 500;
    let mut history = learned("crunch", &[memory(big)]);
    for _ in 0..10 {
        history.learn("crunch", &Observation::new(&limits(8192), &memory(10)));
        assert!(memory_of("crunch", &history) >= big);
    }
    for _ in 0..100 {
        history.learn("crunch", &Observation::new(&limits(8192), &memory(10)));
    }
    assert!(memory_of("crunch", &history) <= 22, "it fades in the end");

    let mut few = learned("npm test", &vec![memory(10); ENOUGH as usize - 1]);
    assert_eq!(memory_of("npm test", &few), 2048, "too few runs to lower anything");
    few.learn("npm test", &Observation::new(&limits(8192), &memory(10)));
    assert_eq!(memory_of("npm test", &few), 1024, "never below half of the table's");
    few.learn("npm test", &Observation::new(&limits(1024), &ended(LimitKind::Memory)));
    assert_eq!(memory_of("npm test", &few), 2048, "and back with one run that was ended");
}

#[test]
fn what_failed_only_raises() {
    let mut history = learned("npm test", &vec![failed(10); 50]);
    assert_eq!(memory_of("npm test", &history), 2048);
    history.learn("npm test", &Observation::new(&limits(8192), &failed(1500)));
    assert_eq!(memory_of("npm test", &history), 3000);
    for _ in 0..50 {
        history.learn("npm test", &Observation::new(&limits(8192), &failed(10)));
    }
    assert_eq!(memory_of("npm test", &history), 3000);
    let mut disk = learned("npm test", &vec![memory(10); 50]);
    disk.learn("npm test", &Observation::new(&limits(8192), &ended(LimitKind::Disk)));
    assert_eq!(value("npm test", &disk, LimitKind::Disk), 4096, "what is not measured is not lowered");
}

#[test]
fn page_cache_up_to_the_limit_is_no_need() {
    let full = memory(256);
    let mut history = History::default();
    history.learn("crunch", &Observation::new(&limits(256), &full));
    assert_eq!(memory_of("crunch", &history), 256, "it was enough");
    let warning = Warning { limit_type: LimitKind::Memory, current: 250 * MB, max: 256 * MB };
    history.learn("crunch", &Observation::new(&limits(256), &Outcome { warnings: vec![warning], ..full }));
    assert_eq!(memory_of("crunch", &history), 512);
}

#[test]
fn the_number_of_commands_is_bounded_and_the_oldest_goes() {
    let mut history = History::default();
    for at in 0..COMMANDS + 10 {
        history.learn("kept", &Observation::new(&limits(8192), &memory(1)));
        history.learn(&format!("c{at}"), &Observation::new(&limits(8192), &memory(1)));
    }
    assert_eq!(history.len(), COMMANDS);
    assert_eq!((history.runs("c0"), history.runs("kept")), (0, COMMANDS as u64 + 10));
    let text = history.to_json().unwrap();
    assert!(text.len() < COMMANDS * 400 && text.lines().count() == COMMANDS + 2);
    assert_eq!(History::from_json(text.as_bytes()).unwrap(), history);
}

#[test]
fn a_damaged_history_is_told() {
    let good = learned("npm test", &[memory(5), ended(LimitKind::Cpu), failed(9)]).to_json().unwrap();
    assert!(History::from_json(good.as_bytes()).is_ok());
    assert!(History::from_json(History::default().to_json().unwrap().as_bytes()).is_ok());
    for end in 0..good.trim_end().len() {
        assert!(History::from_json(&good.as_bytes()[..end]).is_err(), "cut at {end}");
    }
    for (from, to) in [
        ("\"version\":1", "\"version\":2"),
        ("npm test", "npm\\u0000test"),
        ("npm test", ""),
        ("\"runs\":3", "\"runs\":1"),
        ("\"runs\":3", "\"runs\":-3"),
        ("\"runs\":3", "\"runs\":3,\"more\":1"),
        ("memory_bytes", "memory"),
    ] {
        assert!(good.contains(from), "{good}");
        assert!(History::from_json(good.replace(from, to).as_bytes()).is_err(), "{from} to {to}");
    }
    let line = good.lines().nth(1).unwrap();
    assert!(History::from_json(good.replace(line, &format!("{line},{line}")).as_bytes()).is_err());
}

fn usages() -> impl Strategy<Value = Usage> {
    let up_to = |ceiling: u64| prop_oneof![0..=ceiling * 2, Just(u64::MAX)];
    (up_to(8192 * MB), up_to(3_600_000), up_to(3_600_000), up_to(4096), up_to(16 << 20)).prop_map(
        |(peak_memory_bytes, cpu_ms, wall_ms, peak_processes, output_bytes)| Usage {
            peak_memory_bytes,
            cpu_ms,
            wall_ms,
            peak_processes,
            output_bytes,
            ..Usage::default()
        },
    )
}

fn runs() -> impl Strategy<Value = Outcome> {
    let ends = prop_oneof![
        6 => Just((None, Exit::Code(0))),
        2 => Just((None, Exit::Code(1))),
        2 => proptest::sample::select(ALL.to_vec()).prop_map(|kind| (Some(kind), Exit::Signal(9))),
    ];
    (usages(), ends).prop_map(|(usage, (limit, exit))| Outcome { limit, exit, ..outcome(usage) })
}

fn lines() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec!["npm test", "cargo build", "ls", "crunch", "python3 x.py"])
}

fn taught(line: &str, runs: &[(u64, Outcome)]) -> History {
    let (mut history, name) = (History::default(), name(&argv(line)).unwrap());
    for (memory_mb, run) in runs {
        history.learn(&name, &Observation::new(&limits(*memory_mb), run));
    }
    history
}

proptest! {
    /// Whatever happened, no number is beyond the ceiling or below half of the table's.
    #[test]
    fn advice_is_within_bounds(line in lines(), runs in prop::collection::vec((1..=1_u64 << 40, runs()), 0..40)) {
        let history = taught(line, &runs);
        let (table, advice) = (advise(&argv(line), None), advise(&argv(line), Some(&history)));
        for (at, kind) in ALL.into_iter().enumerate() {
            let known = table.get(kind).map_or(0, |limit| limit.value);
            let Some(advised) = advice.get(kind) else {
                prop_assert_eq!(known, 0);
                continue;
            };
            prop_assert!(advised.value >= 1 && advised.value >= known / LOWEST);
            prop_assert!(advised.value <= in_plan(at, CEILING[at]));
        }
    }

    /// Had one run used more, no number would be lower.
    #[test]
    fn more_used_is_never_less_advised(
        line in lines(),
        runs in prop::collection::vec((1..=8192_u64, runs()), 1..20),
        at in any::<prop::sample::Index>(),
        usage in usages(),
    ) {
        let at = at.index(runs.len());
        let mut more = runs.clone();
        let before = runs[at].1.usage;
        let usage = Usage {
            // Memory near its limit is told from page cache by a warning, which is not made here.
            peak_memory_bytes: before.peak_memory_bytes,
            cpu_ms: usage.cpu_ms.max(before.cpu_ms),
            wall_ms: usage.wall_ms.max(before.wall_ms),
            peak_processes: usage.peak_processes.max(before.peak_processes),
            output_bytes: usage.output_bytes.max(before.output_bytes),
            ..before
        };
        more[at].1.usage = usage;
        let (less, more) = (taught(line, &runs), taught(line, &more));
        for kind in MEASURED {
            prop_assert!(value(line, &more, kind) >= value(line, &less, kind), "{:?}", kind);
        }
    }

    /// After a run that a limit ended, the next has twice that limit, or the ceiling.
    #[test]
    fn a_run_that_was_ended_raises(
        line in lines(),
        runs in prop::collection::vec((1..=8192_u64, runs()), 0..20),
        memory_mb in 1..=8192_u64,
    ) {
        let mut history = taught(line, &runs);
        let before = memory_of(line, &history);
        history.learn(&name(&argv(line)).unwrap(), &Observation::new(&limits(memory_mb), &ended(LimitKind::Memory)));
        let after = memory_of(line, &history);
        prop_assert!(after >= (memory_mb * HEAD_ROOM).min(CEILING[0]) && after >= before);
    }

    /// A run that failed, or that a limit ended, lowers nothing.
    #[test]
    fn only_success_lowers(
        line in lines(),
        runs in prop::collection::vec((1..=8192_u64, runs()), 0..20),
        run in runs(),
    ) {
        prop_assume!(run.exit != Exit::Code(0));
        let mut history = taught(line, &runs);
        let before = ALL.map(|kind| value(line, &history, kind));
        history.learn(&name(&argv(line)).unwrap(), &Observation::new(&limits(8192), &run));
        for (kind, before) in ALL.into_iter().zip(before) {
            prop_assert!(value(line, &history, kind) >= before, "{:?}", kind);
        }
    }

    /// What is written is read back the same, and a byte that is lost is noticed or makes no difference to the bounds.
    #[test]
    fn written_is_read(runs in prop::collection::vec((1..=8192_u64, runs()), 0..20), at in any::<prop::sample::Index>()) {
        let history = taught("npm test", &runs);
        let text = history.to_json().unwrap();
        prop_assert_eq!(&History::from_json(text.as_bytes()).unwrap(), &history);
        let mut damaged = text.into_bytes();
        damaged.remove(at.index(damaged.len()));
        if let Ok(read) = History::from_json(&damaged) {
            prop_assert!(memory_of("npm test", &read) <= CEILING[0]);
        }
    }
}
