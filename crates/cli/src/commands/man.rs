//! `pinfold man`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};

use crate::failure::Failure;
use crate::{Cli, output};

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The directory to write to
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let fail = |error: std::io::Error| {
            Failure::new("PF-CLI-006", format!("cannot write man pages: {error}"))
                .hint("name a directory that exists and can be written")
        };
        match self.directory {
            Some(directory) => clap_mangen::generate_to(Cli::command(), directory).map_err(fail)?,
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(fail)?;
                output::data(&String::from_utf8_lossy(&page));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
