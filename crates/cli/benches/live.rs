//! What live sandboxes cost, beside bare fork+exec and bubblewrap, in one run. Prints medians and ratios; judges nothing,
//! for a machine under load would be judged too.
//!
//! `cargo bench -p pinfold-cli --bench live -- exec pool rate crowd work` runs those parts; without names, all of them.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // a bench prints, and may stop

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use pinfold_engine::asked::Asked;
use pinfold_engine::live::{Command, SandboxRunner};

/// Minimal binds: what `true` needs, and no more.
const BUBBLEWRAP: &str = "--unshare-all --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib \
     --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp -- /bin/true";

type Part = fn(&Bench);

struct Bench {
    runner: SandboxRunner,
    asked: Asked,
    place: tempfile::TempDir,
}

fn main() {
    let place = tempfile::tempdir().unwrap();
    for directory in ["home", "workspace"] {
        std::fs::create_dir(place.path().join(directory)).unwrap();
    }
    let runner = runner(&place.path().join("home"));
    let asked = Asked::new(place.path().join("workspace")).set("proc.maxProcesses", 64);
    let bench = Bench { runner, asked, place };
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let parts: [(&str, Part); 5] =
        [("exec", exec), ("pool", pool), ("rate", rate), ("crowd", crowd), ("work", work)];
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            part(&bench);
        }
    }
}

fn runner(home: &Path) -> SandboxRunner {
    // The spawner has its own home, so that nothing of the caller's is read or written.
    let program = home.join("pinfold");
    let script =
        format!("#!/bin/sh\nHOME={0} exec {1} \"$@\"\n", home.display(), env!("CARGO_BIN_EXE_pinfold"));
    std::fs::write(&program, script).unwrap();
    std::process::Command::new("chmod").args(["+x".as_ref(), program.as_os_str()]).status().unwrap();
    SandboxRunner::start_with(&program).unwrap()
}

fn bare() -> Duration {
    let mut command = std::process::Command::new("/bin/true");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    time(|| assert!(command.status().unwrap().success()))
}

fn time(mut run: impl FnMut()) -> Duration {
    let started = Instant::now();
    run();
    started.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn line(what: &str, time: Duration, against: Duration) {
    let ratio = time.as_secs_f64() / against.as_secs_f64();
    println!("{what:<44} {:>9.3} ms {ratio:>6.2}x", time.as_secs_f64() * 1e3);
}

/// `true` in a sandbox that is there already.
fn exec(bench: &Bench) {
    const ROUNDS: usize = 500;
    let sandbox = bench.runner.blueprint(&bench.asked).unwrap().boot().unwrap();
    let command = Command::new("/bin/true");
    let (mut outside, mut inside) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        outside.push(bare());
        inside.push(time(|| drop(sandbox.exec(&command).unwrap().output().unwrap())));
    }
    let floor = median(outside);
    println!("\nexec of `true` in a live sandbox, median of {ROUNDS}, in turn:");
    line("bare fork+exec", floor, floor);
    line("exec in a live sandbox", median(inside), floor);
}

/// A fresh sandbox that was made ahead of time, one command, its end.
fn pool(bench: &Bench) {
    const ROUNDS: usize = 200;
    let pool = bench.runner.blueprint(&bench.asked).unwrap().pool(4).unwrap();
    let command = Command::new("/bin/true");
    let (mut outside, mut inside) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        outside.push(bare());
        let mut sandbox = None;
        inside.push(time(|| {
            let taken = sandbox.insert(pool.take().unwrap());
            drop(taken.exec(&command).unwrap().output().unwrap());
        }));
        drop(sandbox.map(|sandbox| sandbox.end().unwrap()));
    }
    let floor = median(outside);
    println!("\na fresh sandbox of a pool with one exec of `true`, median of {ROUNDS}, in turn:");
    line("bare fork+exec", floor, floor);
    line("exec in a sandbox of the pool", median(inside), floor);
}

/// Made, used once, ended: as many as two cores can.
fn rate(bench: &Bench) {
    const EACH: u32 = 300;
    let per_second = |run: &(dyn Fn() + Sync)| {
        let time = time(|| {
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| (0..EACH).for_each(|_| run()));
                }
            });
        });
        f64::from(2 * EACH) / time.as_secs_f64()
    };
    let blueprint = bench.runner.blueprint(&bench.asked).unwrap();
    let command = Command::new("/bin/true");
    let ours = per_second(&|| {
        let sandbox = blueprint.order().unwrap();
        sandbox.exec(&command).unwrap().output().unwrap();
        sandbox.end().unwrap();
    });
    println!("\ncreate, run `true`, end; two at once, {} in all:", 2 * EACH);
    println!("{:<44} {:>9.0} /s", "bare fork+exec", per_second(&|| assert!(!bare().is_zero())));
    println!("{:<44} {ours:>9.0} /s", "pinfold");
    if !is_installed("bwrap") {
        return println!("bubblewrap: not installed, so no ratio against it");
    }
    let theirs = per_second(&|| {
        let mut command = std::process::Command::new("bwrap");
        command.args(BUBBLEWRAP.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::null());
        assert!(command.status().unwrap().success());
    });
    println!("{:<44} {theirs:>9.0} /s {:>6.2}x as many here", "bubblewrap", ours / theirs);
}

