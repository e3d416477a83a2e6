//! A terminal to run things in, as a person would: what is shown, what is typed, how large it is.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::host::{PATIENCE, until};

/// A terminal with a command in it.
#[derive(Debug)]
pub struct Terminal {
    outer: File,
    inner: OwnedFd,
    before: Termios,
    child: Kept,
    /// Everything that was shown so far.
    shown: Vec<u8>,
    /// How much of it was waited for already.
    seen: usize,
}

/// How long a wait goes on before it looks whether there is anybody left to wait for.
const SLICE: Duration = Duration::from_millis(100);

impl Terminal {
    /// Runs `command` in a new terminal of the given size, as the leader of a session that it controls.
    pub fn start(command: &Command, rows: u16, columns: u16) -> Self {
        let outer =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("open a terminal");
        grantpt(&outer).expect("grant a terminal");
        unlockpt(&outer).expect("unlock a terminal");
        let name = ptsname(&outer, Vec::new()).expect("name a terminal");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let inner = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).expect("open a terminal");
        resize(&inner, rows, columns);
        let before = tcgetattr(&inner).expect("ask a terminal");
        let stream = || Stdio::from(inner.try_clone().expect("share a terminal"));
        // setsid(1) makes the terminal the controlling one; started by a fork it does not fork again itself.
        let mut wrapped = Command::new("setsid");
        wrapped.arg("--ctty").arg(command.get_program()).args(command.get_args()).env_clear();
        for (name, value) in command.get_envs() {
            wrapped.env(name, value.unwrap_or_default());
        }
        if let Some(directory) = command.get_current_dir() {
            wrapped.current_dir(directory);
        }
        let child =
            wrapped.stdin(stream()).stdout(stream()).stderr(stream()).spawn().expect("start a command");
        Self { outer: File::from(outer), inner, before, child: Kept(child), shown: Vec::new(), seen: 0 }
    }

    /// Types `text`.
    pub fn type_in(&mut self, text: &str) {
        self.outer.write_all(text.as_bytes()).expect("type");
    }

    /// Waits until `text` is shown, after what was waited for before.
    pub fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.shown[self.seen..].windows(text.len()).position(|part| part == text.as_bytes());
            if let Some(at) = found {
                self.seen += at + text.len();
                return;
            }
            let soon = deadline.min(Instant::now() + SLICE);
            let more = self.read_some(soon) || self.child.0.try_wait().is_ok_and(|ended| ended.is_none());
            assert!(Instant::now() < deadline && more, "{text:?} is not shown: {}", self.shown());
        }
    }

    /// Reads once; false when nothing came in time or the terminal is gone.
    fn read_some(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(&self.outer, PollFlags::IN)];
        poll(&mut fds, Timespec::try_from(left).ok().as_ref()).expect("wait for the terminal");
        if !fds[0].revents().contains(PollFlags::IN) {
            return false;
        }
        let mut buffer = [0; 4096];
        let count = self.outer.read(&mut buffer).expect("read the terminal");
        self.shown.extend(&buffer[..count]);
        count > 0
    }

    /// Everything that was shown.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown).into_owned()
    }

    /// Gives the terminal another size; whoever runs in it is told by the kernel.
    pub fn resize(&self, rows: u16, columns: u16) {
        resize(&self.outer, rows, columns);
    }

    /// Whether the terminal's settings are those that it was opened with.
    pub fn is_restored(&self) -> bool {
        let now = tcgetattr(&self.inner).expect("ask a terminal");
        let settings = |termios: &Termios| {
            (termios.input_modes, termios.output_modes, termios.local_modes, termios.control_modes)
        };
        settings(&now) == settings(&self.before)
    }

    /// The terminal's device as `stat -c %i:%d` writes the end of it: inode and file system.
    pub fn device(&self) -> String {
        let found = rustix::fs::fstat(&self.inner).expect("ask a terminal");
        format!(":{}:{}", found.st_ino, found.st_dev)
    }

    /// Waits for the command to end.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        let ended = until(PATIENCE, || {
            while self.read_some(Instant::now()) {}
            status = self.child.0.try_wait().expect("wait for a command");
            status.is_some()
        });
        assert!(ended, "the command does not end; shown: {}", self.shown());
        status.expect("it ended")
    }

    /// Closes the terminal, as a person closes a window, and waits for the command to end.
    pub fn close(self) {
        let Self { outer, inner, mut child, .. } = self;
        drop((outer, inner));
        let ended = until(PATIENCE, || child.0.try_wait().expect("wait for a command").is_some());
        assert!(ended, "the command goes on without its terminal");
    }
}

fn resize(terminal: impl std::os::fd::AsFd, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("size a terminal");
}

/// A process that is ended with the value: a test that fails half-way leaves nothing running.
#[derive(Debug)]
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            self.0.kill().unwrap_or_default();
            self.0.wait().map(drop).unwrap_or_default();
        }
    }
}
