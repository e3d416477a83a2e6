//! Sandboxes with a name, from end to end and under attack: `run --name`, `exec`, `ps`, `stop`.
#![allow(clippy::unwrap_used)]

mod place;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_linux::live::{Door, Heard};
use pinfold_linux::wire::{Event, Exec};
use place::{Place, json, stderr, stdout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Signal, kill_process};

/// A place whose sandboxes end with it.
struct Named(Place);

impl Named {
    fn new() -> Self {
        Self(Place::new())
    }

    /// Makes one by running `true` in it.
    #[track_caller]
    fn make(&self, name: &str) {
        let options = ["run", "--name", name, "--processes", "200"];
        ok(&self.0.run(&[&options[..], &["--", "true"]].concat()));
    }

    fn sh(&self, name: &str, script: &str) -> Output {
        self.0.run(&["exec", name, "--", "sh", "-c", script])
    }

    /// Starts a script in one, which says something when it is there.
    fn begin(&self, name: &str, script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
        let mut command = self.0.command(&["exec", name, "--", "sh", "-c", script]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        (child, out)
    }

    fn names(&self) -> Vec<String> {
        let all = json(&self.0.run(&["ps", "--json"]));
        all.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    }

    fn holder(&self, name: &str) -> i32 {
        let all = json(&self.0.run(&["ps", "--json"]));
        let one = all.as_array().unwrap().iter().find(|one| one["name"] == name).cloned().unwrap();
        i32::try_from(one["pid"].as_i64().unwrap()).unwrap()
    }

    /// A way in without the command line.
    fn door(&self, name: &str) -> Door {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let path = self.0.path(&format!("run/pinfold/live/{name}/door"));
        connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        Door::from_socket(socket)
    }

    /// What is kept for sandboxes that have a name.
    fn kept(&self) -> BTreeSet<PathBuf> {
        below(&self.0.path("run"))
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        for name in self.names() {
            self.0.run(&["stop", &name]);
        }
    }
}

#[track_caller]
fn ok(output: &Output) {
    assert!(output.status.success(), "{}: {}{}", output.status, stdout(output), stderr(output));
}

#[track_caller]
fn refused(output: &Output, code: &str) {
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(stderr(output).contains(code), "{}", stderr(output));
}

fn below(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        found.insert(entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(below(&entry.path()));
        }
    }
    found
}

#[track_caller]
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn processes(word: &str) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    })
    .collect()
}

