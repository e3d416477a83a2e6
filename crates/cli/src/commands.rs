//! One file per verb.

mod completions;
mod doctor;
mod explain;
mod man;
mod policy;
mod run;

use std::process::ExitCode;

use clap::Subcommand;

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<run::Run>),
    Explain(Box<explain::Explain>),
    Doctor(doctor::Doctor),
    Policy(policy::Policy),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Command {
    /// Whether errors, too, are to be JSON.
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Self::Run(command) => command.json,
            Self::Explain(command) => command.json,
            Self::Doctor(command) => command.json,
            Self::Policy(command) => command.wants_json(),
            Self::Completions(_) | Self::Man(_) => false,
        }
    }

    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Run(command) => command.run(),
            Self::Explain(command) => command.run(),
            Self::Doctor(command) => command.run(),
            Self::Policy(command) => command.run(),
            Self::Completions(command) => command.run(),
            Self::Man(command) => command.run(),
        }
    }
}
