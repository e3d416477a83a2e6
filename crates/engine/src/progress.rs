//! Tells of a command while it runs: a line for a person at a terminal, events for a program. Neither holds the
//! command up, and the line never tears what the command says.

use std::fmt;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use pinfold_core::event::Event;
use pinfold_core::outcome::{LimitKind, Warning};
use pinfold_core::plan::Limits;
use pinfold_linux::backend::InUse;
use pinfold_linux::backend::namespace::Running;
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::stdio::{stderr, stdout};
use rustix::termios::{isatty, tcgetwinsize};

use crate::run::{Job, JobError, Output, Streams};

/// How often the line is drawn at most. Nor is there any before: what is over by then needs none.
const PERIOD: Duration = Duration::from_millis(250);
/// Erases from the cursor to the end of the line (ECMA-48, EL).
const ERASE: &str = "\x1b[K";

/// Whether a line on standard error tells what is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Line {
    /// None is wanted.
    #[default]
    No,
    /// On a terminal that nothing else writes to, as far as can be told.
    OnTerminal,
}

/// Who is told while a command runs.
#[derive(Default)]
pub struct Progress<'a> {
    /// A person.
    pub line: Line,
    /// A program.
    pub events: Option<&'a mut dyn FnMut(Event)>,
}

impl fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = self.events.as_ref().map(|_| "…");
        f.debug_struct("Progress").field("line", &self.line).field("events", &events).finish()
    }
}

/// Where the line is drawn.
enum Place {
    Nowhere,
    /// Where the command's own output is shown, which the relay sees all of.
    Relay,
    /// On a terminal that the command says nothing on.
    Own(Screen),
}

impl Place {
    fn new(line: Line, output: Output) -> Self {
        if line == Line::No || !isatty(stderr()) {
            return Self::Nowhere;
        }
        match output {
            Output::Capture => Screen::open().map_or(Self::Nowhere, Self::Own),
            Output::Forward if is_alone() => Self::Relay,
            Output::Forward => Self::Nowhere,
        }
    }
}

/// Whether what goes to standard output does not come out on the terminal by another way: who reads from a pipe may
/// well write to it.
fn is_alone() -> bool {
    let (Ok(out), Ok(error)) = (fstat(stdout()), fstat(stderr())) else { return false };
    match FileType::from_raw_mode(out.st_mode) {
        FileType::RegularFile => true,
        FileType::CharacterDevice => !isatty(stdout()) || out.st_rdev == error.st_rdev,
        _ => false,
    }
}

/// Tells of one command.
pub(crate) struct Teller<'a> {
    events: Option<&'a mut dyn FnMut(Event)>,
    place: Place,
    limits: &'a Limits,
    next: Instant,
    told: Vec<LimitKind>,
}

impl<'a> Teller<'a> {
    pub(crate) fn new(progress: Progress<'a>, job: &Job<'a>) -> Self {
        let place = Place::new(progress.line, job.output);
        let next = Instant::now() + PERIOD;
        let mut teller =
            Self { events: progress.events, place, limits: &job.plan.limits, next, told: Vec::new() };
        teller.tell(Event::ExecutionStarted { id: job.id, backend: job.chosen.backend });
        teller
    }

    /// Looks at what is used, and tells what there is to tell.
    pub(crate) fn look(&mut self, running: &mut Running, streams: &Streams) -> Result<(), JobError> {
        let is_due = !matches!(self.place, Place::Nowhere) && Instant::now() >= self.next;
        if self.events.is_none() && !is_due {
            return Ok(());
        }
        let mut glance = running.glance();
        for warning in glance.warnings.iter().chain(&streams.warning()) {
            self.warn(warning);
        }
        if is_due {
            self.next = Instant::now() + PERIOD;
            let text = line(glance.wall, &glance.in_use, streams.total(), self.limits);
            match &mut self.place {
                Place::Nowhere => {}
                Place::Relay => glance.draw(&text)?,
                Place::Own(screen) => screen.draw(&text),
            }
        }
        Ok(())
    }

    /// The end: no line stays, and what was not told yet is.
    pub(crate) fn end(mut self, warnings: &[Warning], limit: Option<LimitKind>) {
        for warning in warnings {
            self.warn(warning);
        }
        if let Some(limit_type) = limit {
            self.tell(Event::LimitExceeded { limit_type, max: max(limit_type, self.limits) });
        }
    }

    fn warn(&mut self, warning: &Warning) {
        if !self.told.contains(&warning.limit_type) {
            self.told.push(warning.limit_type);
            self.tell(Event::LimitWarning(*warning));
        }
    }

    fn tell(&mut self, event: Event) {
        if let Some(events) = &mut self.events {
            if let Place::Own(screen) = &mut self.place {
                screen.clear();
            }
            events(event);
        }
    }
}

