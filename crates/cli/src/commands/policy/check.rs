//! `pinfold policy check`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pinfold_engine::dirs::Dirs;
use pinfold_engine::sources::{POLICY_FILE, untrusted};
use pinfold_policy::layer::{Trust, settle};
use serde_json::json;

use crate::failure::Failure;
use crate::options::{canonical, current_directory};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct Check {
    /// Policy files
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Check {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let dirs = Dirs::of_caller()?;
        let here = current_directory()?;
        let files = if self.files.is_empty() { vec![PathBuf::from(POLICY_FILE)] } else { self.files };
        let mut checked = Vec::new();
        for file in &files {
            let path = canonical(&here, file).map_err(|failure| match files.len() {
                1 if file.as_os_str() == POLICY_FILE => failure.hint("pinfold policy init writes one"),
                _ => failure,
            })?;
            let found = untrusted(&dirs, &path)?;
            // On its own: no other layer has a say in whether a document is well made.
            let alone: Vec<_> = found.layers.iter().cloned().map(|layer| layer.trusted()).collect();
            settle(&alone)?;
            let widens = match found.trust {
                Trust::Full => Vec::new(),
                Trust::NarrowOnly => match settle(&found.layers) {
                    Ok(_) => Vec::new(),
                    Err(problems) => problems.iter().map(|problem| problem.message.clone()).collect(),
                },
            };
            checked.push((path, found.trust, widens));
        }
        if self.json {
            let list: Vec<_> = checked
                .iter()
                .map(|(path, trust, widens)| json!({ "file": path, "trusted": *trust == Trust::Full, "widens": widens }))
                .collect();
            output::data(&format!("{:#}\n", json!({ "checked": list })));
            return Ok(ExitCode::SUCCESS);
        }
        for (path, _, widens) in &checked {
            output::data(&format!("{path}: no mistakes\n"));
            if let Some(first) = widens.first() {
                let more = match widens.len() {
                    1 => String::new(),
                    n => format!(", and {} more", n - 1),
                };
                output::words(&format!(
                    "note: found in a workspace it would be refused until trusted: {first}{more}\n"
                ));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
