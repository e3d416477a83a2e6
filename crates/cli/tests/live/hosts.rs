//! What is killed on the host: the guest, its holder, the spawner, the program that uses the library. Everything inside
//! is gone soon after, whoever waits gets an error, and the next sandbox starts as if nothing had been.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};

use pinfold_engine::asked::Asked;
use pinfold_engine::live::{Command, ExecError, SandboxRunner};
use rustix::process::Signal;

use crate::harness::{
    Host, assert_works, begun, children, kill, mark, processes, sh, until, until_gone, waiting,
};
use crate::place::Place;

/// Holders, and of each its guest, below the spawner.
fn holders(host: &Host) -> Vec<(i32, i32)> {
    children(host.spawner()).into_iter().map(|holder| (holder, children(holder)[0])).collect()
}

fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// Every control group whose name says that a sandbox has it.
fn groups() -> BTreeSet<PathBuf> {
    fn collect(directory: &Path, found: &mut BTreeSet<PathBuf>) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().as_encoded_bytes().starts_with(b"pinfold-") {
                    found.insert(entry.path());
                }
                collect(&entry.path(), found);
            }
        }
    }
    let mut found = BTreeSet::new();
    collect(Path::new("/sys/fs/cgroup"), &mut found);
    found
}

fn groups_of(pid: i32) -> BTreeSet<PathBuf> {
    let is_in = |group: &PathBuf| {
        let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        members.lines().any(|line| line == pid.to_string())
    };
    groups().into_iter().filter(is_in).collect()
}

/// Every name below a directory.
fn names(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        found.insert(entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(names(&entry.path()));
        }
    }
    found
}

#[test]
fn a_killed_guest_takes_everything_along_and_is_told() {
    let host = Host::new();
    let sandbox = host.sandbox();
    let [(_, guest)] = holders(&host)[..] else { panic!("one sandbox") };
    let mark = mark();
    let running = begun(&sandbox, &sh(format!("echo up; sleep 1000 # {mark}")));
    let beside = waiting(&sandbox);
    kill(guest, Signal::KILL);
    for execution in [running, beside] {
        let ended = execution.output();
        assert!(matches!(ended, Err(ExecError::Sandbox(_))), "{ended:?}");
    }
    until_gone(&mark);
    assert!(sandbox.exec(&Command::new("true")).and_then(|command| command.output()).is_err());
    drop(sandbox);
    until("its holder is gone", || children(host.spawner()).is_empty());
    assert_works(&host.sandbox());
}

#[test]
fn a_killed_holder_takes_everything_along_and_the_next_start_sweeps() {
    let host = Host::new();
    let before = names(&host.place.path("project"));
    let sandbox = host.sandbox();
    let mark = mark();
    let running = begun(&sandbox, &sh(format!("echo up; sleep 1000 # {mark}")));
    assert_ne!(
        names(&host.place.path("project")),
        before,
        "absent names that are protected have placeholders"
    );
    let [(holder, guest)] = holders(&host)[..] else { panic!("one sandbox") };
    let own = groups_of(guest);
    kill(holder, Signal::KILL);
    let ended = running.output();
    assert!(
        matches!(&ended, Err(ExecError::Sandbox(failure)) if failure.to_string().contains("holder")),
        "{ended:?}"
    );
    until("the guest is gone", || !is_alive(guest));
    until_gone(&mark);
    assert!(sandbox.usage().is_err());
    let gone = sandbox.exec(&Command::new("true")).and_then(|command| command.output());
    assert!(matches!(gone, Err(ExecError::Sandbox(_))), "{gone:?}");
    drop(sandbox);
    let next = host.sandbox();
    assert_works(&next);
    assert!(groups().is_disjoint(&own), "{own:?}");
    next.end().unwrap();
    assert_eq!(names(&host.place.path("project")), before);
}

#[test]
fn without_its_spawner_a_sandbox_serves_on_and_no_new_one_is_promised() {
    let host = Host::new();
    let sandbox = host.sandbox();
    let blueprint = host.runner.blueprint(&host.asked()).unwrap();
    let mark = mark();
    let running = begun(&sandbox, &sh(format!("echo up; sleep 1000 # {mark}")));
    let [(holder, guest)] = holders(&host)[..] else { panic!("one sandbox") };
    kill(host.spawner(), Signal::KILL);
    let other = Host::new();
    assert_works(&other.sandbox());
    assert!(host.runner.blueprint(&host.asked()).is_err(), "there is nobody to plan");
    assert!(blueprint.boot().is_err(), "there is nobody to make it");
    assert!(blueprint.order().and_then(|sandbox| sandbox.usage()).is_err());
    assert_works(&sandbox);
    drop((running, sandbox));
    until_gone(&mark);
    until("holder and guest are gone", || !is_alive(holder) && !is_alive(guest));
}

/// Not a test by itself: the program that the next test kills. It is this test in a process of its own, in which a
/// variable names the place.
const OTHER: &str = "PINFOLD_TEST_LIVE_HOST";

#[test]
fn a_killed_host_takes_its_sandboxes_along() {
    if let Some(program) = std::env::var_os(OTHER) {
        return be_the_host(Path::new(&program));
    }
    let place = Place::new();
    let program = crate::harness::wrapper(&place, "");
    let before = names(&place.path("project"));
    let mut host = Program::new(std::env::current_exe().unwrap());
    host.args(["--exact", "hosts::a_killed_host_takes_its_sandboxes_along", "--nocapture"]);
    let mut host = host.env(OTHER, &program).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mark = lines.find_map(|line| line.strip_prefix("ready ").map(str::to_owned)).unwrap();
    let spawner = processes(&format!("{}\0spawner", place.path("spawner").display()));
    assert!(spawner.len() > 3, "the spawner and its holders and guests: {spawner:?}");
    assert!(processes(&mark).len() >= 3);
    host.kill().unwrap();
    host.wait().unwrap();
    until_gone(&mark);
    until("spawner, holders and guests are gone", || !spawner.iter().any(|pid| is_alive(*pid)));
    assert_eq!(names(&place.path("project")), before, "holders looked after what was left");
    drop(lines);
}

