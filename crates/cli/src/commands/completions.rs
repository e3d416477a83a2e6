//! `pinfold completions`.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use crate::failure::Failure;
use crate::{Cli, output};

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut text = Vec::new();
        generate(self.shell, &mut Cli::command(), "pinfold", &mut text);
        output::data(&String::from_utf8_lossy(&text));
        Ok(ExitCode::SUCCESS)
    }
}
