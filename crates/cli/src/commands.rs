//! One file per verb.

mod completions;
mod doctor;
mod explain;
mod live;
mod man;
mod policy;
mod run;
mod spawner;

use std::process::ExitCode;

use clap::Subcommand;

use crate::failure::Failure;

// What a verb does stands here, so that help lists it without building the options of any; those of the verb typed are
// built once it is known. No doc comment: clap would take it for what the command above does.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Run a command behind a wall
    ///
    /// The current directory appears inside as /workspace. Nothing else of yours is there: no network, no keys, no other
    /// files, unless the policy says so.
    Run(Box<run::Run>),
    /// Run a command in a sandbox that has a name
    Exec(live::Exec),
    /// List the sandboxes that have a name
    Ps(live::Ps),
    /// End a sandbox that has a name, and everything in it
    Stop(live::Stop),
    /// Show what would be enforced for a command, and where each number came from; runs nothing
    Explain(Box<explain::Explain>),
    /// Say which walls can be used here, what they enforce, and what would enable the rest
    Doctor(doctor::Doctor),
    /// Write, check and show policies
    #[command(subcommand)]
    Policy(policy::Policy),
    /// Make sandboxes for the library
    #[command(hide = true)]
    Spawner(spawner::Spawner),
    /// Print completions for a shell
    ///
    /// For bash: pinfold completions bash > ~/.local/share/bash-completion/completions/pinfold
    Completions(completions::Completions),
    /// Write man pages, one for each command
    ///
    /// Without a directory, prints the page of pinfold itself: pinfold man | man -l -
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
            Self::Exec(command) => command.json,
            Self::Ps(command) => command.json,
            Self::Stop(command) => command.json,
            Self::Spawner(_) | Self::Completions(_) | Self::Man(_) => false,
        }
    }

    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Run(command) => command.run(),
            Self::Exec(command) => command.run(),
            Self::Ps(command) => command.run(),
            Self::Stop(command) => command.run(),
            Self::Spawner(command) => command.run(),
            Self::Explain(command) => command.run(),
            Self::Doctor(command) => command.run(),
            Self::Policy(command) => command.run(),
            Self::Completions(command) => command.run(),
            Self::Man(command) => command.run(),
        }
    }
}
