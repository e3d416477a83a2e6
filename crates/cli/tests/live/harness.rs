//! A runner whose state is the test's own, and ways to look at the host.

use std::fs;
use std::path::PathBuf;
use std::process::{Command as Program, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pinfold_core::outcome::{Exit, Outcome};
use pinfold_engine::asked::Asked;
use pinfold_engine::live::{Command, ExecError, Execution, Piece, Sandbox, SandboxRunner};

use crate::place::Place;

pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// Longer than anything takes that happens at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A place, and a runner whose spawner knows no other.
pub(crate) struct Host {
    pub(crate) place: Place,
    pub(crate) runner: SandboxRunner,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// With more variables for the spawner, as a shell takes them.
    pub(crate) fn with(variables: &str) -> Self {
        let place = Place::new();
        let runner = SandboxRunner::start_with(&wrapper(&place, variables)).unwrap();
        Self { place, runner }
    }

    /// The default policy, with room for several commands.
    pub(crate) fn asked(&self) -> Asked {
        Asked::new(self.place.path("project"))
            .set("proc.maxProcesses", 256)
            .set("proc.maxMemoryMB", 512)
            .set("proc.maxOutputBytes", 256 << 20)
    }

    pub(crate) fn sandbox(&self) -> Sandbox {
        self.runner.blueprint(&self.asked()).unwrap().boot().unwrap()
    }

    /// The number of the spawner.
    pub(crate) fn spawner(&self) -> i32 {
        let program = self.place.path("spawner").display().to_string();
        let found = processes(&format!("{program}\0spawner"));
        let is_child = |pid: &&i32| found.iter().any(|other| children(*other).contains(pid));
        *found.iter().find(|pid| !is_child(pid)).unwrap()
    }
}

/// A program that is `pinfold` in the place's environment. It is copied there by another process: one that this one
/// has open for writing while another thread starts something could not be executed (execve(2), `ETXTBSY`).
pub(crate) fn wrapper(place: &Place, variables: &str) -> PathBuf {
    let path = place.path("wrapper");
    let set: String = [
        ("HOME", "home"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_RUNTIME_DIR", "run"),
        ("PINFOLD_ETC", "etc"),
    ]
    .iter()
    .map(|(name, directory)| format!("{name}='{}' ", place.path(directory).display()))
    .collect();
    // A name of its own, by which its processes are found.
    let pinfold = place.path("spawner");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pinfold"), &pinfold).unwrap();
    let text = format!("#!/bin/sh\n{set}{variables} exec '{}' \"$@\"\n", pinfold.display());
    let mut install = Program::new("install");
    let mut install =
        install.args(["-m", "755", "/dev/stdin"]).arg(&path).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut install.stdin.take().unwrap(), text.as_bytes()).unwrap();
    assert!(install.wait().unwrap().success());
    path
}

/// A command line for the shell.
pub(crate) fn sh(script: impl Into<String>) -> Command {
    Command::new("sh").arg("-c").arg(script.into())
}

pub(crate) fn python(script: impl Into<String>) -> Command {
    Command::new(PYTHON).arg("-c").arg(script.into())
}

/// Runs it to its end, which must come by itself.
#[track_caller]
pub(crate) fn run(sandbox: &Sandbox, command: &Command) -> Outcome {
    sandbox.exec(command).unwrap().output().unwrap()
}

/// Runs it, and returns what it wrote. It must end with 0.
#[track_caller]
pub(crate) fn said(sandbox: &Sandbox, command: &Command) -> String {
    let outcome = run(sandbox, command);
    assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
    text(&outcome)
}

pub(crate) fn text(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stdout.bytes).into_owned()
}

/// Still of use: the positive control of whatever was attempted.
#[track_caller]
pub(crate) fn assert_works(sandbox: &Sandbox) {
    assert_eq!(said(sandbox, &sh("echo works; id -u >/dev/null")), "works\n");
}

/// Starts it, and waits until it has said something.
#[track_caller]
pub(crate) fn begun(sandbox: &Sandbox, command: &Command) -> Execution {
    let mut execution = sandbox.exec(command).unwrap();
    assert!(matches!(execution.next_piece().unwrap(), Some(Piece::Stdout(_))));
    execution
}

/// One that has started and stays.
pub(crate) fn waiting(sandbox: &Sandbox) -> Execution {
    begun(sandbox, &sh("echo up; exec sleep 1000"))
}

/// What came of one whose time ran out.
#[track_caller]
pub(crate) fn timed_out(ended: Result<Outcome, ExecError>) -> Outcome {
    match ended {
        Err(ExecError::TimedOut(outcome)) => *outcome,
        other => panic!("no time-out: {other:?}"),
    }
}

/// A word that no other process on the host has.
pub(crate) fn mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("mark-{}-{}-", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Every process of the host with `word` in its command line, its words separated by NUL.
pub(crate) fn processes(word: &str) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        *pid != std::process::id() as i32 && String::from_utf8_lossy(&line).contains(word)
    })
    .collect()
}

/// The children of a process.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Waits until `condition` is true.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Fails if a process has `mark` in its command line.
#[track_caller]
pub(crate) fn assert_none(mark: &str) {
    let left = processes(mark);
    assert!(left.is_empty(), "left: {left:?}");
}

/// Waits until no process has `mark` in its command line.
#[track_caller]
pub(crate) fn until_gone(mark: &str) {
    until("they are gone", || processes(mark).is_empty());
}

/// Fails if `file` grows while other things go on.
#[track_caller]
pub(crate) fn assert_still(host: &Host, sandbox: Option<&Sandbox>, file: &str) {
    let length = || fs::metadata(host.place.path(file)).unwrap().len();
    let before = length();
    assert!(before > 0, "it was written to while it ran");
    for _ in 0..20 {
        match sandbox {
            Some(sandbox) => assert_works(sandbox),
            None => assert_works(&host.sandbox()),
        }
    }
    assert_eq!(length(), before, "something still writes");
}

pub(crate) fn kill(pid: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
}
