//! `pinfold policy init`: a first policy that fits the project.

use std::fs::OpenOptions;
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use pinfold_core::path::AbsPath;
use pinfold_core::plan::Reads;
use pinfold_engine::dirs::Dirs;
use pinfold_engine::sources::{POLICY_FILE, untrusted};
use pinfold_engine::surroundings::surroundings;
use pinfold_engine::trust::TrustStore;
use pinfold_policy::profile::Profile;

use super::schema;
use crate::failure::Failure;
use crate::options::{canonical, current_directory};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct Init {
    /// The profile to build on, instead of asking
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The project [default: the current directory]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Replace a policy that is there
    #[arg(long)]
    force: bool,
}

/// Where the schema goes, relative to the project.
const SCHEMA_FILE: &str = ".pinfold/policy.schema.json";

/// Kinds of project: the file that tells, and what building it leaves behind that nobody needs to read.
const KINDS: &[(&str, &str)] = &[
    ("Cargo.toml", "Rust"),
    ("package.json", "Node"),
    ("pyproject.toml", "Python"),
    ("requirements.txt", "Python"),
    ("setup.py", "Python"),
    ("go.mod", "Go"),
    ("pom.xml", "Java"),
    ("build.gradle", "Java"),
    ("build.gradle.kts", "Kotlin"),
    ("Gemfile", "Ruby"),
    ("composer.json", "PHP"),
    ("CMakeLists.txt", "C or C++"),
    ("Makefile", "make"),
    ("Package.swift", "Swift"),
    ("build.zig", "Zig"),
    ("mix.exs", "Elixir"),
];

impl Init {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let dirs = Dirs::of_caller()?;
        let here = current_directory()?;
        let project = match &self.directory {
            Some(directory) => canonical(&here, directory)?,
            None => here,
        };
        let file = project.as_path().join(POLICY_FILE);
        if file.symlink_metadata().is_ok() && !self.force {
            return Err(Failure::new("PF-CLI-007", format!("{} is there already", file.display()))
                .hint("edit it, or replace it with --force"));
        }
        let kinds = kinds(project.as_path());
        let profile = match &self.profile {
            Some(name) => name.parse().map_err(|error: pinfold_policy::profile::UnknownProfile| {
                Failure::new("PF-CLI-008", error.to_string())
            })?,
            None => ask(&kinds)?,
        };
        let toolchains: Vec<String> = surroundings(&dirs, Reads::Toolchains)
            .toolchains
            .into_iter()
            .map(|toolchain| toolchain.name)
            .collect();
        write(&project.as_path().join(SCHEMA_FILE), &schema::text(), true)?;
        write(&file, &policy(profile, &kinds, &toolchains), self.force)?;
        let path = AbsPath::new(&file).map_err(|error| Failure::new("PF-CLI-003", error.to_string()))?;
        let found = untrusted(&dirs, &path)?;
        TrustStore::new(&dirs).trust(&path, &found.digest)?;
        output::data(&format!("wrote {path}, built on profile {profile}, and trusted it as it is\n"));
        output::words("next: edit it, then `pinfold policy check` and `pinfold policy trust`\n");
        Ok(ExitCode::SUCCESS)
    }
}

fn kinds(project: &Path) -> Vec<&'static str> {
    let mut kinds: Vec<&str> =
        KINDS.iter().filter(|(file, _)| project.join(file).is_file()).map(|(_, kind)| *kind).collect();
    kinds.dedup();
    kinds
}

/// Asks on a terminal; elsewhere takes what fits.
fn ask(kinds: &[&str]) -> Result<Profile, Failure> {
    let fitting = if kinds.is_empty() { Profile::Default } else { Profile::Dev };
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(fitting);
    }
    let found = if kinds.is_empty() { "nothing known".to_owned() } else { kinds.join(", ") };
    output::words(&format!("Found here: {found}.\n\n"));
    for profile in Profile::ALL {
        let about = profile.text().lines().next().unwrap_or_default().trim_start_matches("# ");
        output::words(&format!("  {profile:<8} {about}\n"));
    }
    loop {
        output::words(&format!("\nProfile [{fitting}]: "));
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        match (read, answer.trim()) {
            (Err(error), _) => {
                return Err(Failure::new("PF-CLI-009", format!("cannot read the answer: {error}")));
            }
            (Ok(_), "") => return Ok(fitting),
            (Ok(_), name) => match name.parse() {
                Ok(profile) => return Ok(profile),
                Err(error) => output::words(&format!("{error}\n")),
            },
        }
    }
}

fn policy(profile: Profile, kinds: &[&str], toolchains: &[String]) -> String {
    let kinds =
        if kinds.is_empty() { "no kind of project that is known".to_owned() } else { kinds.join(", ") };
    let toolchains = if toolchains.is_empty() { "none".to_owned() } else { toolchains.join(", ") };
    format!(
        "\
# yaml-language-server: $schema={SCHEMA_FILE}
# What commands run for this project may do. See `pinfold policy show` for every value in force,
# and `pinfold explain -- COMMAND` for what that comes to.
#
# Found here: {kinds}. Toolchains in your home directory: {toolchains}.
version: 1
extends: {profile}

fs:
  # Masked wherever they lie in the workspace: neither read nor written.
  deny: [\"**/.env\", \"**/.env.*\", \"**/*.pem\", \"**/*.key\"]

# net:
#   enabled: true
#   allowlist: [\"@registries\", \"api.example.com\"]

# proc:
#   maxMemoryMB: 1024
#   timeoutMs: 300000
"
    )
}

/// Writes a file whole, without following a link that stands in its place.
fn write(path: &Path, text: &str, replace: bool) -> Result<(), Failure> {
    let fail = |error: std::io::Error| {
        Failure::new("PF-CLI-010", format!("cannot write {}: {error}", path.display()))
            .hint("check that the directory exists and can be written")
    };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(fail)?;
    }
    if replace && path.symlink_metadata().is_ok() {
        std::fs::remove_file(path).map_err(fail)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(fail)?;
    file.write_all(text.as_bytes()).map_err(fail)
}
