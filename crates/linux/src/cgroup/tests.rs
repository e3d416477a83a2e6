//! Finding places, and what version 2 is told, against a fake tree: plain directories with the files that the kernel
//! would make. Real version 1 groups are tried in `tests/limits`.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use pinfold_core::origin::Origin;
use pinfold_core::plan::{Limit, Limits, OnOutputLimit};
use tempfile::TempDir;

use super::files::Directory;
use super::*;

fn limits(cpus: Option<f64>) -> Limits {
    let because = || Origin::Rule("a test");
    let limit = |value| Limit { value, because: because() };
    Limits {
        max_cpu_seconds: limit(2),
        cpus: cpus.map(|value| Limit { value, because: because() }),
        max_memory_mb: limit(64),
        max_disk_mb: limit(1),
        timeout_ms: limit(1000),
        max_processes: limit(10),
        max_file_descriptors: limit(10),
        max_output_bytes: limit(10),
        on_output_limit: OnOutputLimit::Kill,
    }
}

/// A line of mountinfo.
fn mount(root: &str, at: &Path, kind: &str, options: &str) -> String {
    format!("31 23 0:28 {root} {} rw,relatime shared:9 - {kind} {kind} {options}\n", at.display())
}

/// A fake group with `files`.
fn directory(path: &Path, files: &[(&str, &str)]) -> Directory {
    fs::create_dir_all(path).unwrap();
    for (name, text) in files {
        fs::write(path.join(name), text).unwrap();
    }
    Directory::new(path.to_owned(), fs::File::open(path).unwrap().into())
}

#[test]
fn fake_v2_takes_the_nearest_group_that_hands_memory_down() {
    let tree = TempDir::new().unwrap();
    let handed = [("cgroup.subtree_control", "cpuset cpu memory pids\n"), ("cgroup.procs", "")];
    directory(tree.path(), &handed);
    directory(&tree.path().join("user.slice"), &handed);
    directory(
        &tree.path().join("user.slice/app"),
        &[("cgroup.subtree_control", "\n"), ("cgroup.procs", "1\n")],
    );
    let mounts = mount("/", tree.path(), "cgroup2", "rw,nsdelegate");
    let places = Places::find("0::/user.slice/app\n", &mounts);
    assert_eq!(places.version, Version::V2);
    assert_eq!(places.hierarchies[0].parent, tree.path().join("user.slice"));
    for controller in [Controller::Memory, Controller::Pids, Controller::Cpu, Controller::Cpuacct] {
        assert!(places.has(controller), "{controller:?}");
    }
    directory(&tree.path().join("user.slice"), &[("cgroup.subtree_control", "memory pids\n")]);
    let places = Places::find("0::/user.slice/app\n", &mounts);
    assert!(places.has(Controller::Cpuacct) && !places.has(Controller::Cpu), "every group counts CPU time");
}

#[test]
fn fake_v2_that_hands_nothing_down_or_is_not_shown_is_no_place() {
    let tree = TempDir::new().unwrap();
    directory(tree.path(), &[("cgroup.subtree_control", "cpu\n"), ("cgroup.procs", "")]);
    for (own, root) in [("0::/\n", "/"), ("0::/../outside\n", "/"), ("0::/elsewhere\n", "/below")] {
        let places = Places::find(own, &mount(root, tree.path(), "cgroup2", "rw"));
        assert!(places.hierarchies.is_empty() && !places.why_not().is_empty(), "{places:?}");
    }
    assert!(Places::find("", "").hierarchies.is_empty());
}

#[test]
fn fake_v1_is_found_below_the_own_group_with_joint_hierarchies_once() {
    let tree = TempDir::new().unwrap();
    let (memory, cpu) = (tree.path().join("memory"), tree.path().join("cpu,cpuacct"));
    fs::create_dir_all(memory.join("mine")).unwrap();
    fs::create_dir_all(&cpu).unwrap();
    let mounts = mount("/", &memory, "cgroup", "rw,memory")
        + &mount("/box", &cpu, "cgroup", "rw,cpu,cpuacct")
        + &mount("/", tree.path(), "tmpfs", "rw,pids");
    let places = Places::find("4:memory:/mine\n2:cpu,cpuacct:/box\n1:pids:/\n0::/\n", &mounts);
    assert_eq!(places.version, Version::V1);
    let parents: Vec<&PathBuf> = places.hierarchies.iter().map(|hierarchy| &hierarchy.parent).collect();
    assert_eq!(parents, [&memory.join("mine"), &cpu]);
    assert!(places.has(Controller::Cpu) && places.has(Controller::Cpuacct) && !places.has(Controller::Pids));
}

