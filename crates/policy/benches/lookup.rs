//! What a lookup costs with ten thousand rules, against ten: a ratio near one means that a long policy slows nothing
//! down. Settling and planning are put beside parsing, which every run pays in any case.
//!
//! `cargo bench -p pinfold-policy` prints the table. Numbers of one run are compared with each other, so that the
//! machine cancels out.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // a report for a person, and nothing here may fail

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use pinfold_core::destination::{Destination, DestinationSet};
use pinfold_core::glob::{Glob, GlobSet};
use pinfold_core::host::Host;
use pinfold_core::path::AbsPath;
use pinfold_core::request::{Request, Surroundings};
use pinfold_policy::document::Base;
use pinfold_policy::layer::{Layer, LayerKind, Trust, settle};
use pinfold_policy::planner::{LimitsMode, plan};
use pinfold_policy::problem::Source;

const FEW: usize = 10;
const MANY: usize = 10_000;
const ROUNDS: usize = 31;

/// The middle of several rounds, each long enough for the clock, after one that only warms up.
fn cost<R>(mut work: impl FnMut() -> R) -> f64 {
    let mut times = 1u32;
    while elapsed(times, &mut work) < Duration::from_micros(500) {
        times *= 2;
    }
    let mut rounds: Vec<f64> =
        (0..ROUNDS).map(|_| elapsed(times, &mut work).as_secs_f64() * 1e9 / f64::from(times)).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn elapsed<R>(times: u32, work: &mut impl FnMut() -> R) -> Duration {
    let start = Instant::now();
    for _ in 0..times {
        black_box(work());
    }
    start.elapsed()
}

fn row(name: &str, few: f64, many: f64) {
    println!("{name:<34} {few:>12.0} {many:>12.0} {:>8.2}", many / few);
}

/// A list in which every kind of destination takes its turn.
fn destinations(count: usize) -> DestinationSet {
    let written = |i: usize| match i % 4 {
        0 => format!("host{i}.example.com"),
        1 => format!("*.zone{i}.example.org:443"),
        2 => format!("10.{}.{}.0/24", i / 256 % 256, i % 256),
        _ => format!("192.0.2.{}:{}", i % 256, 1000 + i),
    };
    (0..count).map(|i| Destination::parse(&written(i)).unwrap()).collect()
}

fn hosts() {
    let (few, many) = (destinations(FEW), destinations(MANY));
    // Found in both lists at the same place, so that the same question is asked of each.
    for (name, host, port, found) in [
        ("destination, exact", "host4.example.com", 443, true),
        ("destination, suffix", "a.b.zone5.example.org", 443, true),
        ("destination, network", "10.0.6.7", 80, true),
        ("destination, miss by name", "www.a.long.name.example.net", 443, false),
        ("destination, miss by address", "203.0.113.9", 443, false),
    ] {
        let host = Host::parse(host).unwrap();
        assert_eq!(
            (few.find(&host, port).is_some(), many.find(&host, port).is_some()),
            (found, found),
            "{name}"
        );
        row(name, cost(|| few.find(black_box(&host), port)), cost(|| many.find(black_box(&host), port)));
    }
}

/// A list in which every kind of pattern takes its turn.
fn globs(count: usize, kinds: &[fn(usize) -> String]) -> GlobSet {
    let list: Vec<Glob> = (0..count).map(|i| Glob::parse(&kinds[i % kinds.len()](i)).unwrap()).collect();
    GlobSet::new(&list).unwrap()
}

fn paths() {
    let plain: &[fn(usize) -> String] =
        &[|i| format!("**/name{i}"), |i| format!("**/*.ext{i}"), |i| format!("src/dir{i}/file.txt")];
    let (few, many) = (globs(FEW, plain), globs(MANY, plain));
    for (name, path, found) in [
        ("glob, base name", "a/b/name3", true),
        ("glob, extension", "a/b/c.ext4", true),
        ("glob, literal path", "src/dir5/file.txt", true),
        ("glob, miss", "a/b/c/d/other.txt", false),
    ] {
        let path = Path::new(path);
        assert_eq!((few.matches(path).is_some(), many.matches(path).is_some()), (found, found), "{name}");
        row(name, cost(|| few.matches(black_box(path))), cost(|| many.matches(black_box(path))));
    }
    let wild: &[fn(usize) -> String] = &[|i| format!("**/a{i}*/b?/**"), |i| format!("pre{i}*/x")];
    let (few, many) = (globs(FEW, wild), globs(MANY, wild));
    for (name, path, found) in [
        ("glob, wildcards inside", "x/a4y/bz/c", true),
        ("glob, wildcards inside, miss", "a/b/c/d/other.txt", false),
    ] {
        let path = Path::new(path);
        assert_eq!((few.matches(path).is_some(), many.matches(path).is_some()), (found, found), "{name}");
        row(name, cost(|| few.matches(black_box(path))), cost(|| many.matches(black_box(path))));
    }
}

fn policy(rules: usize) -> String {
    let quarter = rules.div_ceil(4);
    let list = |item: &dyn Fn(usize) -> String| (0..quarter).map(item).collect::<Vec<_>>().join("\n");
    format!(
        "version: 1\nfs:\n  deny:\n{}\nnet:\n  enabled: true\n  allowlist:\n{}\n  blocklist:\n{}\ntools:\n  deny:\n{}\n",
        list(&|i| format!("    - secret{i}/**")),
        list(&|i| format!("    - host{i}.example.com")),
        list(&|i| format!("    - 10.{}.{}.0/24", i / 256, i % 256)),
        list(&|i| format!("    - tool{i}")),
    )
}

fn load(text: &str) -> Vec<Layer> {
    let directory = AbsPath::new("/home/me/project").unwrap();
    let base = Base { directory: &directory, home: None };
    let source = Source::new("policy.yaml", text);
    Layer::load(LayerKind::File, Trust::Full, source, base, &|_| Err(String::new())).unwrap()
}

fn whole() {
    println!("\n{:<34} {:>12} {:>12} {:>8}", "one policy, µs", "10 rules", "10,000", "of parse");
    let request = Request {
        command: vec!["cargo".into(), "build".into()],
        workspace: AbsPath::new("/home/me/project").unwrap(),
        directory: AbsPath::new("/home/me/project").unwrap(),
        terminal: false,
        surroundings: Surroundings::default(),
    };
    let texts = [policy(FEW), policy(MANY)];
    let parse = texts.each_ref().map(|text| cost(|| load(text)) / 1000.0);
    let layers = texts.each_ref().map(|text| load(text));
    let settling = layers.each_ref().map(|layers| cost(|| settle(layers)) / 1000.0);
    let settled = layers.each_ref().map(|layers| settle(layers).unwrap());
    let planning =
        settled.each_ref().map(|settled| cost(|| plan(&request, settled, LimitsMode::Auto)) / 1000.0);
    for (name, [few, many]) in [("parse", parse), ("settle", settling), ("plan", planning)] {
        println!("{name:<34} {few:>12.1} {many:>12.1} {:>8.2}", many / parse[1]);
    }
}

fn main() {
    println!("{:<34} {:>12} {:>12} {:>8}", "one lookup, ns", "10 rules", "10,000", "ratio");
    hosts();
    paths();
    whole();
}
