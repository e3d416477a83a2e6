//! `--progress`: a line on a terminal that goes away for what the command says, and events for programs. The command
//! waits for its input, so that nothing here depends on how fast anything is.
#![allow(clippy::unwrap_used)]

mod place;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use place::{Place, stderr, stdout};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;

const ERASE: &str = "\u{1b}[K";
/// The beginning of what the line says of memory.
const MEMORY: &str = ", memory ";

/// A terminal of the caller's.
struct Terminal {
    outer: File,
    inner: OwnedFd,
    seen: String,
}

impl Terminal {
    fn new() -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let outer = openpt(flags).unwrap();
        unlockpt(&outer).unwrap();
        let inner = ioctl_tiocgptpeer(&outer, flags).unwrap();
        tcsetwinsize(&outer, Winsize { ws_row: 31, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        Self { outer: outer.into(), inner, seen: String::new() }
    }

    fn stdio(&self) -> Stdio {
        self.inner.try_clone().unwrap().into()
    }

    /// Reads until `words` are shown after what was asked for before, and gives what came up to them.
    fn shows(&mut self, words: &str) -> String {
        self.seen.clear();
        let mut byte = [0];
        while !self.seen.ends_with(words) {
            self.outer.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error}: {:?}", self.seen));
            self.seen.push(char::from(byte[0]));
        }
        self.seen.clone()
    }

    /// What is left when nobody has the terminal open any more.
    fn rest(self) -> String {
        let Self { mut outer, inner, .. } = self;
        drop(inner);
        let (mut rest, mut byte) = (String::new(), [0]);
        // EIO is the end (pty(7)).
        while outer.read_exact(&mut byte).is_ok() {
            rest.push(char::from(byte[0]));
        }
        rest
    }
}

/// Lets the command go on.
fn go_on(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
}

fn progress(place: &Place, options: &[&str], script: &str) -> Command {
    let mut command =
        place.command(&[&["run", "--progress"][..], options, &["--", "sh", "-c", script]].concat());
    command.stdin(Stdio::piped());
    command
}

#[test]
fn the_line_makes_way_for_what_the_command_says() {
    let (place, mut terminal) = (Place::new(), Terminal::new());
    let script = "read x; echo said >&2; read x; printf asked: >&2; read x; echo over >&2; read x";
    let mut command = progress(&place, &[], script);
    // Everything on the terminal, as a person has it, but for the input.
    let mut child = command.stdout(terminal.stdio()).stderr(terminal.stdio()).spawn().unwrap();
    drop(command);
    let line = terminal.shows(MEMORY);
    assert!(line.contains(" of 60 s, CPU ") && !line.contains('\n'), "{line:?}");
    terminal.shows(" of 10");
    go_on(&mut child);
    let said = terminal.shows("said\r\n");
    assert!(said.ends_with(&format!("{ERASE}said\r\n")), "{said:?}");
    terminal.shows(MEMORY);
    go_on(&mut child);
    let asked = terminal.shows("asked:");
    assert!(asked.ends_with(&format!("{ERASE}asked:")), "{asked:?}");
    // Behind a question nothing is drawn until the line is over.
    go_on(&mut child);
    assert_eq!(terminal.shows("over\r\n"), "over\r\n");
    terminal.shows(MEMORY);
    go_on(&mut child);
    assert!(child.wait().unwrap().success());
    let rest = terminal.rest();
    assert!(rest.ends_with(&format!("\r{ERASE}")) && !rest.contains('\n'), "{rest:?}");
}

#[test]
fn output_that_is_kept_or_saved_has_no_trace_of_the_line() {
    for options in [&["--json"][..], &[]] {
        let (place, mut terminal) = (Place::new(), Terminal::new());
        let file = File::create(place.path("said")).unwrap();
        let mut command = progress(&place, options, "echo said; read x");
        let mut child = command.stdout(file).stderr(terminal.stdio()).spawn().unwrap();
        drop(command);
        terminal.shows(MEMORY);
        go_on(&mut child);
        assert!(child.wait().unwrap().success());
        let rest = terminal.rest();
        assert!(rest.ends_with(&format!("\r{ERASE}")), "{options:?}: {rest:?}");
        let said = place.read("said");
        match options {
            [] => assert_eq!(said, "said\n"),
            _ => {
                let outcome: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
                assert_eq!(outcome["stdout"], "said\n");
            }
        }
    }
}

#[test]
fn without_a_terminal_there_is_no_line() {
    let place = Place::new();
    // Long enough for a line to be due: time is up.
    let output = place.run(&["run", "--progress", "--timeout", "700ms", "--", "sleep", "1000"]);
    assert_eq!(output.status.code(), Some(124));
    assert!(output.stdout.is_empty() && !stderr(&output).contains(MEMORY), "{}", stderr(&output));
}

#[test]
fn programs_hear_of_limits_as_lines_of_json() {
    let place = Place::new();
    let busy = ["--", "sh", "-c", "echo said; while :; do :; done"];
    let output = place.run(&[&["run", "--progress", "--json", "--cpu", "1s"][..], &busy].concat());
    assert_eq!(output.status.code(), Some(137), "{}", stderr(&output));
    let text = stdout(&output);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [started, warning, exceeded, outcome] = &lines[..] else { panic!("{text}") };
    assert_eq!((&started["event"], &started["id"]), (&"execution.started".into(), &outcome["id"]));
    assert_eq!((&warning["event"], &warning["limitType"]), (&"limit.warning".into(), &"cpu".into()));
    let current = warning["current"].as_u64().unwrap();
    assert!(current >= 800 && warning["max"] == 1000, "{warning}");
    assert_eq!(*exceeded, serde_json::json!({ "event": "limit.exceeded", "limitType": "cpu", "max": 1000 }));
    assert_eq!((&outcome["limit"], &outcome["stdout"]), (&"cpu".into(), &"said\n".into()));
    // The outcome alone, where no events are asked for.
    let plain = place.run(&["run", "--json", "--", "true"]);
    assert_eq!(stdout(&plain).lines().count(), 1);
}

#[test]
fn a_reader_of_events_that_leaves_does_not_end_the_command() {
    let place = Place::new();
    let mut command = progress(&place, &["--json"], "read x; echo done > done");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut started = [0; 1];
    child.stdout.as_mut().unwrap().read_exact(&mut started).unwrap();
    drop(child.stdout.take());
    go_on(&mut child);
    child.wait().unwrap();
    assert_eq!(place.read("project/done"), "done\n");
}