#[test]
fn fake_v2_group_is_limited_and_read() {
    let tree = TempDir::new().unwrap();
    let files = [
        ("memory.max", "max\n"),
        ("memory.swap.max", "max\n"),
        ("memory.oom.group", "0\n"),
        ("memory.current", "5000\n"),
        ("memory.peak", "9000\n"),
        ("memory.events", "low 0\nmax 3\noom 1\noom_kill 1\noom_group_kill 1\n"),
        ("memory.stat", "anon 4000\nfile 1000\ninactive_file 500\nactive_file 200\n"),
        ("pids.max", "max\n"),
        ("pids.current", "4\n"),
        ("pids.peak", "7\n"),
        ("pids.events", "max 12\n"),
        ("cpu.max", "max 100000\n"),
        ("cpu.stat", "usage_usec 1500000\nuser_usec 1\n"),
    ];
    let group = directory(&tree.path().join("group"), &files);
    let controllers = vec![Controller::Memory, Controller::Pids, Controller::Cpuacct, Controller::Cpu];
    let mut group = Group { version: Version::V2, members: vec![Member { controllers, directory: group }] };
    group.limit(&limits(Some(1.5))).unwrap();
    // A real file is replaced by a write; a plain one keeps what is beyond it.
    let written = |name: &str| fs::read_to_string(tree.path().join("group").join(name)).unwrap();
    assert!(written("memory.max").starts_with("67108864"));
    assert!(written("memory.swap.max").starts_with('0') && written("memory.oom.group").starts_with('1'));
    assert!(written("pids.max").starts_with("11") && written("cpu.max").starts_with("150000 100000"));
    assert_eq!(group.now(1 << 20).unwrap().memory, Some(5000), "far from the limit");
    let now = group.now(5001).unwrap();
    assert_eq!((now.memory, now.processes, now.oom_kills), (Some(4300), Some(4), 1));
    assert_eq!(now.cpu, Some(Duration::from_millis(1500)));
    let total = group.total().unwrap();
    assert_eq!((total.peak_memory, total.peak_processes, total.refused_forks), (Some(9000), Some(7), 12));
    assert!(group.birthplace().is_some());
    // A plain directory with files cannot be removed as a group can.
    group.members.clear();
}

#[test]
fn fake_group_that_says_nonsense_is_an_error_with_its_path() {
    let tree = TempDir::new().unwrap();
    let group = directory(&tree.path().join("group"), &[("pids.current", "many\n")]);
    let error = group.number("pids.current").unwrap_err().to_string();
    assert!(error.contains("group/pids.current"), "{error}");
    let error = group.write("pids.max", 1).unwrap_err().to_string();
    assert!(error.contains("cannot write") && error.contains("group/pids.max"), "{error}");
}

#[test]
fn a_process_is_born_in_a_real_v2_group() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let Some(at) =
        mounts.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4))
    else {
        return;
    };
    let path = Path::new(at).join(format!("pinfold-test-{}", std::process::id()));
    if fs::create_dir(&path).is_err() {
        return; // not this caller's to make
    }
    let group = fs::File::open(&path).unwrap();
    let child = match sys::clone::clone_into(0, Some(group.as_fd())).unwrap() {
        sys::clone::Forked::Child => sys::clone::exit_now(0),
        sys::clone::Forked::Parent(child) => child,
    };
    let born = fs::read_to_string(format!("/proc/{}/cgroup", child.pid.as_raw_nonzero())).unwrap();
    sys::wait::reap(child.pid).unwrap();
    remove(&path).unwrap();
    assert!(born.contains(path.file_name().unwrap().to_str().unwrap()), "{born}");
}
