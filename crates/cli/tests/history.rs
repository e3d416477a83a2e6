//! `--limits auto` from end to end: what a run used is remembered, changes the next recommendation, and is out of the
//! command's reach.
#![allow(clippy::unwrap_used)]

mod place;

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use place::{Place, json, stderr, stdout};
use serde_json::Value;

const FILE: &str = "state/pinfold/history.json";
const PYTHON: &str = "/usr/bin/python3";

fn history(place: &Place) -> Value {
    serde_json::from_str(&place.read(FILE)).unwrap()
}

/// What is remembered of a command.
fn remembered(place: &Place, command: &str) -> Value {
    let all = history(place)["commands"].as_array().unwrap().clone();
    all.into_iter().find(|one| one["command"] == command).unwrap_or_default()
}

/// A limit as `explain` gives it: the number and where it came from.
fn explained(place: &Place, args: &[&str], limit: &str) -> (u64, String) {
    let shown = json(&place.run(&[&["explain", "--json"][..], args].concat()));
    let limit = &shown["plan"]["limits"][limit];
    (limit["value"].as_u64().unwrap(), limit["because"].as_str().unwrap().to_owned())
}

#[test]
fn a_hungry_run_raises_the_next_recommendation() {
    let place = Place::new();
    let script = "x = bytearray(300 << 20)  # s3cret";
    let output = place.run(&["run", "--memory", "900M", "--", PYTHON, "-c", script]);
    assert!(output.status.success(), "{}", stderr(&output));
    let peak = remembered(&place, "python")["peaks"]["memory_bytes"]["most"].as_u64().unwrap();
    assert!((300 << 20..450 << 20).contains(&peak), "{peak}");
    assert!(!place.read(FILE).contains("s3cret"));
    let mode = std::fs::metadata(place.path(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let command = ["--", "env", "A=b", "python3", "other.py"];
    let (value, because) = explained(&place, &[&["--limits", "auto"][..], &command].concat(), "maxMemoryMB");
    assert_eq!(value, (peak * 2).div_ceil(1 << 20));
    assert!(because.starts_with("from 1 earlier run of `python`, peak 3"), "{because}");
    let text = stdout(&place.run(&[&["explain", "--limits", "auto"][..], &command].concat()));
    assert!(text.contains("from 1 earlier run of `python`, peak 3"), "{text}");
    // The table and the policy are what they were.
    assert_eq!(explained(&place, &command, "maxMemoryMB"), (256, "profile default".to_owned()));
    let (value, because) =
        explained(&place, &[&["--limits", "policy"][..], &command].concat(), "maxMemoryMB");
    assert_eq!((value, because.as_str()), (256, "profile default"));
    // What a person states is never passed.
    let stated = [&["--limits", "auto", "--memory", "300M"][..], &command].concat();
    assert_eq!(explained(&place, &stated, "maxMemoryMB"), (300, "option --memory 300M".to_owned()));
    let again = place.run(&["run", "--limits", "auto", "--", PYTHON, "-c", script]);
    assert!(again.status.success(), "{}", stderr(&again));
    let without = place.run(&["run", "--", PYTHON, "-c", script]);
    assert_eq!(without.status.code(), Some(137), "{}", stderr(&without));
}

#[test]
fn a_run_that_a_limit_ended_gets_twice_as_much_next_time() {
    let place = Place::new();
    let hungry = "x = []\nwhile True: x.append(bytearray(1 << 20))";
    for expected in [512, 1024] {
        let output = place.run(&["run", "--limits", "auto", "--", PYTHON, "-c", hungry]);
        assert_eq!(output.status.code(), Some(137), "{}", stderr(&output));
        let (value, because) =
            explained(&place, &["--limits", "auto", "--", "python3", "x.py"], "maxMemoryMB");
        assert_eq!(value, expected, "{because}");
        assert!(because.ends_with("where the limit ended it"), "{because}");
    }
    assert_eq!(remembered(&place, "python")["ended"], 2);
    // Nor does any of it count where the limits are locked.
    place.write("etc/policy.yaml", "lock: [proc]\n");
    let locked = explained(&place, &["--limits", "auto", "--", "python3", "x.py"], "maxMemoryMB");
    assert_eq!(locked, (256, "profile default".to_owned()));
}

#[test]
fn twenty_runs_at_once_lose_nothing() {
    let place = Place::new();
    let start = |at: usize| -> Child {
        let command = if at.is_multiple_of(2) { ["true", ""] } else { ["ls", "-a"] };
        let words: Vec<&str> = command.into_iter().filter(|word| !word.is_empty()).collect();
        let mut run = place.command(&[&["run", "--"][..], &words].concat());
        run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..20).map(start).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    }
    for command in ["true", "ls"] {
        assert_eq!(remembered(&place, command)["runs"], 10, "{}", place.read(FILE));
    }
    assert!(!place.path("state/pinfold/history.json.new").exists());
}

#[test]
fn a_damaged_file_is_told_and_stops_only_who_asks_for_it() {
    let place = Place::new();
    place.write(FILE, "{\"version\":1,\"comma");
    let path = place.path(FILE).display().to_string();
    for args in [&["run"][..], &["run", "--limits", "policy"]] {
        let output = place.run(&[args, &["--", "echo", "ran"]].concat());
        assert!(output.status.success() && stdout(&output) == "ran\n", "{}", stderr(&output));
        let told = stderr(&output);
        assert!(told.contains("not remembered") && told.contains(&path) && told.contains("remove"), "{told}");
    }
    for verb in ["run", "explain"] {
        let output = place.run(&[verb, "--limits", "auto", "--", "echo", "ran"]);
        assert_eq!(output.status.code(), Some(125));
        assert!(output.stdout.is_empty());
        let told = stderr(&output);
        assert!(told.contains("error[PF-HISTORY-001]") && told.contains(&path), "{told}");
        assert!(told.contains(&format!("hint: remove {path}")), "{told}");
    }
    assert_eq!(place.read(FILE), "{\"version\":1,\"comma", "nobody repairs it in secret");
    std::fs::remove_file(place.path(FILE)).unwrap();
    let output = place.run(&["run", "--limits", "auto", "--", "true"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    assert_eq!(remembered(&place, "true")["runs"], 1);
}

#[test]
fn a_command_cannot_reach_the_history() {
    let place = Place::new();
    std::fs::create_dir(place.path("project/state")).unwrap();
    let run = |script: &str| {
        let mut command = place.command(&["run", "--", "sh", "-c", script]);
        command.env("XDG_STATE_HOME", place.path("project/state")).output().unwrap()
    };
    // The workspace is writable, and the state directory lies in it.
    assert!(run("true").status.success());
    let file = place.path("project/state/pinfold/history.json");
    let before = std::fs::read_to_string(&file).unwrap();
    let output = run("cd /workspace && echo beside > beside; cat state/pinfold/history.json; \
         echo x > state/pinfold/history.json; rm -rf state/pinfold; mv state gone; touch unknown-program; exit 0");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(place.read("project/beside"), "beside\n", "the positive control");
    assert!(!stdout(&output).contains("version"), "{}", stdout(&output));
    let after = std::fs::read_to_string(&file).unwrap();
    assert!(after.contains(before.lines().nth(1).unwrap()), "{after}");
}

#[test]
fn what_never_started_teaches_nothing() {
    let place = Place::new();
    let output = place.run(&["run", "--", "no-such-program"]);
    assert!(!output.status.success());
    assert!(!place.path(FILE).exists());
}
