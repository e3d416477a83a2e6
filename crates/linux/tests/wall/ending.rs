//! Ending: nothing inside outlives the command, the time limit, or the supervisor.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Place, callers, processes_with};

/// Starts a script that says when it is ready.
fn ready(place: &Place, options: &[&str], script: &str) -> Child {
    let mut launch = place.launch(options, &["sh", "-c", script]);
    let mut child = launch.stdout(Stdio::piped()).spawn().unwrap();
    let mut word = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
    assert_eq!(&word, b"ready\n");
    child
}

/// An argument that no other process has.
fn marker(place: &Place) -> String {
    place.path("marker").display().to_string()
}

#[test]
fn what_is_left_in_the_background_is_gone_when_the_command_ends() {
    for caller in callers() {
        let place = Place::new(*caller);
        let marker = marker(&place);
        let script = format!(
            "for i in 1 2; do (setsid sh -c 'trap \"\" TERM; sleep 1000; : {marker}' &); done; echo out"
        );
        // The output is read to its end, which a survivor would hold open.
        assert_eq!(place.sh(&script).ok().stdout, "out\n");
        assert_eq!(processes_with(&marker), 0);
    }
}

#[test]
fn the_time_limit_ends_what_ignores_signals_leads_sessions_or_is_stopped() {
    for caller in callers() {
        let place = Place::new(*caller);
        let marker = marker(&place);
        let script = format!(
            "trap '' TERM; setsid sh -c 'trap \"\" TERM HUP INT; sleep 1000; : {marker}' & \
             sh -c 'kill -STOP $$; : {marker}' & sleep 1000; : {marker}"
        );
        let ran = place.run(&["--timeout", "300"], &script, &[]);
        assert_eq!(ran.code, 124, "{ran:?}");
        assert_eq!(processes_with(&marker), 0);
    }
}

#[test]
fn everything_ends_with_a_killed_supervisor() {
    for caller in callers() {
        let place = Place::new(*caller);
        let script = "setsid sh -c 'trap \"\" TERM HUP; sleep 1000' & echo ready; sleep 1000";
        let mut child = ready(&place, &[], script);
        child.kill().unwrap();
        // Whoever lived on would hold the pipe open.
        let mut rest = String::new();
        child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}

#[test]
fn a_supervisor_killed_while_it_sets_up_leaves_nothing() {
    let place = Place::new(callers()[0]);
    for microseconds in (0..4000).step_by(200) {
        let mut launch = place.launch(&[], &["sh", "-c", "sleep 1000"]);
        let mut child = launch.stdout(Stdio::piped()).spawn().unwrap();
        let start = std::time::Instant::now();
        while start.elapsed().as_micros() < microseconds {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        let mut rest = String::new();
        child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn signals_are_passed_on_to_the_command() {
    for caller in callers() {
        let place = Place::new(*caller);
        for (signal, name, code) in
            [(Signal::TERM, "TERM", 3), (Signal::INT, "INT", 4), (Signal::USR1, "USR1", 5)]
        {
            let script = format!("trap 'exit {code}' {name}; echo ready; while :; do sleep 0.01; done");
            let mut child = ready(&place, &[], &script);
            kill_process(Pid::from_child(&child), signal).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
        }
        let mut child = ready(&place, &[], "echo ready; sleep 1000");
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(143));
    }
}

#[test]
fn orphans_are_reaped() {
    for caller in callers() {
        let place = Place::new(*caller);
        let script =
            "for i in 1 2 3 4 5; do (true &); done; sleep 0.2; grep -l '^State:.Z' /proc/[0-9]*/status";
        assert_eq!(place.sh(script).stdout, "");
    }
}

#[test]
fn a_hundred_starts_leave_no_mount_process_or_file() {
    let place = Place::new(callers()[0]);
    let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let (before, marker) = (mounts(), marker(&place));
    for _ in 0..100 {
        let mut launch: Command = place.launch(&["--protect", ".envrc"], &["true", &marker]);
        assert!(launch.status().unwrap().success());
    }
    assert_eq!(before, mounts());
    assert_eq!(processes_with(&marker), 0);
    assert_eq!(std::fs::read_dir(place.path("workspace")).unwrap().count(), 0);
}