fn be_the_host(program: &Path) {
    let runner = SandboxRunner::start_with(program).unwrap();
    let project = program.with_file_name("project");
    let blueprint = runner.blueprint(&Asked::new(project)).unwrap();
    let mark = mark();
    let sandboxes: Vec<_> = (0..3).map(|_| blueprint.boot().unwrap()).collect();
    let running: Vec<_> = sandboxes
        .iter()
        .map(|sandbox| begun(sandbox, &sh(format!("trap '' TERM HUP; echo up; sleep 1000; : {mark}"))))
        .collect();
    std::io::stdout().write_all(format!("ready {mark}\n").as_bytes()).unwrap();
    // Until it is killed.
    std::io::stdin().lock().read_to_end(&mut Vec::new()).unwrap();
    std::thread::park();
    drop(running);
}

#[test]
fn dropping_the_runner_leaves_no_process() {
    let host = Host::new();
    let program = host.place.path("spawner").display().to_string();
    let sandboxes: Vec<_> = (0..3).map(|_| host.sandbox()).collect();
    let pool = host.runner.blueprint(&host.asked()).unwrap().pool(2).unwrap();
    assert_works(&pool.take().unwrap());
    assert!(processes(&program).len() > 5);
    let Host { place, runner } = host;
    drop((sandboxes, pool));
    drop(runner);
    until_gone(&program);
    assert_eq!(fs::read_dir(place.path("project")).unwrap().count(), 0, "no placeholder is left");
}

#[test]
fn a_failure_at_any_step_makes_no_sandbox_and_leaves_nothing() {
    for (step, _) in pinfold_linux::steps::all() {
        let host = Host::with(&format!("PINFOLD_FAIL_AT={step}"));
        let blueprint = host.runner.blueprint(&host.asked()).unwrap();
        let ran = blueprint.order().map_err(Into::into).and_then(|sandbox| {
            let command = sh("echo ran > ran");
            sandbox.exec(&command).and_then(|command| command.output())
        });
        let why = match ran {
            Err(ExecError::Step { step, message }) => format!("step `{step}`: {message}"),
            Err(error) => error.to_string(),
            // What is looked at for a command that is run on its own.
            Ok(_) if step == "stdio" || step == "group" => continue,
            Ok(outcome) => panic!("`{step}` failed, and it ran: {outcome:?}"),
        };
        assert!(why.contains(&format!("step `{step}`")), "{step}: {why}");
        until("its holder is gone", || children(host.spawner()).is_empty());
        assert_eq!(fs::read_dir(host.place.path("project")).unwrap().count(), 0, "{step}");
    }
}

#[test]
fn a_host_that_is_killed_while_it_makes_sandboxes_leaves_nothing() {
    if let Some(program) = std::env::var_os(OTHER) {
        return make_for_ever(Path::new(&program));
    }
    let place = Place::new();
    let program = crate::harness::wrapper(&place, "");
    for lines in [1, 2, 3, 5, 8, 13, 21] {
        let mut host = Program::new(std::env::current_exe().unwrap());
        host.args([
            "--exact",
            "hosts::a_host_that_is_killed_while_it_makes_sandboxes_leaves_nothing",
            "--nocapture",
        ]);
        let mut host =
            host.env(OTHER, &program).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let said = BufReader::new(host.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(said.filter(|line| line.contains("one more")).take(lines).count(), lines);
        host.kill().unwrap();
        host.wait().unwrap();
        until_gone(&place.path("spawner").display().to_string());
        assert_eq!(fs::read_dir(place.path("project")).unwrap().count(), 0, "no placeholder is left");
    }
    let runner = SandboxRunner::start_with(&program).unwrap();
    let sandbox = runner.blueprint(&Asked::new(place.path("project"))).unwrap().boot().unwrap();
    assert_works(&sandbox);
}

fn make_for_ever(program: &Path) {
    let runner = SandboxRunner::start_with(program).unwrap();
    let blueprint = runner.blueprint(&Asked::new(program.with_file_name("project"))).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let sandbox = blueprint.boot().unwrap();
                    drop(sandbox.exec(&Command::new("true")).unwrap().output().unwrap());
                    std::io::stdout().write_all(b"one more\n").unwrap();
                }
            });
        }
    });
}

#[test]
fn a_pool_gives_each_caller_a_sandbox_of_its_own() {
    let host = Host::new();
    let pool = host.runner.blueprint(&host.asked()).unwrap().pool(3).unwrap();
    let ids = std::sync::Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let sandbox = pool.take().unwrap();
                    assert!(ids.lock().unwrap().insert(sandbox.id().to_string()), "used twice");
                    let left = crate::harness::said(&sandbox, &sh("ls /tmp; touch /tmp/used"));
                    assert_eq!(left, "", "something of another's");
                }
            });
        }
    });
    assert_eq!(pool.len(), 3);
    // One that was killed while it waited is not given to anybody.
    let guests = || children(host.spawner()).into_iter().flat_map(children).collect::<Vec<_>>();
    until("three wait", || children(host.spawner()).len() == 3 && guests().len() >= 3);
    let waiting = guests();
    children(host.spawner()).into_iter().for_each(|holder| kill(holder, Signal::KILL));
    until("they are gone", || {
        children(host.spawner()).is_empty() && waiting.iter().all(|guest| !is_alive(*guest))
    });
    for _ in 0..4 {
        assert_works(&pool.take().unwrap());
    }
}
