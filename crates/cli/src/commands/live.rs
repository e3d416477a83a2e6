//! `pinfold exec`, `ps` and `stop`: sandboxes with a name.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use pinfold_core::quantity::Span;
use pinfold_core::text::visible;
use pinfold_engine::dirs::Dirs;
use pinfold_engine::live::named::{self, About, Name};
use pinfold_engine::live::visit::{Visit, visit};
use pinfold_engine::run::Output;
use serde_json::json;

use super::run::{say_limit, tell};
use crate::failure::Failure;
use crate::output;

#[derive(Args, Debug)]
#[command(after_help = "\
What the command starts in the background lives on, until the sandbox is stopped.

Examples:
  pinfold run --name build -- ./configure
  pinfold exec build -- make -j2
  pinfold stop build")]
pub(crate) struct Exec {
    /// The sandbox, as `pinfold ps` names it
    #[arg(value_name = "NAME")]
    name: String,
    /// Set a variable, or pass the caller's
    #[arg(long, value_name = "K[=V]")]
    env: Vec<String>,
    /// Where to start, inside
    #[arg(long, value_name = "PATH")]
    directory: Option<String>,
    /// Elapsed time, such as 30s or 5m, if less than the sandbox allows
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
    /// Print what came of it as JSON, the command's output included
    #[arg(long)]
    pub(crate) json: bool,
    /// The command, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Exec {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let name: Name = self.name.parse()?;
        let dirs = Dirs::of_caller()?;
        let environment = self.env.iter().filter_map(|variable| match variable.split_once('=') {
            Some((name, value)) => Some((name.into(), value.into())),
            None => std::env::var_os(variable).map(|value| (variable.into(), value)),
        });
        enter(
            &dirs,
            &name,
            &Visit {
                command: &self.command,
                environment: &environment.collect::<Vec<_>>(),
                directory: self.directory.as_deref(),
                timeout: self.timeout.map(|time| Duration::from_millis(time.as_millis())),
                output: if self.json { Output::Capture } else { Output::Forward },
            },
        )
    }
}

/// Runs a command in the sandbox and tells what came of it.
pub(super) fn enter(dirs: &Dirs, name: &Name, asked: &Visit<'_>) -> Result<ExitCode, Failure> {
    let (door, about) = named::enter(dirs, name)?;
    let ran = visit(&door, &about, asked)?;
    if let (Some(limit), Output::Forward) = (ran.outcome.limit, asked.output) {
        say_limit(limit);
    }
    tell(ran, asked.command, asked.output)
}

#[derive(Args, Debug)]
pub(crate) struct Ps {
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Ps {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let all = named::list(&Dirs::of_caller()?)?;
        if self.json {
            output::data(&format!("{:#}\n", json!(all.iter().map(shown).collect::<Vec<_>>())));
            return Ok(ExitCode::SUCCESS);
        }
        let mut rows = vec![["NAME", "BACKEND", "AGE", "WORKSPACE"].map(str::to_owned).to_vec()];
        rows.extend(all.iter().map(|about| {
            let workspace = about.workspace.as_ref().map_or_else(String::new, ToString::to_string);
            vec![visible(&about.name).into_owned(), about.backend.to_string(), age(about), workspace]
        }));
        match all.is_empty() {
            true => output::words("no sandbox has a name; make one: pinfold run --name NAME -- COMMAND\n"),
            false => output::data(&output::table(&rows)),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn shown(about: &About) -> serde_json::Value {
    json!({
        "name": about.name,
        "id": about.id,
        "backend": about.backend,
        "workspace": about.workspace,
        "since_ms": about.since_ms,
        "pid": about.pid,
    })
}

fn age(about: &About) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = (now.as_millis() as u64).saturating_sub(about.since_ms) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

#[derive(Args, Debug)]
pub(crate) struct Stop {
    /// The sandbox, as `pinfold ps` names it
    #[arg(value_name = "NAME")]
    name: String,
    /// Print what came of it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Stop {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let name: Name = self.name.parse()?;
        let over = named::stop(&Dirs::of_caller()?, &name)?;
        if self.json {
            output::data(&format!("{}\n", serde_json::to_string(&over).map_err(Failure::from)?));
        } else {
            for violation in &over.violations {
                output::words(&format!("pinfold: {}: {}\n", violation.control, visible(&violation.what)));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