/// How much there is, in the unit of warnings.
fn max(limit: LimitKind, limits: &Limits) -> u64 {
    match limit {
        LimitKind::Cpu => limits.max_cpu_seconds.value.saturating_mul(1000),
        LimitKind::Memory => limits.max_memory_mb.value.saturating_mul(1 << 20),
        LimitKind::Disk => limits.max_disk_mb.value.saturating_mul(1 << 20),
        LimitKind::Wall => limits.timeout_ms.value,
        LimitKind::Processes => limits.max_processes.value,
        LimitKind::Fds => limits.max_file_descriptors.value,
        LimitKind::Output => limits.max_output_bytes.value,
    }
}

/// What is used of what there is, in a line of plain text.
fn line(wall: Duration, in_use: &InUse, output: Option<u64>, limits: &Limits) -> String {
    let seconds = |time: Duration| format!("{}.{}", time.as_secs(), time.subsec_millis() / 100);
    let mut text = format!(
        "{} of {} s, CPU {} of {} s, memory {} of {} MB, processes {} of {}",
        seconds(wall),
        limits.timeout_ms.value.div_ceil(1000),
        seconds(in_use.cpu),
        limits.max_cpu_seconds.value,
        in_use.memory_bytes.div_ceil(1 << 20),
        limits.max_memory_mb.value,
        in_use.processes,
        limits.max_processes.value,
    );
    if let Some(bytes) = output {
        text.push_str(&format!(", output {} KiB", bytes.div_ceil(1 << 10)));
    }
    text
}

/// A terminal of the caller's that the command says nothing on. Writing to it never blocks: a line that it does not take
/// is drawn anew the next time.
struct Screen {
    terminal: OwnedFd,
    drawn: bool,
}

impl Screen {
    fn open() -> Option<Self> {
        // Opened once more, so that nobody else's descriptor becomes non-blocking.
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open("/proc/self/fd/2", flags, Mode::empty()).ok()?;
        Some(Self { terminal, drawn: false })
    }

    fn draw(&mut self, text: &str) {
        let columns = tcgetwinsize(&self.terminal).map_or(0, |size| usize::from(size.ws_col));
        if columns > 0 {
            // One column less: a cursor beyond the last may be on the next line or not.
            let shown: String = text.chars().take(columns - 1).collect();
            self.write(&format!("{shown}{ERASE}\r"));
            self.drawn = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            self.write(ERASE);
        }
    }

    fn write(&self, text: &str) {
        // A terminal that is gone or behind shows nothing, which is no reason to end a command.
        rustix::io::write(&self.terminal, text.as_bytes()).map(drop).unwrap_or_default();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use pinfold_core::origin::Origin;
    use pinfold_core::plan::{Limit, OnOutputLimit};

    use super::*;

    fn limits() -> Limits {
        let limit = |value| Limit { value, because: Origin::Rule("a test") };
        Limits {
            max_cpu_seconds: limit(30),
            cpus: None,
            max_memory_mb: limit(256),
            max_disk_mb: limit(512),
            timeout_ms: limit(60_000),
            max_processes: limit(10),
            max_file_descriptors: limit(256),
            max_output_bytes: limit(65_536),
            on_output_limit: OnOutputLimit::Kill,
        }
    }

    #[test]
    fn the_line_says_what_is_used_of_what_there_is() {
        let in_use = InUse { cpu: Duration::from_millis(4150), memory_bytes: (120 << 20) + 1, processes: 3 };
        let shown = line(Duration::from_millis(12_399), &in_use, Some(14_000), &limits());
        assert_eq!(
            shown,
            "12.3 of 60 s, CPU 4.1 of 30 s, memory 121 of 256 MB, processes 3 of 10, output 14 KiB"
        );
        assert!(line(Duration::ZERO, &in_use, None, &limits()).ends_with("processes 3 of 10"));
    }

    #[test]
    fn a_warning_is_told_once_and_the_limit_that_acted_last() {
        let mut heard = Vec::new();
        let mut hear = |event: Event| heard.push(event);
        let limits = limits();
        let mut teller = Teller {
            events: Some(&mut hear),
            place: Place::Nowhere,
            limits: &limits,
            next: Instant::now(),
            told: Vec::new(),
        };
        let warning = Warning { limit_type: LimitKind::Cpu, current: 24_000, max: 30_000 };
        teller.warn(&warning);
        teller.warn(&Warning { current: 29_000, ..warning });
        teller.end(&[warning], Some(LimitKind::Cpu));
        let exceeded = Event::LimitExceeded { limit_type: LimitKind::Cpu, max: 30_000 };
        assert_eq!(heard, [Event::LimitWarning(warning), exceeded]);
    }
}
