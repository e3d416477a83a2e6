//! `pinfold run`: one command behind the wall that its policy asks for.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use pinfold_core::event::Event;
use pinfold_core::id::SandboxId;
use pinfold_core::outcome::{LimitKind, Outcome, Warning};
use pinfold_core::plan::Plan;
use pinfold_core::quantity::Span;
use pinfold_core::text::{visible, visible_bytes};
use pinfold_engine::asked::Prepared;
use pinfold_engine::history::HistoryFile;
use pinfold_engine::live::named::{self, Name};
use pinfold_engine::live::visit::Visit;
use pinfold_engine::progress::{Line, Progress};
use pinfold_engine::record::Record;
use pinfold_engine::run::{Job, Output, Ran};
use pinfold_engine::select;

use super::explain::receipt_rows;
use super::live::enter;
use crate::failure::Failure;
use crate::options::{Resolved, RunOptions};
use crate::output;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pinfold run -- python3 -c 'print(\"hello from inside\")'
  pinfold run --profile build -- make
  pinfold run --memory 1G --timeout 5m --zone input=./data:ro -- ./crunch /input")]
pub(crate) struct Run {
    #[command(flatten)]
    options: RunOptions,
    /// Keep the sandbox under this name, for `pinfold exec`
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// End a sandbox with a name that was not used for so long [default: 30m]
    #[arg(long, value_name = "TIME", requires = "name")]
    idle: Option<Span>,
    /// Print what came of it as JSON, the command's output included
    #[arg(long)]
    pub(crate) json: bool,
    /// Show what is used while it runs, on a terminal; with --json, events as lines before the outcome
    #[arg(long)]
    progress: bool,
    /// Say afterwards which mechanism held each promise
    #[arg(long, conflicts_with = "json")]
    receipt: bool,
    /// The command, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Run {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let terminal = !self.json && std::io::stdin().is_terminal();
        let resolved = self.options.resolve(self.command.clone(), terminal)?;
        if let Some(name) = &self.name {
            return self.run_named(&name.parse()?, &resolved);
        }
        let plan = resolved.plan()?;
        let chosen = select::choose(&plan)?.usable()?;
        let mut record = Record::open(&resolved.dirs)?;
        let command = &resolved.request.command;
        let output = if self.json { Output::Capture } else { Output::Forward };
        let id = new_id()?;
        record.started(id, chosen.backend, command)?;
        let mut events = |event: Event| output::event(&event);
        let progress = match self.progress {
            false => Progress::default(),
            true => Progress { line: Line::OnTerminal, events: self.json.then_some(&mut events) },
        };
        let job = Job { id, plan: &plan, chosen, command, output, dirs: &resolved.dirs, progress };
        let Ran { outcome, not_started, output_lost } = match pinfold_engine::run::run(job) {
            Ok(ran) => ran,
            Err(error) => {
                let failure = Failure::from(error);
                record.failed(id, &failure.to_string())?;
                return Err(failure);
            }
        };
        record.completed(&outcome)?;
        if not_started.is_none() {
            remember(&resolved, &plan, &outcome);
        }
        if !self.json {
            say_what_happened(&outcome, &plan);
        }
        if self.receipt {
            output::words(&output::table(&receipt_rows(&outcome.receipt)));
        }
        tell(Ran { outcome, not_started, output_lost }, command, output)
    }

    /// Makes a sandbox with a name, and runs the command in it.
    fn run_named(&self, name: &Name, resolved: &Resolved) -> Result<ExitCode, Failure> {
        let plan = resolved.plan()?;
        let chosen = select::choose(&plan)?.serving().usable()?;
        let prepared = Prepared { dirs: resolved.dirs.clone(), plan, chosen };
        let idle = self.idle.map_or(named::IDLE, |time| Duration::from_millis(time.as_millis()));
        named::start(&prepared, name, new_id()?, idle)?;
        let output = if self.json { Output::Capture } else { Output::Forward };
        let command = &resolved.request.command;
        let visit = Visit { command, environment: &[], directory: None, timeout: None, output };
        enter(&resolved.dirs, name, &visit)
    }
}

fn new_id() -> Result<SandboxId, Failure> {
    pinfold_engine::run::name()
        .map_err(|error| Failure::new("PF-RUN-002", format!("cannot name the sandbox: {error}")))
}

