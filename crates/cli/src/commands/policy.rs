//! `pinfold policy`: one file per verb.

mod check;
mod init;
mod schema;
mod show;
mod trust;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Write, check and show policies
#[derive(Args, Debug)]
pub(crate) struct Policy {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Init(init::Init),
    Check(check::Check),
    Show(Box<show::Show>),
    Schema(schema::Schema),
    Trust(trust::Trust),
}

impl Policy {
    pub(crate) fn wants_json(&self) -> bool {
        match &self.command {
            Verb::Check(command) => command.json,
            Verb::Show(command) => command.json,
            Verb::Init(_) | Verb::Schema(_) | Verb::Trust(_) => false,
        }
    }

    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            Verb::Init(command) => command.run(),
            Verb::Check(command) => command.run(),
            Verb::Show(command) => command.run(),
            Verb::Schema(command) => command.run(),
            Verb::Trust(command) => command.run(),
        }
    }
}
