//! A command for a live sandbox, as a caller describes it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use pinfold_linux::wire::Exec;

/// A command to run in a live sandbox.
///
/// What is not said comes from the sandbox: its variables, its directory, its limits. A command can ask for less than
/// its sandbox has, never for more.
#[derive(Clone, Debug)]
pub struct Command {
    exec: Exec,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    pub(super) input: Vec<u8>,
    pub(super) timeout: Option<Duration>,
    pub(super) max_output_bytes: Option<u64>,
}

impl Command {
    /// Runs `program`, by a path inside or by its name.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            exec: Exec { arguments: vec![program.into()], ..Exec::default() },
            environment: Vec::new(),
            directory: None,
            input: Vec::new(),
            timeout: None,
            max_output_bytes: None,
        }
    }

    /// With one more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.exec.arguments.push(argument.into());
        self
    }

    /// With more arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.exec.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// With a variable set.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Starting in this directory inside.
    #[must_use]
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = Some(path.into());
        self
    }

    /// Reading this from its standard input; without it, it reads the end of input at once.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Ended after this long, if the sandbox does not end it sooner.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = Some(time);
        self
    }

    /// Keeping at most so much of each stream.
    #[must_use]
    pub fn max_output_bytes(mut self, bytes: u64) -> Self {
        self.max_output_bytes = Some(bytes);
        self
    }

    /// With at most so many open descriptors in each process.
    #[must_use]
    pub fn max_file_descriptors(mut self, number: u64) -> Self {
        self.exec.max_descriptors = Some(number);
        self
    }

    /// With at most so many processes and threads in the whole sandbox while it starts some.
    #[must_use]
    pub fn max_processes(mut self, number: u64) -> Self {
        // The guest is one that the sandbox does not count.
        self.exec.max_processes = Some(number.saturating_add(1));
        self
    }

    /// With at most so many seconds of CPU time in each process.
    #[must_use]
    pub fn max_cpu_seconds(mut self, seconds: u64) -> Self {
        self.exec.max_cpu_seconds = Some(seconds);
        self
    }

    /// Leaving what it starts in the background running when it ends.
    #[must_use]
    pub fn keep_background(mut self) -> Self {
        self.exec.keeps_background = true;
        self
    }

    pub(super) fn words(&self) -> &[OsString] {
        &self.exec.arguments
    }

    pub(super) fn program(&self) -> OsString {
        self.words().first().cloned().unwrap_or_default()
    }

    /// All of it, with what the sandbox gives.
    pub(super) fn resolve(&self, environment: Vec<(OsString, OsString)>, directory: PathBuf) -> Exec {
        let mut exec = self.exec.clone();
        exec.environment = environment;
        for (name, value) in &self.environment {
            exec.environment.retain(|(other, _)| other != name);
            exec.environment.push((name.clone(), value.clone()));
        }
        exec.directory = self.directory.clone().unwrap_or(directory);
        exec
    }
}
