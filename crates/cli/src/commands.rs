//! One file per verb.

mod completions;
mod explain;
mod man;
mod policy;

use std::process::ExitCode;

use clap::Subcommand;

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Explain(Box<explain::Explain>),
    Policy(policy::Policy),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Command {
    /// Whether errors, too, are to be JSON.
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Self::Explain(command) => command.json,
            Self::Policy(command) => command.wants_json(),
            Self::Completions(_) | Self::Man(_) => false,
        }
    }

    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Explain(command) => command.run(),
            Self::Policy(command) => command.run(),
            Self::Completions(command) => command.run(),
            Self::Man(command) => command.run(),
        }
    }
}
