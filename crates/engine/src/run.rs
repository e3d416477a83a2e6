//! Drives one command behind the wall chosen for it: passes its output on within the limit, and tells what came of it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use pinfold_core::control::Control;
use pinfold_core::coverage::ReceiptLine;
use pinfold_core::id::SandboxId;
use pinfold_core::outcome::{Certainty, LimitKind, Outcome, Said, Usage, Violation, Warning};
use pinfold_core::plan::{OnOutputLimit, Plan};
use pinfold_linux::backend::namespace::{self, Turn, Until};
use pinfold_linux::backend::{Finished, Launch, RunError, Stdio, Task};
use pinfold_linux::environment;
use rustix::buffer::spare_capacity;

use crate::dirs::Dirs;
use crate::output::OutputLimiter;
use crate::progress::{Progress, Teller};
use crate::select::Chosen;

/// Where a command's output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Into the outcome.
    Capture,
    /// To the caller's own streams, as it comes. A terminal is replaced by one of the sandbox.
    Forward,
}

/// One command, ready to run.
#[derive(Debug)]
pub struct Job<'a> {
    /// The name of its sandbox.
    pub id: SandboxId,
    /// What must hold.
    pub plan: &'a Plan,
    /// The wall that holds it.
    pub chosen: Chosen,
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// Where its output goes.
    pub output: Output,
    /// Where state is kept.
    pub dirs: &'a Dirs,
    /// Who is told while it runs.
    pub progress: Progress<'a>,
}

/// What came of a job, and why its program could not be started, if it could not.
#[derive(Debug)]
pub struct Ran {
    /// The outcome.
    pub outcome: Outcome,
    /// Why the program could not be started.
    pub not_started: Option<io::Error>,
    /// Why output could not be passed on, if it could not; the command was ended for it.
    pub output_lost: Option<io::Error>,
}

/// Why a job failed.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The wall failed.
    #[error(transparent)]
    Wall(#[from] RunError),
    /// The pipes for output cannot be used.
    #[error("cannot take output over")]
    Output(#[source] io::Error),
}

/// Runs a job to its end. The caller must be single-threaded.
pub fn run(mut job: Job<'_>) -> Result<Ran, JobError> {
    let mut teller = Teller::new(std::mem::take(&mut job.progress), &job);
    let environment = environment::resolve(&job.plan.environment, |name| std::env::var_os(name));
    let stdio = match job.output {
        Output::Capture => Stdio::Capture,
        Output::Forward => Stdio::Relay,
    };
    let launch = Launch {
        id: job.id,
        plan: job.plan,
        task: Task::Command { words: job.command, stdio },
        environment: &environment,
        state: &job.dirs.state,
        sweeps: true,
    };
    let mut running = namespace::start(&launch)?;
    let mut streams =
        Streams::new(running.take_output(), job.output, job.plan.limits.max_output_bytes.value)?;
    let mut ends_at_limit = job.plan.limits.on_output_limit == OnOutputLimit::Kill;
    let mut output_lost = None;
    loop {
        let turn = running.turn(&streams.waits())?;
        let Turn::Going { ready } = turn else { break };
        teller.look(&mut running, &streams)?;
        match streams.pass(&ready) {
            Ok(true) => {}
            Ok(false) if ends_at_limit => {
                ends_at_limit = false;
                running.exceed(LimitKind::Output)?;
            }
            Ok(false) => {}
            // What was said is lost, and what the run left behind must still be looked at.
            Err(error) => {
                streams.close();
                output_lost.get_or_insert(error);
                running.kill()?;
            }
        }
    }
    if let Err(error) = streams.drain() {
        output_lost.get_or_insert(error);
    }
    let mut finished = running.finish()?;
    finished.warnings.extend(streams.warning());
    teller.end(&finished.warnings, finished.limit);
    let violations = violations(&finished, job.plan);
    let [stdout, stderr] = streams.said();
    let output_bytes =
        stdout.bytes.len() as u64 + stdout.dropped + stderr.bytes.len() as u64 + stderr.dropped;
    let receipt = admitting(job.chosen.receipt, &finished.left);
    let usage = usage(&finished.usage, output_bytes);
    let outcome = Outcome {
        id: job.id,
        backend: job.chosen.backend,
        exit: finished.exit,
        stdout,
        stderr,
        timed_out: finished.limit == Some(LimitKind::Wall),
        limit: finished.limit,
        usage,
        violations,
        warnings: finished.warnings,
        receipt,
    };
    Ok(Ran { outcome, not_started: finished.not_started, output_lost })
}

/// What a wall counted, as outcomes tell it.
pub(crate) fn usage(used: &pinfold_linux::backend::Usage, output_bytes: u64) -> Usage {
    Usage {
        wall_ms: u64::try_from(used.wall.as_millis()).unwrap_or(u64::MAX),
        cpu_ms: u64::try_from(used.cpu.as_millis()).unwrap_or(u64::MAX),
        peak_memory_bytes: used.peak_memory_bytes,
        peak_processes: used.peak_processes,
        // Nothing cheap tells: what a process did to disk is lost with it, and control groups miss page cache.
        bytes_read: 0,
        bytes_written: 0,
        output_bytes,
    }
}

/// A new name for a sandbox.
pub fn name() -> io::Result<SandboxId> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(SandboxId::from_random(bytes))
}

