//! The command line: reads what was typed, asks the engine, shows the answer.

mod commands;
mod failure;
mod options;
mod output;

use std::process::ExitCode;

use clap::Parser;

/// Runs what AI agents run, behind walls: one policy, every wall, never silently weaker.
#[derive(Debug, Parser)]
#[command(name = "pinfold", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Exit status: the command's own; 124 on time-out; 125 when Pinfold refuses or fails.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    let json = cli.command.wants_json();
    match cli.command.run() {
        Ok(code) => code,
        Err(failure) => failure::report(&failure, json),
    }
}
