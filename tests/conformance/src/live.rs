//! A run that is still going: what it says line by line, and signals to its supervisor.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::host::{PATIENCE, until};

/// A child of the test, ended with it.
#[derive(Debug)]
pub struct Live {
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    pending: Vec<u8>,
}

impl Live {
    /// Starts `command` with pipes for its input and output; errors go to the test's own.
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("start a command");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        Self { child, input, output, pending: Vec::new() }
    }

    /// The number of the process.
    pub fn id(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a number that the kernel gives")
    }

    /// Waits for the next line of output.
    pub fn line(&mut self) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return String::from_utf8_lossy(&line[..end]).into_owned();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&self.output, PollFlags::IN)];
            poll(&mut fds, Timespec::try_from(left).ok().as_ref()).expect("wait for output");
            assert!(
                !fds[0].revents().is_empty(),
                "no line came; so far: {:?}",
                String::from_utf8_lossy(&self.pending)
            );
            let mut buffer = [0; 4096];
            let count = self.output.read(&mut buffer).expect("read output");
            assert!(count > 0, "the output ended; last: {:?}", String::from_utf8_lossy(&self.pending));
            self.pending.extend(&buffer[..count]);
        }
    }

    /// Types a line.
    pub fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("an open input");
        input.write_all(format!("{line}\n").as_bytes()).expect("write to the command");
    }

    /// Ends the input.
    pub fn hang_up(&mut self) {
        self.input = None;
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.id()).expect("a process"), signal).expect("send a signal");
    }

    /// Waits for the end, and gives the status with the rest of the output. The input stays open unless it
    /// was ended.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let status = self.wait_for_end().expect("the command does not end");
        (status, String::from_utf8_lossy(&self.pending).into_owned())
    }

    /// Waits for the end; gives none when it does not come.
    pub fn wait_for_end(&mut self) -> Option<ExitStatus> {
        let mut status = None;
        until(PATIENCE, || {
            self.drain();
            status = self.child.try_wait().expect("wait for a command");
            status.is_some()
        });
        self.drain();
        status
    }

    /// Reads what is there.
    fn drain(&mut self) {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let mut fds = [PollFd::from_borrowed_fd(self.output.as_fd(), PollFlags::IN)];
            poll(&mut fds, Some(&now)).expect("look for output");
            if !fds[0].revents().contains(PollFlags::IN) {
                return;
            }
            let mut buffer = [0; 65536];
            match self.output.read(&mut buffer).expect("read output") {
                0 => return,
                count => self.pending.extend(&buffer[..count]),
            }
        }
    }
}

impl Drop for Live {
    /// A test that fails half-way leaves nothing running.
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.child.kill().unwrap_or_default();
            self.child.wait().map(drop).unwrap_or_default();
        }
    }
}