/// How many things left open are named in one line of a receipt.
const NAMED: usize = 3;

/// The receipt, telling what the covers of this run leave open.
pub(crate) fn admitting(mut receipt: Vec<ReceiptLine>, left: &[(Control, String)]) -> Vec<ReceiptLine> {
    for line in &mut receipt {
        let mut open =
            left.iter().filter(|(control, _)| *control == line.control).map(|(_, what)| what.as_str());
        let mut told: Vec<&str> =
            Some(line.detail.as_str()).filter(|detail| !detail.is_empty()).into_iter().collect();
        told.extend(open.by_ref().take(NAMED));
        let more = open.count();
        let mut detail = told.join("; ");
        if more > 0 {
            detail.push_str(&format!("; and {more} more"));
        }
        line.detail = detail;
    }
    receipt
}

/// What was left behind tells what was attempted, and the kernel counts what it refused.
pub(crate) fn violations(finished: &Finished, plan: &Plan) -> Vec<Violation> {
    let left = finished.end.findings().map(|what| Violation {
        control: Control::FilesProtected,
        what,
        certainty: Certainty::Inferred,
    });
    let refused = (finished.refused_forks > 0).then(|| Violation {
        control: Control::LimitProcesses,
        what: format!(
            "{} more processes or threads were refused beyond {}",
            finished.refused_forks, plan.limits.max_processes.value
        ),
        certainty: Certainty::Observed,
    });
    left.chain(refused).collect()
}

/// Standard output and error on their way.
pub(crate) struct Streams([Stream; 2]);

impl Streams {
    pub(crate) fn new(
        (stdout, stderr): (Option<OwnedFd>, Option<OwnedFd>),
        output: Output,
        limit: u64,
    ) -> Result<Self, JobError> {
        let to = |fd| (output == Output::Forward).then_some(fd);
        Ok(Self([
            Stream::new(stdout, to(rustix::stdio::stdout()), limit)?,
            Stream::new(stderr, to(rustix::stdio::stderr()), limit)?,
        ]))
    }

    /// What each stream waits for.
    pub(crate) fn waits(&self) -> Vec<(BorrowedFd<'_>, Until)> {
        self.0.iter().filter_map(Stream::waits).collect()
    }

    /// Moves what can be moved; false once a stream is beyond its limit.
    pub(crate) fn pass(&mut self, ready: &[usize]) -> io::Result<bool> {
        let waiting = self.0.iter_mut().filter(|stream| stream.waits().is_some());
        for (at, stream) in waiting.enumerate() {
            if ready.contains(&at) {
                stream.step()?;
            }
        }
        Ok(self.0.iter().all(|stream| stream.within))
    }

    /// Moves what is left once everything inside is gone. What is not there by now is not waited for: a copy of the
    /// other end may have been handed to somebody else.
    pub(crate) fn drain(&mut self) -> io::Result<()> {
        for stream in &mut self.0 {
            while stream.waits().is_some() {
                if stream.step()? == Step::Nothing {
                    stream.from = None;
                }
            }
        }
        Ok(())
    }

    /// Gives up on both: the command learns of it by SIGPIPE.
    pub(crate) fn close(&mut self) {
        for stream in &mut self.0 {
            (stream.from, stream.passed) = (None, stream.pending.len());
        }
    }

