//! `pinfold policy`: one file per verb.

mod check;
mod init;
mod schema;
mod show;
mod trust;

use std::process::ExitCode;

use clap::Subcommand;

use crate::failure::Failure;

// As in `commands`: what a verb does, its options once it is typed.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Policy {
    /// Write a first policy that fits the project
    ///
    /// Looks at what kind of project it is and which toolchains you have, asks for a profile on a terminal, and writes
    /// sandbox.policy.yaml with a schema beside it, so that editors complete it. What it wrote is trusted; after you
    /// change it, trust it again.
    Init(init::Init),
    /// Check policies: every mistake, with its line and column
    ///
    /// Without a file, checks sandbox.policy.yaml of the current directory. What the file would widen unless you trust
    /// it is said, and is no mistake.
    Check(check::Check),
    /// Show the policy in force, and where each value came from
    Show(Box<show::Show>),
    /// Print the JSON Schema of a policy, with which editors complete and check it
    Schema(schema::Schema),
    /// Let a workspace's policy widen what is in force: exactly this content, until it changes
    ///
    /// A policy that is merely found in a workspace can only narrow, for anybody may have written it. Trust covers its
    /// content and that of every file it extends; after any change it must be given again.
    Trust(trust::Trust),
}

impl Policy {
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Self::Check(command) => command.json,
            Self::Show(command) => command.json,
            Self::Init(_) | Self::Schema(_) | Self::Trust(_) => false,
        }
    }

    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Init(command) => command.run(),
            Self::Check(command) => command.run(),
            Self::Show(command) => command.run(),
            Self::Schema(command) => command.run(),
            Self::Trust(command) => command.run(),
        }
    }
}