/// A word that no other process on the host has.
fn mark() -> String {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    format!("named-{}-{}-", std::process::id(), NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_sandbox_keeps_its_state_until_it_is_stopped() {
    let named = Named::new();
    let mark = mark();
    named.make("a");
    ok(&named.sh("a", "echo 1 > /tmp/state"));
    let background = format!("sh -c 'while :; do echo x >> grows; sleep 0.01; done # {mark}' & echo up");
    assert_eq!(
        stdout(&named.sh("a", &background)),
        "up\n",
        "a child that holds the output keeps nobody waiting"
    );
    assert_eq!(stdout(&named.sh("a", "cat /tmp/state")), "1\n");
    assert!(!processes(&mark).is_empty(), "it lives on");
    assert_eq!(named.names(), ["a"]);
    assert!(stdout(&named.0.run(&["ps"])).lines().count() == 2);
    ok(&named.0.run(&["stop", "a"]));
    assert!(processes(&mark).is_empty(), "stopped is ended");
    let length = fs::metadata(named.0.path("project/grows")).unwrap().len();
    assert!(named.names().is_empty());
    refused(&named.sh("a", "true"), "PF-LIVE-013");
    refused(&named.0.run(&["stop", "a"]), "PF-LIVE-013");
    named.make("a");
    assert_eq!(stdout(&named.sh("a", "cat /tmp/state 2>/dev/null; echo new")), "new\n");
    assert_eq!(fs::metadata(named.0.path("project/grows")).unwrap().len(), length, "nothing wrote later");
    ok(&named.0.run(&["stop", "a"]));
    assert_eq!(below(&named.0.path("project")).len(), 1, "no placeholder is left");
    assert!(named.kept().iter().all(|path| !path.ends_with("a")), "{:?}", named.kept());
}

#[test]
fn a_name_is_a_name() {
    let named = Named::new();
    let long = "n".repeat(65);
    for name in ["../x", "..", ".", "", "a/b", "a b", "-x", ".x", "a\nb", "ü", "a\u{1b}[0m", &long] {
        let argument = format!("--name={name}");
        refused(&named.0.run(&["run", &argument, "--", "true"]), "PF-LIVE-010");
        for verb in [&["exec", "--", name, "--", "true"][..], &["stop", "--", name]] {
            // What looks like an option is one, unless it is after `--`.
            let output = named.0.run(verb);
            assert!(!output.status.success(), "{name:?}: {output:?}");
        }
    }
    assert!(named.kept().iter().all(|path| path.is_dir()), "nothing is made for them: {:?}", named.kept());
    // Also where the path of a socket is longer than its address may be.
    let long = "n".repeat(64);
    let runtime = format!("run/{}/", "r".repeat(100));
    fs::create_dir(named.0.path(&runtime)).unwrap();
    let pinfold = |args: &[&str]| {
        named.0.command(args).env("XDG_RUNTIME_DIR", named.0.path(&runtime)).output().unwrap()
    };
    ok(&pinfold(&["run", "--name", &long, "--", "true"]));
    assert_eq!(stdout(&pinfold(&["exec", &long, "--", "echo", "x"])), "x\n");
    ok(&pinfold(&["stop", &long]));
}

#[test]
fn two_of_one_name_are_refused_and_leave_the_first_alone() {
    let named = Named::new();
    named.make("a");
    let holder = named.holder("a");
    refused(&named.0.run(&["run", "--name", "a", "--", "true"]), "PF-LIVE-012");
    assert_eq!(named.holder("a"), holder);
    ok(&named.sh("a", "true"));
    // At once: one of them wins, and all others are told.
    let starts: Vec<_> = (0..8)
        .map(|_| {
            let mut command = named.0.command(&["run", "--name", "b", "--", "true"]);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let ended: Vec<_> = starts.into_iter().map(|start| start.wait_with_output().unwrap()).collect();
    let won = ended.iter().filter(|output| output.status.success()).count();
    assert_eq!(won, 1, "{ended:?}");
    ended.iter().filter(|output| !output.status.success()).for_each(|output| refused(output, "PF-LIVE-012"));
    ok(&named.sh("b", "true"));
    assert_eq!(named.names().len(), 2);
}

#[test]
fn one_that_cannot_be_made_leaves_nothing() {
    let named = Named::new();
    for step in ["survey", "covers", "seccomp"] {
        let mut command = named.0.command(&["run", "--name", "a", "--", "true"]);
        let output = command.env("PINFOLD_FAIL_AT", step).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert!(named.kept().iter().all(|path| !path.ends_with("a")), "{step}: {:?}", named.kept());
        assert!(below(&named.0.path("project")).is_empty());
    }
    assert!(named.names().is_empty());
    // The command fails, not the sandbox.
    let output = named.0.run(&["run", "--name", "a", "--", "no-such-program"]);
    assert_eq!(output.status.code(), Some(127), "{output:?}");
    ok(&named.sh("a", "true"));
}

#[test]
fn exit_codes_streams_and_signals_come_through() {
    let named = Named::new();
    named.make("a");
    for code in [0, 1, 42, 126, 127, 128, 255] {
        assert_eq!(named.sh("a", &format!("exit {code}")).status.code(), Some(code));
    }
    for signal in [2, 9, 15] {
        assert_eq!(named.sh("a", &format!("kill -{signal} $$")).status.code(), Some(128 + signal));
    }
    assert_eq!(named.0.run(&["exec", "a", "--", "no-such-program"]).status.code(), Some(127));
    assert_eq!(named.0.run(&["exec", "a", "--", "/etc/passwd"]).status.code(), Some(126));
    refused(&named.0.run(&["exec", "a", "--directory", "/no/such/place", "--", "true"]), "/no/such/place");
    let bytes: Vec<u8> =
        (0..3_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut command = named.0.command(&["exec", "a", "--", "sha256sum"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let inside = child.wait_with_output().unwrap().stdout;
    fs::write(named.0.path("project/bytes"), &bytes).unwrap();
    let file = fs::File::open(named.0.path("project/bytes")).unwrap();
    let outside = std::process::Command::new("sha256sum").stdin(file).output().unwrap();
    assert_eq!(outside.stdout, inside);
    let (child, mut out) =
        named.begin("a", "trap 'echo caught; exit 9' TERM; echo up; while :; do sleep 0.01; done");
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::TERM).unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), { child }.wait().unwrap().code()), ("caught\n", Some(9)));
    let late = named.0.run(&["exec", "a", "--timeout", "300ms", "--", "sh", "-c", "echo before; sleep 1000"]);
    assert_eq!((late.status.code(), stdout(&late).as_str()), (Some(124), "before\n"));
    ok(&named.sh("a", "true"));
}

#[test]
fn every_command_has_three_descriptors_and_no_privileges() {
    let named = Named::new();
    named.make("a");
    let (first, _out) = named.begin("a", "echo up; exec sleep 1000");
    let look = "echo /proc/self/fd/*; cat /proc/self/status; id -u";
    // The shell itself has its three, and what lists them has no more.
    for _ in 0..5 {
        let text = stdout(&named.sh("a", look));
        let mut lines = text.lines();
        let fds: Vec<_> = lines.next().unwrap().split(' ').collect();
        assert_eq!(fds[..3], ["/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2"], "{text}");
        // Of the shell's own listing one more is open, the directory that it reads.
        assert!(fds.len() <= 4, "{text}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(text.contains(&format!("{set}:\t0000000000000000\n")), "{text}");
        }
        assert!(text.contains("NoNewPrivs:\t1\n") && text.contains("Seccomp:\t2\n"), "{text}");
        assert_ne!(text.lines().last(), Some("0"));
    }
    // A terminal of its own.
    let script = format!("{} exec a -- sh -c 'ls -l /proc/self/fd; tty'", env!("CARGO_BIN_EXE_pinfold"));
    let mut command = named.0.command(&[]);
    let environment: Vec<_> =
        command.get_envs().map(|(k, v)| (k.to_owned(), v.unwrap().to_owned())).collect();
    command = std::process::Command::new("script");
    command.args(["-qec", &script, "/dev/null"]).env_clear().envs(environment).stdin(Stdio::null());
    if let Ok(output) = command.current_dir(named.0.path("project")).output() {
        let text = stdout(&output);
        let links: Vec<_> = text.lines().filter_map(|line| line.split_once(" -> ")).collect();
        assert!(text.contains("/dev/pts/") && links.len() == 4, "three and the one that lists: {text}");
        assert!(
            links.iter().all(|(_, to)| to.starts_with("/dev/pts/") || to.starts_with("/proc/")),
            "{text}"
        );
    }
    { first }.kill().unwrap();
}

#[test]
fn a_directory_as_a_stream_is_refused() {
    let named = Named::new();
    named.make("a");
    let mut command = named.0.command(&["exec", "a", "--", "true"]);
    let output = command.stdin(fs::File::open("/").unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    // Nor does the guest believe a client that says nothing of it.
    let door = named.door("a");
    let (null, directory) = (fs::File::open("/dev/null").unwrap(), fs::File::open("/").unwrap());
    let exec = Exec { arguments: vec!["/bin/true".into()], directory: "/".into(), ..Exec::default() };
    for at in 0..3 {
        let mut streams = [null.as_fd(); 3];
        streams[at] = directory.as_fd();
        let heard = door.exec(&exec, &streams).unwrap().hear(true).unwrap();
        let refused =
            matches!(&heard, Heard::Event(Event::Failed { message, .. }, _) if message.contains("directory"));
        assert!(refused, "{heard:?}");
    }
    let heard = door.exec(&exec, &[null.as_fd()]).unwrap().hear(true).unwrap();
    assert!(matches!(heard, Heard::Event(Event::Failed { .. }, _)), "two are missing: {heard:?}");
    let mut execution = door.exec(&exec, &[null.as_fd(); 3]).unwrap();
    let heard = execution.hear(true).unwrap();
    assert!(matches!(heard, Heard::Event(Event::Started, _)), "{heard:?}");
    let heard = execution.hear(true).unwrap();
    assert!(matches!(heard, Heard::Event(Event::Ended(_), _)), "{heard:?}");
}

#[test]
fn nonsense_at_the_door_ends_nothing_but_itself() {
    let named = Named::new();
    named.make("a");
    let path = named.0.path("run/pinfold/live/a/door");
    let open = || {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        socket
    };
    for packet in [&[][..], &[0], &[1, 2, 3], &[255; 4096], &[0; 16384]] {
        let socket = open();
        rustix::io::write(&socket, packet).unwrap();
        ok(&named.sh("a", "true"));
    }
    drop((0..100).map(|_| open()).collect::<Vec<_>>());
    // A link, and then not what belongs on it.
    let null = fs::File::open("/dev/null").unwrap();
    for packet in [&[0][..], &[0, 1], &[0, 1, 1, 255, 255, 255, 255], &[0, 9, 1], &[7]] {
        let (ours, theirs) = pinfold_linux::link::Link::pair().unwrap();
        let door = pinfold_linux::link::Link::from(open());
        door.send(&[], &[theirs.as_fd(), null.as_fd(), null.as_fd(), null.as_fd()]).unwrap();
        rustix::io::write(ours.as_fd(), packet).unwrap();
        ok(&named.sh("a", "true"));
    }
    assert_eq!(named.names(), ["a"]);
}

#[test]
fn a_killed_holder_takes_everything_along_and_its_name_is_free() {
    let named = Named::new();
    let mark = mark();
    named.make("a");
    named.make("b");
    ok(&named.sh("a", &format!("sh -c 'trap \"\" TERM HUP; sleep 1000 # {mark}' >/dev/null 2>&1 &")));
    let (child, _out) = named.begin("a", &format!("echo up; sleep 1000 # {mark}"));
    assert!(processes(&mark).len() >= 2);
    let holder = named.holder("a");
    kill(holder);
    let output = child.wait_with_output().unwrap();
    refused(&output, "PF-LIVE-005");
    until("everything inside is gone", || processes(&mark).is_empty());
    refused(&named.sh("a", "true"), "PF-LIVE-013");
    refused(&named.0.run(&["stop", "a"]), "PF-LIVE-013");
    assert_eq!(named.names(), ["b"], "what is left of it is taken away, and no other");
    assert!(named.kept().iter().all(|path| !path.ends_with("a")), "{:?}", named.kept());
    ok(&named.sh("b", "true"));
    named.make("a");
    ok(&named.sh("a", "true"));
    // Taken over where `ps` did not sweep first.
    kill(named.holder("a"));
    until("it is gone", || named.sh("a", "true").status.code() == Some(125));
    named.make("a");
    ok(&named.sh("a", "true"));
    for name in ["a", "b"] {
        ok(&named.0.run(&["stop", name]));
    }
    ok(&named.0.run(&["run", "--", "true"]));
    assert!(below(&named.0.path("project")).is_empty(), "no placeholder is left after the next start");
}

#[test]
fn a_killed_client_takes_its_command_along_and_no_other() {
    let named = Named::new();
    named.make("a");
    let (one, two) = (mark(), mark());
    let (mut first, _) =
        named.begin("a", &format!("trap '' TERM HUP PIPE; echo up; sleep 1000 & sleep 1000; : {one}"));
    let (mut second, _out) = named.begin("a", &format!("echo up; sleep 1000; : {two}"));
    first.kill().unwrap();
    first.wait().unwrap();
    until("its command is gone", || processes(&one).is_empty());
    assert!(!processes(&two).is_empty());
    ok(&named.sh("a", "true"));
    second.kill().unwrap();
    second.wait().unwrap();
}

#[test]
fn what_turns_on_its_minder_keeps_nobody_waiting() {
    let named = Named::new();
    named.make("a");
    for script in [
        "kill -STOP $PPID; sleep 1000",
        "kill -KILL $PPID; sleep 1000",
        "kill -STOP -1; sleep 1000",
        "kill -9 -1; sleep 1000",
    ] {
        let output = named.0.run(&["exec", "a", "--timeout", "2s", "--", "sh", "-c", script]);
        assert!([Some(137), Some(124)].contains(&output.status.code()), "{script}: {output:?}");
        ok(&named.sh("a", "true"));
    }
}

#[test]
fn an_idle_sandbox_ends_and_a_busy_one_does_not() {
    let named = Named::new();
    ok(&named.0.run(&[
        "run",
        "--name",
        "busy",
        "--idle",
        "300ms",
        "--",
        "sh",
        "-c",
        "sleep 1000 >/dev/null 2>&1 &",
    ]));
    ok(&named.0.run(&["run", "--name", "idle", "--idle", "300ms", "--", "true"]));
    until("the idle one is gone", || !named.names().contains(&"idle".to_owned()));
    assert_eq!(named.names(), ["busy"]);
    ok(&named.sh("busy", "true"));
}

#[test]
fn protected_names_are_covered_on_every_command() {
    let named = Named::new();
    for directory in ["project/.git/hooks", "project/.git/objects", "project/.git/refs"] {
        fs::create_dir_all(named.0.path(directory)).unwrap();
    }
    named.0.write("project/.git/HEAD", "ref: refs/heads/main\n");
    named.0.write("project/.git/config", "[core]\n");
    named.make("a");
    named.make("b");
    let plant = "for f in .git/config .git/hooks/x .bashrc .envrc .mcp.json; do (echo planted > $f) 2>/dev/null && echo $f; done; echo x > .git/objects/x && echo objects";
    for name in ["a", "b", "a", "b"] {
        assert_eq!(stdout(&named.sh(name, plant)), "objects\n");
    }
    ok(&named.0.run(&["stop", "a"]));
    assert_eq!(stdout(&named.sh("b", plant)), "objects\n", "one of two has ended");
    named.0.write("project/.git/new", "[core]\n\tbare = false\n");
    fs::rename(named.0.path("project/.git/new"), named.0.path("project/.git/config")).unwrap();
    let covered = "[ -w .git/config ] && echo bare || echo covered";
    until("the cover is back", || stdout(&named.sh("b", covered)) == "covered\n");
    assert_eq!(stdout(&named.sh("b", plant)), "objects\n");
    assert_eq!(named.0.read("project/.git/config"), "[core]\n\tbare = false\n");
}

#[test]
fn limits_are_named() {
    let named = Named::new();
    let bomb = ["--", "/usr/bin/python3", "-c", "x = []\nwhile True: x.append(bytearray(1 << 20))"];
    for _ in 0..5 {
        let output = named.0.run(&[&["run", "--name", "a", "--memory", "48M"][..], &bomb].concat());
        let words = stderr(&output);
        let named_it = output.status.code() == Some(137) && words.contains("killed by limit `memory`");
        assert!(named_it, "{}: {words}", output.status);
        until("it is gone", || named.names().is_empty());
    }
    let options = ["run", "--name", "a", "--cpu", "1s", "--output", "65536", "--", "true"];
    ok(&named.0.run(&options));
    let output = named.sh("a", "while :; do :; done");
    assert!(stderr(&output).contains("killed by limit `cpu`"), "{}", stderr(&output));
    let output = named.0.run(&["exec", "a", "--", "yes"]);
    assert!(stderr(&output).contains("killed by limit `output`"), "{}", stderr(&output));
    // Killed by somebody else, it goes on.
    assert_eq!(named.sh("a", "kill -9 $$").status.code(), Some(137));
    ok(&named.sh("a", "true"));
}

#[test]
fn a_caller_that_is_killed_while_its_sandbox_is_made_leaves_nothing_or_all_of_it() {
    let named = Named::new();
    for _ in 0..20 {
        let mut command = named.0.command(&["run", "--name", "a", "--", "true"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("its holder is there", || {
            named.0.path("run/pinfold/live/a/lock").exists() || child.try_wait().unwrap().is_some()
        });
        child.kill().unwrap_or_default();
        child.wait().unwrap();
        let is_there = || named.0.path("run/pinfold/live/a").exists();
        // Known for a moment, one whose caller is gone may still go; what nobody holds is swept by `ps`.
        until("it can be used or is gone", || {
            named.sh("a", "true").status.success() || (named.names().is_empty() && !is_there())
        });
        if is_there() {
            ok(&named.0.run(&["stop", "a"]));
        }
        assert!(below(&named.0.path("project")).is_empty(), "no placeholder is left");
    }
}
