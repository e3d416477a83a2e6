//! One command in a live sandbox: its streams, its time, and what came of it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use pinfold_core::outcome::{Exit, LimitKind, Outcome, Usage, Warning};
use pinfold_linux::live::{self, GRACE, Heard};
use pinfold_linux::wire::{Ended, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;

use super::command::Command;
use super::runner::{Sandbox, lock};
use crate::failure::Failure;
use crate::output::OutputLimiter;

/// Why a command did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It took too long, and was ended.
    #[error("the command was ended after {} ms, which was all the time it had", .0.usage.wall_ms)]
    TimedOut(Box<Outcome>),
    /// There is no such program inside, or it cannot be run.
    #[error("cannot run {program:?} inside")]
    NotStarted {
        /// Which.
        program: OsString,
        /// Why.
        source: io::Error,
    },
    /// It could not be prepared.
    #[error("step `{step}` failed: {message}")]
    Step {
        /// Which.
        step: String,
        /// Why.
        message: String,
    },
    /// The sandbox could not be made, or is gone.
    #[error(transparent)]
    Sandbox(#[from] Failure),
    /// Its streams failed.
    #[error("cannot use the command's streams")]
    Io(#[source] io::Error),
}

impl From<Errno> for ExecError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

impl From<io::Error> for ExecError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Something that a command said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// On its standard output.
    Stdout(Vec<u8>),
    /// On its standard error.
    Stderr(Vec<u8>),
}

/// A command that runs. Dropping it ends the command and all that it started.
#[derive(Debug)]
pub struct Execution {
    sandbox: Sandbox,
    program: OsString,
    link: live::Execution,
    outputs: [Output; 2],
    input: Option<Input>,
    started: Instant,
    deadline: Option<Instant>,
    ends_at_limit: bool,
    max_cpu_seconds: u64,
    limit: Option<LimitKind>,
    ended: Option<Ended>,
    told: bool,
}

/// One stream of output.
#[derive(Debug)]
struct Output {
    pipe: Option<OwnedFd>,
    kept: OutputLimiter,
    limit: u64,
}

/// What is still to be read by the command.
#[derive(Debug)]
struct Input {
    pipe: OwnedFd,
    bytes: Vec<u8>,
    taken: usize,
}

/// Ends a command from anywhere.
#[derive(Debug)]
pub(super) struct Handle(live::Execution);

impl Handle {
    /// One that has ended already does not mind.
    pub(super) fn kill(&self) {
        drop(self.0.kill());
    }
}

/// Signals by which the kernel ends what passes a limit: SIGKILL, SIGXCPU, SIGXFSZ.
const KILLED: i32 = Signal::KILL.as_raw();
const OUT_OF_TIME: i32 = Signal::XCPU.as_raw();
const TOO_LARGE: i32 = Signal::XFSZ.as_raw();

/// How much is read at once.
const CHUNK: usize = 64 << 10;

impl Execution {
    pub(super) fn start(sandbox: Sandbox, command: &Command) -> Result<Self, ExecError> {
        let inner = &sandbox.0;
        let info = inner.blueprint.info();
        lock(&inner.record).started(inner.id, info.backend, command.words()).map_err(Failure::from)?;
        let exec = command.resolve(inner.blueprint.environment(), info.directory.as_path().to_owned());
        let [(out, to_out), (errors, to_errors)] =
            [pipe_with(PipeFlags::CLOEXEC)?, pipe_with(PipeFlags::CLOEXEC)?];
        let (reader, input) = match command.input.is_empty() {
            true => (None, None),
            false => {
                let (reader, pipe) = pipe_with(PipeFlags::CLOEXEC)?;
                rustix::io::ioctl_fionbio(&pipe, true)?;
                (Some(reader), Some(Input { pipe, bytes: command.input.clone(), taken: 0 }))
            }
        };
        let from = reader.as_ref().unwrap_or(&inner.null).as_fd();
        let started = Instant::now();
        let link = inner.door.exec(&exec, &[from, to_out.as_fd(), to_errors.as_fd()]);
        let link = match link {
            Ok(link) => link,
            Err(source) if source.kind() == io::ErrorKind::ArgumentListTooLong => {
                let error = ExecError::NotStarted { program: command.program(), source };
                lock(&inner.record).failed(inner.id, &error.to_string()).map_err(Failure::from)?;
                return Err(error);
            }
            // The door is closed: the sandbox is gone, and knows why.
            Err(_) => return Err(inner.end().err().unwrap_or_else(gone).into()),
        };
        let limit = command.max_output_bytes.unwrap_or(u64::MAX).min(info.max_output_bytes);
        let output = |pipe: OwnedFd| -> Result<Output, ExecError> {
            rustix::io::ioctl_fionbio(&pipe, true)?;
            Ok(Output { pipe: Some(pipe), kept: OutputLimiter::new(limit), limit })
        };
        let time = Duration::from_millis(info.timeout_ms);
        let time = command.timeout.map_or(time, |asked| asked.min(time));
        Ok(Self {
            program: command.program(),
            link,
            outputs: [output(out)?, output(errors)?],
            input,
            started,
            deadline: started.checked_add(time),
            ends_at_limit: info.ends_at_output_limit,
            max_cpu_seconds: exec.max_cpu_seconds.unwrap_or(u64::MAX).min(info.max_cpu_seconds),
            limit: None,
            ended: None,
            told: false,
            sandbox,
        })
    }

    /// Sends its process group a signal, as a terminal would.
    pub fn signal(&self, signal: i32) -> Result<(), ExecError> {
        Ok(self.link.signal(signal)?)
    }

    /// Ends it and all that it started; what came of it is still told.
    pub fn kill(&self) -> Result<(), ExecError> {
        Ok(self.link.kill()?)
    }

    /// Waits for what it says next; nothing when it has ended and everything is said. What is passed on here is also
    /// in the outcome, within the limit.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, ExecError> {
        loop {
            if self.is_over() {
                return Ok(None);
            }
            let (link, outputs, input) = self.wait()?;
            if input {
                self.feed()?;
            }
            for (number, ready) in outputs.into_iter().enumerate() {
                if ready && let Some(bytes) = self.read(number)? {
                    return Ok(Some(if number == 0 { Piece::Stdout(bytes) } else { Piece::Stderr(bytes) }));
                }
            }
            if link {
                self.hear()?;
            }
        }
    }

    /// Waits for its end, and returns what came of it. A time-out is an error; other ends are not.
    pub fn output(mut self) -> Result<Outcome, ExecError> {
        while self.next_piece()?.is_some() {}
        let outcome = self.outcome();
        self.told = true;
        lock(&self.sandbox.0.record).completed(&outcome).map_err(Failure::from)?;
        match outcome.timed_out {
            true => Err(ExecError::TimedOut(Box::new(outcome))),
            false => Ok(outcome),
        }
    }

    /// A handle that ends it.
    pub(super) fn handle(&self) -> Result<Handle, ExecError> {
        let link = self.link.as_fd().try_clone_to_owned()?;
        Ok(Handle(link.into()))
    }

    fn is_over(&self) -> bool {
        self.ended.is_some() && self.outputs.iter().all(|output| output.pipe.is_none())
    }

    /// Waits; which of the link, the two outputs and the input are ready.
    fn wait(&mut self) -> Result<(bool, [bool; 2], bool), ExecError> {
        if self.ended.is_none() && self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            match self.limit {
                // Told to end it, the guest did not: something inside keeps it from that.
                Some(_) => return self.find_gone().map(|()| (false, [false; 2], false)),
                None => self.exceed(LimitKind::Wall)?,
            }
        }
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // What is not said when it has ended is not waited for: a copy of the pipe may be anybody's.
        let left = if self.ended.is_some() { Some(Duration::ZERO) } else { left };
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = vec![PollFd::new(&self.link, PollFlags::IN)];
        let mut places = [None; 3];
        let pipes = self.outputs.iter().map(|output| output.pipe.as_ref().map(|pipe| (pipe, PollFlags::IN)));
        let input = self.input.as_ref().map(|input| (&input.pipe, PollFlags::OUT));
        for (place, pipe) in places.iter_mut().zip(pipes.chain([input])) {
            if let Some((pipe, wanted)) = pipe {
                *place = Some(fds.len());
                fds.push(PollFd::new(pipe, wanted));
            }
        }
        let [out, errors, input] = places;
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = |at: Option<usize>| at.is_some_and(|at| !fds[at].revents().is_empty());
        let ready = (ready(Some(0)) && self.ended.is_none(), [ready(out), ready(errors)], ready(input));
        if self.ended.is_some() {
            for (output, ready) in self.outputs.iter_mut().zip(ready.1) {
                if !ready {
                    output.pipe = None;
                }
            }
        }
        Ok(ready)
    }

    fn feed(&mut self) -> Result<(), ExecError> {
        let Some(input) = &mut self.input else { return Ok(()) };
        match rustix::io::write(&input.pipe, &input.bytes[input.taken..]) {
            Ok(count) => input.taken += count,
            Err(Errno::AGAIN | Errno::INTR) => {}
            // It does not want to read more.
            Err(Errno::PIPE) => input.taken = input.bytes.len(),
            Err(error) => return Err(error.into()),
        }
        if input.taken == input.bytes.len() {
            self.input = None;
        }
        Ok(())
    }

    /// Reads from one output; nothing when there is nothing, or it has ended.
    fn read(&mut self, number: usize) -> Result<Option<Vec<u8>>, ExecError> {
        let output = &mut self.outputs[number];
        let Some(pipe) = &output.pipe else { return Ok(None) };
        let mut bytes = Vec::with_capacity(CHUNK);
        match rustix::io::read(pipe, rustix::buffer::spare_capacity(&mut bytes)) {
            Ok(0) => output.pipe = None,
            Ok(_) => {
                let before = output.kept.total();
                let within = output.kept.append(&bytes);
                bytes.truncate(usize::try_from(output.limit.saturating_sub(before)).unwrap_or(usize::MAX));
                if !within && self.ends_at_limit {
                    self.exceed(LimitKind::Output)?;
                }
                return Ok(Some(bytes).filter(|bytes| !bytes.is_empty()));
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(None)
    }

    /// A limit is passed: it ends. The first one is the one that is told.
    fn exceed(&mut self, limit: LimitKind) -> Result<(), ExecError> {
        if self.ended.is_none() && self.limit.is_none() {
            self.limit = Some(limit);
            self.deadline = Instant::now().checked_add(GRACE);
            // Should the sandbox be gone, that is heard next.
            drop(self.link.kill());
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<(), ExecError> {
        match self.link.hear(false)? {
            Heard::Nothing | Heard::Event(Event::Started | Event::Terminal, _) => Ok(()),
            Heard::Event(Event::Ended(ended), _) => {
                // The kernel kills like that for want of memory, and so does nobody else who is known here.
                if self.limit.is_none() && is_killed(ended.status) {
                    self.limit = self.sandbox.0.limit();
                }
                self.limit = self.limit.or_else(|| kernel_limit(&ended, self.max_cpu_seconds));
                self.ended = Some(ended);
                Ok(())
            }
            Heard::Event(Event::NotStarted(errno), _) => {
                let source = io::Error::from_raw_os_error(errno);
                self.fail(ExecError::NotStarted { program: self.program.clone(), source })
            }
            Heard::Event(Event::Failed { step, message }, _) => self.fail(ExecError::Step { step, message }),
            Heard::Gone => self.find_gone(),
        }
    }

    /// The sandbox is gone, or is to be: nothing is heard of the command any more. If a limit ended it, that is how this
    /// command ended, too.
    fn find_gone(&mut self) -> Result<(), ExecError> {
        match self.sandbox.0.end() {
            Ok(over) if over.limit.or(self.limit).is_some() => {
                self.limit = self.limit.or(over.limit);
                let peak_memory_bytes = over.usage.peak_memory_bytes;
                self.ended = Some(Ended { status: 9, cpu_us: over.usage.cpu_ms * 1000, peak_memory_bytes });
                Ok(())
            }
            Ok(_) => self.fail(gone().into()),
            Err(failure) => self.fail(failure.into()),
        }
    }

    fn fail(&mut self, error: ExecError) -> Result<(), ExecError> {
        self.told = true;
        lock(&self.sandbox.0.record).failed(self.sandbox.0.id, &error.to_string()).map_err(Failure::from)?;
        Err(error)
    }

    fn outcome(&mut self) -> Outcome {
        let inner = &self.sandbox.0;
        let info = inner.blueprint.info();
        let ended = self.ended.unwrap_or_default();
        let near = self.outputs.iter().max_by_key(|output| output.kept.total()).and_then(|output| {
            let (current, max) = (output.kept.total(), output.limit);
            let near = u128::from(current) * 5 >= u128::from(max) * 4;
            near.then_some(Warning { limit_type: LimitKind::Output, current: current.min(max), max })
        });
        let wall_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let late = (wall_ms * 5 >= info.timeout_ms.saturating_mul(4)).then_some(Warning {
            limit_type: LimitKind::Wall,
            current: wall_ms,
            max: info.timeout_ms,
        });
        let output_bytes = self.outputs.iter().map(|output| output.kept.total()).sum();
        let [stdout, stderr] = [0, 1].map(|number| {
            let output = &mut self.outputs[number];
            std::mem::replace(&mut output.kept, OutputLimiter::new(0)).into_said()
        });
        Outcome {
            id: inner.id,
            backend: info.backend,
            exit: exit(ended.status),
            stdout,
            stderr,
            timed_out: self.limit == Some(LimitKind::Wall),
            limit: self.limit,
            usage: Usage {
                wall_ms,
                cpu_ms: ended.cpu_us / 1000,
                peak_memory_bytes: ended.peak_memory_bytes,
                output_bytes,
                ..Usage::default()
            },
            violations: Vec::new(),
            warnings: near.into_iter().chain(late).collect(),
            receipt: info.receipt.clone(),
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        if !self.told {
            // There is nobody to tell that the record cannot be written; the next command is refused for it.
            drop(lock(&self.sandbox.0.record).failed(self.sandbox.0.id, "nobody waited for its end"));
        }
    }
}

/// From a status as wait(2) encodes it.
pub(super) fn exit(status: i32) -> Exit {
    match status & 0x7f {
        0 => Exit::Code(status >> 8 & 0xff),
        signal => Exit::Signal(signal),
    }
}

/// Whether it was killed itself, or says that of a child as shells do.
pub(super) fn is_killed(status: i32) -> bool {
    matches!(exit(status), Exit::Signal(KILLED) | Exit::Code(137))
}

/// The limit that the kernel keeps for each process and ended it for, if it did.
pub(super) fn kernel_limit(ended: &Ended, max_cpu_seconds: u64) -> Option<LimitKind> {
    // The kernel counts whole ticks for this one, and so may be ahead of what it reports.
    let used_up = ended.cpu_us / 1000 + 100 >= max_cpu_seconds.saturating_mul(1000);
    match exit(ended.status) {
        // Ending by a signal of its own choice is no limit.
        Exit::Signal(OUT_OF_TIME | KILLED) if used_up => Some(LimitKind::Cpu),
        Exit::Signal(TOO_LARGE) => Some(LimitKind::Disk),
        _ => None,
    }
}

fn gone() -> Failure {
    Failure::new("PF-LIVE-005", "the sandbox is gone, and the command with it")
        .hint("it was ended, or everything in it was")
}
