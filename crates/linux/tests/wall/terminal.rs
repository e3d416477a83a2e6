//! The terminal: the inside has its own, which behaves as the caller's would.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::harness::{Place, callers};

/// A terminal of the caller's, with the example running in it.
struct Terminal {
    outer: File,
    inner: OwnedFd,
    child: Child,
}

const fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Terminal {
    fn start(place: &Place, script: &str) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let outer = openpt(flags).unwrap();
        unlockpt(&outer).unwrap();
        let inner = ioctl_tiocgptpeer(&outer, flags).unwrap();
        tcsetwinsize(&outer, size(31, 97)).unwrap();
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg("--wait").arg(place.program());
        command.arg("--state").arg(place.path("state")).args(["--", "bash", "-c", script]);
        place.as_caller(&mut command);
        let stdio = || Stdio::from(inner.try_clone().unwrap());
        let child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
        Self { outer: outer.into(), inner, child }
    }

    /// Reads until `words` have been shown.
    fn shows(&mut self, words: &str) -> String {
        let mut seen = Vec::new();
        let mut byte = [0];
        while !String::from_utf8_lossy(&seen).contains(words) {
            assert_eq!(self.outer.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&seen));
            seen.push(byte[0]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    }

    fn code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

#[test]
fn the_inside_has_a_terminal_of_its_own_with_the_callers_size() {
    for caller in callers() {
        let place = Place::new(*caller);
        let mut terminal =
            Terminal::start(&place, "tty; stty size; test -t 0 -a -t 1 -a -t 2 && echo all; ls /dev/pts");
        let shown = terminal.shows("ptmx");
        assert!(shown.contains("/dev/pts/0\r\n31 97\r\nall\r\n0"), "{shown:?}");
        assert_eq!(terminal.code(), Some(0));
    }
}

#[test]
fn a_resize_reaches_the_inside() {
    for caller in callers() {
        let place = Place::new(*caller);
        let script = "trap 'stty size; exit 7' WINCH; echo ready; while :; do sleep 0.01; done";
        let mut terminal = Terminal::start(&place, script);
        terminal.shows("ready");
        tcsetwinsize(&terminal.outer, size(11, 22)).unwrap();
        terminal.shows("11 22");
        assert_eq!(terminal.code(), Some(7));
    }
}

#[test]
fn control_c_reaches_the_foreground_job_and_typing_is_passed_on() {
    for caller in callers() {
        let place = Place::new(*caller);
        let script = "read line; echo \"<$line>\"; trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.01; done";
        let mut terminal = Terminal::start(&place, script);
        terminal.outer.write_all(b"typed\r").unwrap();
        terminal.shows("<typed>");
        terminal.shows("ready");
        terminal.outer.write_all(b"\x03").unwrap();
        terminal.shows("caught");
        assert_eq!(terminal.code(), Some(9));
    }
}

#[test]
fn job_control_works_in_an_interactive_shell() {
    for caller in callers() {
        let place = Place::new(*caller);
        let mut terminal = Terminal::start(&place, "exec bash --norc -i");
        // What is typed is shown too, and must not look like what the job says. One process, because a shell
        // that is stopped in the middle of a vfork does not stop.
        terminal.outer.write_all(b"PS1='> '; sh -c 'echo u\"\"p; exec sleep 1000'\r").unwrap();
        terminal.shows("up\r\n");
        // Stopped by the terminal, put in the background, ended from there.
        terminal.outer.write_all(b"\x1a").unwrap();
        terminal.shows("Stopped");
        terminal.shows("> ");
        terminal.outer.write_all(b"bg\r").unwrap();
        terminal.shows("&\r\n");
        terminal.shows("> ");
        terminal.outer.write_all(b"kill %1; wait; echo go\"\"ne\r").unwrap();
        terminal.shows("gone\r\n");
        terminal.outer.write_all(b"exit 5\r").unwrap();
        assert_eq!(terminal.code(), Some(5));
    }
}

#[test]
fn the_callers_terminal_is_put_back() {
    for caller in callers() {
        let place = Place::new(*caller);
        let mut terminal = Terminal::start(&place, "echo ready; read line; stty raw -echo; exit 3");
        terminal.shows("ready");
        let cooked = |terminal: &Terminal| {
            tcgetattr(&terminal.inner).unwrap().local_modes.contains(LocalModes::ICANON)
        };
        assert!(!cooked(&terminal), "raw while it runs");
        terminal.outer.write_all(b"\r").unwrap();
        terminal.child.wait().unwrap();
        assert!(cooked(&terminal), "as before when it is over");
    }
}
