//! Each limit acts, is named, and lets pass what is within it.

use crate::groups::place;
use crate::harness::Ran;

/// How the example's report shows the limit and the warnings.
#[track_caller]
fn assert_limit(ran: &Ran, limit: &str) {
    assert_eq!(ran.code, if limit == "Wall" { 124 } else { 137 }, "{ran:?}");
    assert!(ran.stderr.contains(&format!("limit: Some({limit})")), "{ran:?}");
    assert!(ran.stderr.contains(&format!("limit_type: {limit}")), "a warning came first: {ran:?}");
}

/// A number of the example's report.
fn number(ran: &Ran, name: &str) -> u64 {
    let (_, rest) = ran.stderr.split_once(&format!("{name}: ")).unwrap();
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

const PYTHON: &str = "exec /usr/bin/python3 -c";

#[test]
fn memory_by_anonymous_pages_shared_memory_tmpfs_and_memfd_is_held() {
    let Some(place) = place() else { return };
    let options = ["--memory", "48", "--tmpfs", "/big=100", "--report"];
    let memfd = "import os\nf = os.memfd_create(\"x\")\nwhile True: os.write(f, b\"x\" * 65536)";
    for bomb in [
        format!("{PYTHON} 'x = bytearray(100 << 20)'"),
        "exec head -c 60m /dev/zero > /dev/shm/bomb".to_owned(),
        "exec head -c 60m /dev/zero > /big/bomb".to_owned(),
        "head -c 30m /dev/zero > /dev/shm/a; exec head -c 30m /dev/zero > /big/b".to_owned(),
        format!("{PYTHON} '{memfd}'"),
        // The one that is killed is a child, and its parent would go on for ever.
        "head -c 60m /dev/zero > /big/bomb; exec sleep 1000".to_owned(),
    ] {
        let ran = place.run(&options, &bomb, &[]);
        assert_limit(&ran, "Memory");
        assert!(number(&ran, "peak_memory_bytes") <= 48 << 20, "{ran:?}");
    }
    let within = place.run(&options, &format!("{PYTHON} 'x = bytearray(20 << 20)'"), &[]).ok();
    assert!(number(&within, "peak_memory_bytes") > 20 << 20, "{within:?}");
    // What no control group counts is what its lack leaves open.
    let missing = [("PINFOLD_PRETEND_MISSING", "cgroup")];
    place.run(&options, "exec head -c 60m /dev/zero > /dev/shm/bomb", &missing).ok();
}

#[test]
fn page_cache_stays_within_the_limit_and_kills_nothing() {
    let Some(place) = place() else { return };
    let script = "head -c 100m /dev/zero > big && cat big > /dev/null";
    let ran = place.run(&["--memory", "48", "--report"], script, &[]).ok();
    let peak = number(&ran, "peak_memory_bytes");
    assert!(peak > 30 << 20 && peak <= 48 << 20, "{ran:?}");
    assert!(!ran.stderr.contains("limit_type: Memory"), "the kernel can drop it: {ran:?}");
}

#[test]
fn cpu_seconds_of_all_processes_count_together() {
    let Some(place) = place() else { return };
    let busy = "while :; do :; done & while :; do :; done";
    let ran = place.run(&["--cpu", "1", "--report"], busy, &[]);
    assert_limit(&ran, "Cpu");
    // Each process alone stays below; children that end and are replaced count too, and so do those nobody waits for.
    let children = "trap '' CHLD; while :; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done";
    assert_limit(&place.run(&["--cpu", "1", "--report"], children, &[]), "Cpu");
    let threads = format!(
        "{PYTHON} 'import hashlib, threading\n\
         def burn():\n    while True: hashlib.sha256(b\"x\" * 1000000)\n\
         for _ in range(6): threading.Thread(target=burn).start()'"
    );
    assert_limit(&place.run(&["--cpu", "1", "--report"], &threads, &[]), "Cpu");
}

#[test]
fn the_share_of_processors_is_held() {
    let Some(place) = place() else { return };
    let busy = "while :; do :; done";
    let ran = place.run(&["--cpus", "0.2", "--timeout", "1000", "--report"], busy, &[]);
    assert_limit(&ran, "Wall");
    let cpu = ran.stderr.split_once("cpu: ").unwrap().1;
    let within = cpu.split_once("ms").is_some_and(|(text, _)| text.parse::<f64>().is_ok_and(|ms| ms < 500.0));
    assert!(within, "{ran:?}");
}

#[test]
fn a_fork_bomb_stops_at_the_limit_and_is_counted() {
    let Some(place) = place() else { return };
    let bomb = "b() { b | b & }; b; sleep 0.3; b; exec sleep 1000";
    let ran = place.run(&["--processes", "20", "--timeout", "1000", "--report"], bomb, &[]);
    assert_limit(&ran, "Wall");
    assert!(ran.stderr.contains("limit_type: Processes, current: "), "{ran:?}");
    assert_eq!(number(&ran, "peak_processes"), 20, "{ran:?}");
    assert!(number(&ran, "refused_forks") > 0, "{ran:?}");
    // A refusal is told, and not a kill: what gets along without lives on.
    let ran = place.run(&["--processes", "2", "--report"], "(true; true) & (true) & wait; exit 3", &[]);
    assert!(ran.stderr.contains("limit: None"), "{ran:?}");
    let calm = place.run(&["--processes", "20", "--report"], "true & wait", &[]).ok();
    assert_eq!(number(&calm, "refused_forks"), 0, "{calm:?}");
    assert!(!calm.stderr.contains("limit_type"), "{calm:?}");
}

#[test]
fn a_file_beyond_its_size_is_disk() {
    let Some(place) = place() else { return };
    let options = ["--disk", "1", "--report"];
    let ran = place.run(&options, "exec head -c 2m /dev/zero > big", &[]);
    assert!(ran.code == 137 && ran.stderr.contains("limit: Some(Disk)"), "{ran:?}");
    place.run(&options, "exec head -c 900k /dev/zero > small", &[]).ok();
}

#[test]
fn many_small_files_are_disk_too() {
    let Some(place) = place() else { return };
    let options = ["--disk", "8", "--timeout", "60000", "--report"];
    let fill = "n=0; while :; do head -c 900k /dev/zero > $n; n=$((n + 1)); done";
    let ran = place.run(&options, fill, &[]);
    assert_limit(&ran, "Disk");
    assert!(ran.stderr.contains("limit_type: Disk"), "no warning: {ran:?}");
    // What was there before is not held against the next.
    place.run(&options, "head -c 900k /dev/zero > one", &[]).ok();
}

#[test]
fn of_two_limits_the_one_that_acted_is_named() {
    let Some(place) = place() else { return };
    let both = ["--cpu", "1", "--timeout", "60000", "--memory", "48", "--report"];
    assert_limit(&place.run(&both, "while :; do :; done", &[]), "Cpu");
    let hungry = format!("{PYTHON} 'x = []\nwhile True: x.append(bytearray(1 << 20))'");
    assert_limit(&place.run(&both, &hungry, &[]), "Memory");
    let late = ["--cpu", "1", "--timeout", "700", "--report"];
    assert_limit(&place.run(&late, "while :; do :; done", &[]), "Wall");
    // Ending by a signal of its own choice is no limit.
    let ran = place.run(&["--report"], "kill -XCPU $$", &[]);
    assert!(ran.code == 152 && ran.stderr.contains("limit: None"), "{ran:?}");
}

#[test]
fn memory_too_small_to_set_up_is_named_too() {
    let Some(place) = place() else { return };
    let ran = place.run(&["--memory", "1", "--report"], "exec head -c 60m /dev/zero > /dev/shm/bomb", &[]);
    assert_limit(&ran, "Memory");
}