    /// At four fifths of the limit, of the stream that is nearest to it.
    pub(crate) fn warning(&self) -> Option<Warning> {
        let said = self.0.iter().max_by_key(|stream| stream.total)?;
        let near = u128::from(said.total) * 5 >= u128::from(said.limit) * 4;
        near.then_some(Warning {
            limit_type: LimitKind::Output,
            current: said.total.min(said.limit),
            max: said.limit,
        })
    }

    /// How much was said, where it comes this way: what goes to a terminal does not.
    pub(crate) fn total(&self) -> Option<u64> {
        let [stdout, stderr] = &self.0;
        (stdout.counts || stderr.counts).then_some(stdout.total + stderr.total)
    }

    pub(crate) fn said(self) -> [Said; 2] {
        self.0.map(Stream::said)
    }
}

/// One stream: from the sandbox into memory, or on to the caller.
struct Stream {
    from: Option<OwnedFd>,
    /// Whether there ever was something to read from.
    counts: bool,
    to: Option<BorrowedFd<'static>>,
    /// Read, and not yet passed on.
    pending: Vec<u8>,
    passed: usize,
    kept: OutputLimiter,
    limit: u64,
    total: u64,
    within: bool,
}

/// Whether a stream moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It did, or it ended.
    Moved,
    /// There was nothing to read just now.
    Nothing,
}

/// What a pipe holds unless told otherwise (pipe(7)).
const PIPE: usize = 64 << 10;

/// What a pipe takes without blocking once it is writable (pipe(7)).
const PIECE: usize = 4096;

impl Stream {
    fn new(from: Option<OwnedFd>, to: Option<BorrowedFd<'static>>, limit: u64) -> Result<Self, JobError> {
        if let Some(from) = &from {
            rustix::io::ioctl_fionbio(from, true).map_err(|error| JobError::Output(error.into()))?;
        }
        let kept = OutputLimiter::new(limit);
        let counts = from.is_some();
        Ok(Self { from, counts, to, pending: Vec::new(), passed: 0, kept, limit, total: 0, within: true })
    }

    fn waits(&self) -> Option<(BorrowedFd<'_>, Until)> {
        match (&self.from, self.to) {
            (_, Some(to)) if self.passed < self.pending.len() => Some((to, Until::Writable)),
            (Some(from), _) => Some((from.as_fd(), Until::Readable)),
            (None, _) => None,
        }
    }

    fn step(&mut self) -> io::Result<Step> {
        if self.passed < self.pending.len() { self.write() } else { self.read() }
    }

    fn read(&mut self) -> io::Result<Step> {
        let Some(from) = &self.from else { return Ok(Step::Moved) };
        self.pending.clear();
        self.passed = 0;
        // Memory that was only reserved costs nothing until something comes: most commands say little.
        self.pending.reserve(PIPE);
        let count = match rustix::io::read(from, spare_capacity(&mut self.pending)) {
            Ok(count) => count,
            Err(rustix::io::Errno::AGAIN) => return Ok(Step::Nothing),
            Err(rustix::io::Errno::INTR) => return Ok(Step::Moved),
            Err(error) => return Err(error.into()),
        };
        if count == 0 {
            self.from = None;
            return Ok(Step::Moved);
        }
        let room = self.limit.saturating_sub(self.total);
        self.total += count as u64;
        self.within &= self.total <= self.limit;
        match self.to {
            None => {
                self.kept.append(&self.pending);
                self.pending.clear();
            }
            Some(_) => self.pending.truncate(usize::try_from(room).unwrap_or(usize::MAX)),
        }
        Ok(Step::Moved)
    }

    fn write(&mut self) -> io::Result<Step> {
        let Some(to) = self.to else { return Ok(Step::Moved) };
        let end = self.pending.len().min(self.passed + PIECE);
        match rustix::io::write(to, &self.pending[self.passed..end]) {
            Ok(count) => self.passed += count,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::PIPE) => {
                // Nobody reads any more. The command learns of it as it would without us: by SIGPIPE.
                (self.from, self.passed) = (None, self.pending.len());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Step::Moved)
    }

    /// What was kept; for a stream that was passed on, only how much was dropped.
    fn said(self) -> Said {
        match self.to {
            None => self.kept.into_said(),
            Some(_) => Said { bytes: Vec::new(), dropped: self.total.saturating_sub(self.limit) },
        }
    }
}
