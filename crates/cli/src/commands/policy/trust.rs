//! `pinfold policy trust`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pinfold_engine::dirs::Dirs;
use pinfold_engine::sources::{POLICY_FILE, untrusted};
use pinfold_engine::trust::TrustStore;
use pinfold_policy::layer::{Trust as Trusted, settle};

use crate::failure::Failure;
use crate::options::{canonical, current_directory};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct Trust {
    /// The policy
    #[arg(value_name = "FILE", default_value = POLICY_FILE)]
    file: PathBuf,
    /// Take trust back
    #[arg(long)]
    revoke: bool,
}

impl Trust {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let dirs = Dirs::of_caller()?;
        let here = current_directory()?;
        let store = TrustStore::new(&dirs);
        let path = canonical(&here, &self.file)?;
        if self.revoke {
            let said = if store.revoke(&path)? { "is no longer trusted" } else { "was not trusted" };
            output::data(&format!("{path} {said}\n"));
            return Ok(ExitCode::SUCCESS);
        }
        let found = untrusted(&dirs, &path)?;
        if found.trust == Trusted::Full {
            output::data(&format!("{path} is trusted already\n"));
            return Ok(ExitCode::SUCCESS);
        }
        if let Err(problems) = settle(&found.layers) {
            output::words("It widens what is in force:\n");
            for problem in problems.iter() {
                let place = problem
                    .place()
                    .map(|place| format!("{}:{}", place.line, place.column))
                    .unwrap_or_default();
                let message = pinfold_core::text::visible(&problem.message).into_owned();
                output::words(&format!("  {place}  {message}\n"));
            }
        }
        store.trust(&path, &found.digest)?;
        output::data(&format!("trusted {path} with content {}\n", &found.digest[..16]));
        Ok(ExitCode::SUCCESS)
    }
}
