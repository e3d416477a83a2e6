//! `pinfold policy schema`.

use std::process::ExitCode;

use clap::Args;

use crate::failure::Failure;
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct Schema {}

impl Schema {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        output::data(&text());
        Ok(ExitCode::SUCCESS)
    }
}

/// The schema as a file.
pub(super) fn text() -> String {
    format!("{:#}\n", pinfold_policy::schema::schema())
}
