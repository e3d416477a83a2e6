//! `pinfold spawner`: what the library starts to have its sandboxes made. Not for people.

use std::process::ExitCode;

use clap::Args;

use crate::failure::Failure;

#[derive(Args, Debug)]
pub(crate) struct Spawner {
    /// The version that the caller speaks
    spoken: String,
}

impl Spawner {
    /// Serves over standard input, which is a socket.
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let own = env!("CARGO_PKG_VERSION");
        if self.spoken != own {
            let message = format!("the library is of version {} and this program of {own}", self.spoken);
            return Err(Failure::new("PF-LIVE-002", message).hint("install the same version of both"));
        }
        pinfold_engine::live::spawner::serve()?;
        Ok(ExitCode::SUCCESS)
    }
}