/// Tells what came of a command: its outcome as JSON if its output was kept, why it did not start, what was lost.
pub(super) fn tell(ran: Ran, command: &[OsString], output: Output) -> Result<ExitCode, Failure> {
    let Ran { outcome, not_started, output_lost } = ran;
    if output == Output::Capture {
        output::data(&format!("{}\n", serde_json::to_string(&outcome).map_err(Failure::from)?));
    } else if let Some(why) = not_started {
        let program = command.first().map(|word| visible_bytes(word.as_encoded_bytes()).into_owned());
        output::words(&format!("pinfold: cannot run {}: {why}\n", program.unwrap_or_default()));
    }
    if let Some(error) = output_lost {
        return Err(Failure::new("PF-RUN-003", format!("output was lost: {error}"))
            .hint("the command was ended; make room where its output goes"));
    }
    Ok(ExitCode::from(outcome.exit_status()))
}

/// Says which limit ended a command, where its number is not at hand.
pub(super) fn say_limit(limit: LimitKind) {
    output::words(&format!("pinfold: killed by limit `{}` of its sandbox\n", limit.name()));
}

/// Keeps what the run used for `--limits auto`. It has run: that this fails is told, and changes nothing about it.
fn remember(resolved: &Resolved, plan: &Plan, outcome: &Outcome) {
    let history = HistoryFile::new(&resolved.dirs);
    if let Err(error) = history.remember(&resolved.request.command, &plan.limits, outcome) {
        let (error, hint) = (error.to_string(), error.hint());
        output::words(&format!("pinfold: not remembered: {}\nhint: {}\n", visible(&error), visible(&hint)));
    }
}

/// How near a limit was, in the unit that people set it in.
fn nearness(warning: &Warning) -> String {
    let Warning { limit_type, current, max } = warning;
    let (unit, each) = match limit_type {
        LimitKind::Memory | LimitKind::Disk => (" MB", 1 << 20),
        LimitKind::Cpu | LimitKind::Wall => (" s", 1000),
        LimitKind::Output => (" bytes", 1),
        LimitKind::Processes | LimitKind::Fds => ("", 1),
    };
    let shown = |amount: u64| match (amount % each, each) {
        (rest, 1000) if rest >= 100 => format!("{}.{}", amount / each, rest / 100),
        _ => (amount / each).to_string(),
    };
    format!("{}: {} of {}{unit}", limit_type.name(), shown(*current), shown(*max))
}

/// Which limits were near, which one ended it, what was dropped, and what was moved out of the host's way.
fn say_what_happened(outcome: &Outcome, plan: &Plan) {
    let limits = &plan.limits;
    for warning in &outcome.warnings {
        output::words(&format!("pinfold: warning: {}\n", nearness(warning)));
    }
    if let Some(limit) = outcome.limit {
        let (bound, because) = match limit {
            LimitKind::Cpu => {
                (format!("{} s of CPU time", limits.max_cpu_seconds.value), &limits.max_cpu_seconds.because)
            }
            LimitKind::Memory => {
                (format!("{} MB of memory", limits.max_memory_mb.value), &limits.max_memory_mb.because)
            }
            LimitKind::Disk => {
                (format!("{} MB of disk", limits.max_disk_mb.value), &limits.max_disk_mb.because)
            }
            LimitKind::Wall => (format!("{} ms", limits.timeout_ms.value), &limits.timeout_ms.because),
            LimitKind::Processes => {
                (format!("{} processes", limits.max_processes.value), &limits.max_processes.because)
            }
            LimitKind::Fds => (
                format!("{} descriptors", limits.max_file_descriptors.value),
                &limits.max_file_descriptors.because,
            ),
            LimitKind::Output => (
                format!("{} bytes of output", limits.max_output_bytes.value),
                &limits.max_output_bytes.because,
            ),
        };
        output::words(&format!("pinfold: killed by limit `{}`: {bound} ({because})\n", limit.name()));
    }
    let dropped = outcome.stdout.dropped + outcome.stderr.dropped;
    if dropped > 0 {
        output::words(&format!("pinfold: {dropped} bytes of output were dropped\n"));
    }
    for violation in &outcome.violations {
        output::words(&format!("pinfold: {}: {}\n", violation.control, visible(&violation.what)));
    }
}
