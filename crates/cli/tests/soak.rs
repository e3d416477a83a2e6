//! Sandboxes made, used and ended in great number, fifty at once: afterwards everything is as it was before.
#![allow(clippy::unwrap_used)]

mod place;

#[path = "live/harness.rs"]
#[allow(dead_code)] // each test program uses its part of it
mod harness;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::{Host, children, processes, sh, text, until};
use pinfold_core::outcome::Exit;

/// How many live at the same time.
const AT_ONCE: usize = 50;

/// What must be the same before and after.
#[derive(Debug, PartialEq)]
struct Seen {
    mounts: Vec<String>,
    /// Of every process on the host that is the spawner, or was started by it.
    processes: usize,
    spawner_descriptors: usize,
    own_descriptors: usize,
    files: BTreeSet<PathBuf>,
}

impl Seen {
    fn now(host: &Host) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let ours =
            |line: &&str| line.contains("pinfold") || line.contains(&*host.place.path("").to_string_lossy());
        let descriptors = |pid: &str| fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        Self {
            mounts: mounts.lines().filter(ours).map(str::to_owned).collect(),
            processes: processes(&host.place.path("spawner").display().to_string()).len(),
            spawner_descriptors: descriptors(&host.spawner().to_string()),
            own_descriptors: descriptors("self"),
            files: ["project", "state", "run", "home", "config"]
                .iter()
                .flat_map(|name| below(&host.place.path(name)))
                .collect(),
        }
    }
}

fn below(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(below(&entry.path()));
        }
        found.insert(entry.path());
    }
    found
}

/// Control groups that are named after one of `ids`.
fn groups(directory: &Path, ids: &BTreeSet<String>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("pinfold-") && ids.iter().any(|id| name.contains(id)) {
                found.push(entry.path());
            }
            found.extend(groups(&entry.path(), ids));
        }
    }
    found
}

/// Namespaces that any process is in, which is not in those of this one, below the spawner.
fn namespaces(spawner: i32) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut pids = vec![spawner];
    while let Some(pid) = pids.pop() {
        pids.extend(children(pid));
        for kind in ["mnt", "pid_for_children", "net", "user", "ipc", "uts", "cgroup"] {
            found.extend(fs::read_link(format!("/proc/{pid}/ns/{kind}")));
        }
    }
    found
}

/// Memory of a process that is its own, in kilobytes.
fn resident(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Makes, uses and ends `cycles` of them. Every fourth is dropped instead of ended, and every tenth is dropped with
/// something running.
fn cycle(host: &Host, cycles: usize) -> BTreeSet<String> {
    let blueprint = host.runner.blueprint(&host.asked()).unwrap();
    let (next, ids) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(cycles) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= cycles {
                        return;
                    }
                    let sandbox = blueprint.boot().unwrap();
                    ids.lock().unwrap().insert(sandbox.id().to_string());
                    let outcome = sandbox.exec(&sh(format!("echo {number}"))).unwrap().output().unwrap();
                    assert_eq!((outcome.exit, text(&outcome)), (Exit::Code(0), format!("{number}\n")));
                    match number {
                        _ if number % 10 == 0 => drop(sandbox.exec(&sh("sleep 1000 & sleep 1000")).unwrap()),
                        _ if number % 4 == 0 => drop(sandbox),
                        _ => drop(sandbox.end().unwrap()),
                    }
                }
            });
        }
    });
    drop(blueprint);
    // Those that were dropped end without anybody waiting for it.
    until("all holders are gone", || children(host.spawner()).is_empty());
    ids.into_inner().unwrap()
}

fn leaves_no_difference(cycles: usize) {
    let host = Host::new();
    fs::create_dir_all(host.place.path("project/.git/hooks")).unwrap();
    host.place.write("project/.git/config", "[core]\n");
    host.place.write("project/file", "text");
    // What is made once, such as the record, is there after the first few; so is the allocator's reserve.
    cycle(&host, 2 * AT_ONCE);
    let spawner = host.spawner();
    let (before, spaces, memory) = (Seen::now(&host), namespaces(spawner), resident(spawner));
    let ids = cycle(&host, cycles);
    assert_eq!(ids.len(), cycles);
    assert_eq!(Seen::now(&host), before);
    assert_eq!(namespaces(spawner), spaces);
    assert_eq!(groups(Path::new("/sys/fs/cgroup"), &ids), Vec::<PathBuf>::new());
    let grown = resident(spawner).saturating_sub(memory);
    assert!(grown <= 64, "the spawner grew by {grown} kB in {cycles} cycles");
    assert_eq!(host.place.read("project/file"), "text");
    assert_eq!(host.place.read("project/.git/config"), "[core]\n");
    let spawner = host.place.path("spawner").display().to_string();
    let Host { runner, place } = host;
    drop(runner);
    until("the spawner is gone", || processes(&spawner).is_empty());
    drop(place);
}

#[test]
fn two_hundred_cycles_leave_no_difference() {
    leaves_no_difference(200);
}

#[test]
#[ignore = "takes minutes: `./test --full` runs it, with as many cycles as PINFOLD_SOAK_CYCLES says"]
fn ten_thousand_cycles_leave_no_difference() {
    let cycles = std::env::var("PINFOLD_SOAK_CYCLES").ok().and_then(|number| number.parse().ok());
    leaves_no_difference(cycles.unwrap_or(10_000));
}