/// Many that live at once: what one more costs, and what one takes that does nothing.
fn crowd(bench: &Bench) {
    const CROWD: usize = 1000;
    const SAMPLE: usize = 20;
    let blueprint = bench.runner.blueprint(&bench.asked).unwrap();
    let mut alive = Vec::with_capacity(CROWD);
    let mut times = Vec::with_capacity(CROWD);
    for _ in 0..CROWD {
        times.push(time(|| alive.push(blueprint.boot().unwrap())));
    }
    let (first, last) = (median(times[..SAMPLE].to_vec()), median(times[CROWD - SAMPLE..].to_vec()));
    println!("\n{CROWD} sandboxes alive at once:");
    line("making one of the first", first, first);
    line("making one of the last", last, first);
    let (kilobytes, processes) = pss();
    println!(
        "{:<44} {:>9} kB PSS in {:.1} processes each, nothing running in it",
        "an idle sandbox",
        kilobytes / CROWD as u64,
        processes as f64 / CROWD as f64
    );
}

/// The memory of every process below the spawner, shared pages by share, in kB, and their number.
fn pss() -> (u64, usize) {
    let own = std::process::id();
    let mut sum = (0, 0);
    let mut parents = vec![own];
    let all: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    while let Some(parent) = parents.pop() {
        for (pid, _) in all.iter().filter(|(_, above)| *above == parent) {
            parents.push(*pid);
            // The spawner is one for all of them.
            if parent == own {
                continue;
            }
            let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
            let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
            let pss = pss.and_then(|pss| pss.split_whitespace().next()?.parse::<u64>().ok());
            sum = (sum.0 + pss.unwrap_or(0), sum.1 + 1);
        }
    }
    sum
}

/// What runs inside is not slower for it.
fn work(bench: &Bench) {
    const ROUNDS: usize = 9;
    let workspace = bench.place.path().join("workspace");
    let shell = |script: &str| {
        let status = std::process::Command::new("sh").args(["-c", script]).current_dir(&workspace).status();
        assert!(status.unwrap().success(), "{script}");
    };
    shell(
        "mkdir tree && cd tree && git init -q && for d in $(seq 200); do mkdir d$d; for f in $(seq 100); do \
         echo $d$f > d$d/f$f; done; done && git add -A && git -c user.name=a -c user.email=a@b commit -qm x",
    );
    let mut source = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    (0..600).for_each(|n| {
        source.push_str(&format!("int f{n}(int a) {{ return a * {n} + (int) strlen(\"x\"); }}\n"));
    });
    source.push_str("int main(void) { return f1(0) == 0; }\n");
    std::fs::write(workspace.join("work.c"), source).unwrap();
    let asked = bench.asked.clone().profile("build");
    let sandbox = bench.runner.blueprint(&asked).unwrap().boot().unwrap();
    println!("\nwork inside, median of {ROUNDS}, in turn with the same outside:");
    let jobs = [
        ("compiling C", "gcc -O1 -o work work.c"),
        ("git status, 20,000 files", "cd tree && git status --porcelain >/dev/null"),
        ("starting python", "/usr/bin/python3 -c 'import json'"),
        (
            "1 GB through a pipe",
            "dd if=/dev/zero bs=1M count=1024 2>/dev/null | dd of=/dev/null bs=1M 2>/dev/null",
        ),
    ];
    for (what, script) in jobs {
        let command = Command::new("sh").args(["-c", script]);
        let (mut outside, mut inside) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let both = (
                time(|| shell(script)),
                time(|| {
                    let outcome = sandbox.exec(&command).unwrap().output().unwrap();
                    assert_eq!(outcome.exit_status(), 0, "{what}: {outcome:?}");
                }),
            );
            if round > 0 {
                outside.push(both.0);
                inside.push(both.1);
            }
        }
        line(what, median(inside), median(outside));
    }
}

fn is_installed(program: &str) -> bool {
    std::process::Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok()
}
