//! What one command costs from nothing: `pinfold run -- /bin/true` beside bare fork+exec and bubblewrap, in turn, in one
//! run. Prints medians and ratios; judges nothing, for a machine under load would be judged too.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // a bench prints, and may stop

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 300;

/// Minimal binds: what `true` needs, and no more.
const BUBBLEWRAP: &[&str] = &[
    "bwrap",
    "--unshare-all",
    "--ro-bind",
    "/usr",
    "/usr",
    "--symlink",
    "usr/bin",
    "/bin",
    "--symlink",
    "usr/lib",
    "/lib",
    "--symlink",
    "usr/lib64",
    "/lib64",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
    "--",
    "/bin/true",
];

fn main() {
    let place = tempfile::tempdir().unwrap();
    let home = place.path().join("home");
    let workspace = place.path().join("workspace");
    std::fs::create_dir(&home).unwrap();
    std::fs::create_dir(&workspace).unwrap();
    let pinfold = env!("CARGO_BIN_EXE_pinfold");
    let mut contenders: Vec<(&str, Vec<&str>)> = vec![
        ("bare fork+exec", vec!["/bin/true"]),
        ("pinfold run", vec![pinfold, "run", "--", "/bin/true"]),
        ("pinfold explain (no wall)", vec![pinfold, "explain", "--", "/bin/true"]),
    ];
    if Command::new("bwrap").arg("--version").stdout(Stdio::null()).status().is_ok() {
        contenders.push(("bubblewrap", BUBBLEWRAP.to_vec()));
    } else {
        println!("bubblewrap: not installed, so no ratio against it");
    }
    let run = |words: &[&str]| -> Duration {
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &home)
            .current_dir(&workspace);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let started = Instant::now();
        assert!(command.status().unwrap().success(), "{words:?}");
        started.elapsed()
    };
    let mut times = vec![Vec::with_capacity(ROUNDS); contenders.len()];
    for round in 0..ROUNDS + 20 {
        for (at, (_, words)) in contenders.iter().enumerate() {
            let time = run(words);
            if round >= 20 {
                times[at].push(time);
            }
        }
    }
    let medians: Vec<Duration> = times
        .iter_mut()
        .map(|times| {
            times.sort();
            times[times.len() / 2]
        })
        .collect();
    let bubblewrap = contenders.iter().position(|(name, _)| *name == "bubblewrap").map(|at| medians[at]);
    println!("cold start of `true`, median of {ROUNDS}, in turn:");
    println!("{:<28} {:>9} {:>8} {:>13}", "", "ms", "x bare", "x bubblewrap");
    for ((name, _), median) in contenders.iter().zip(&medians) {
        let ratio = |over: Duration| median.as_secs_f64() / over.as_secs_f64();
        let against = bubblewrap.map_or("-".to_owned(), |over| format!("{:.2}", ratio(over)));
        println!("{name:<28} {:>9.2} {:>8.2} {against:>13}", median.as_secs_f64() * 1e3, ratio(medians[0]));
    }
}
