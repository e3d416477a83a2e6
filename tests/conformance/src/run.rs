//! One run behind the wall: how it is asked for, and what came of it.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::place::PROBE;
use crate::{Answer, Place, alone};

/// What stands between two attempts on the probe's command line.
const THEN: &str = "++";

/// A run, described before it is started.
#[derive(Debug)]
pub struct Run<'p> {
    place: &'p Place,
    options: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    input: Vec<u8>,
    directory: PathBuf,
    /// Whether the rest of the host is hidden first.
    alone: bool,
}

/// A run that has ended, as `run --json` tells it.
#[derive(Debug)]
pub struct Done {
    /// The exit status of `pinfold`; none when a signal ended it.
    pub status: Option<i32>,
    /// The outcome, or the error.
    pub json: Value,
    /// What `pinfold` itself said.
    pub words: String,
}

impl<'p> Run<'p> {
    pub(crate) fn new(place: &'p Place) -> Self {
        let tools = format!("tools={}:ro", place.path("tools").display());
        let options = ["--backend", place.backend.name, "--zone", &tools].map(OsString::from).to_vec();
        let directory = place.path("workspace");
        Self { place, options, variables: Vec::new(), input: Vec::new(), directory, alone: false }
    }

    /// Adds options of `run`.
    #[must_use]
    pub fn options<S: AsRef<OsStr>>(mut self, options: impl IntoIterator<Item = S>) -> Self {
        self.options.extend(options.into_iter().map(|option| option.as_ref().to_owned()));
        self
    }

    /// Adds a variable of the environment that `pinfold` is started in.
    #[must_use]
    pub fn variable(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Switches defences off, which only a debug build does. Without mounts, the host is first emptied of all
    /// else.
    #[must_use]
    pub fn without(mut self, defences: &[&str]) -> Self {
        self.alone |= defences.contains(&"mounts");
        if defences.is_empty() { self } else { self.variable("PINFOLD_WITHOUT", defences.join(",")) }
    }

    /// What the command reads.
    #[must_use]
    pub fn input(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.input = bytes.as_ref().to_owned();
        self
    }

    /// Where `pinfold` is started; the workspace unless said otherwise.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    /// The command line that runs `command`, with further options of `run` first.
    pub fn prepare<S: AsRef<OsStr>>(&self, more: &[&str], command: impl IntoIterator<Item = S>) -> Command {
        let mut prepared = self.place.pinfold(&["run"]);
        prepared.args(&self.options).args(more).arg("--").args(command).current_dir(&self.directory);
        prepared.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if self.alone { alone::wrap(self.place, &prepared) } else { prepared }
    }

    /// Runs `command` to its end and gives what came of it.
    pub fn command<S: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = S>) -> Done {
        let output = self.finish(self.prepare(&["--json"], command));
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("no JSON ({error}), {}: {}{words}", output.status, String::from_utf8_lossy(&output.stdout))
        });
        Done { status: output.status.code(), json, words }
    }

    /// Runs a shell script to its end.
    pub fn shell(&self, script: &str) -> Done {
        self.command(["sh", "-c", script])
    }

    /// Runs `command` without `--json`: its output comes through as it is.
    pub fn plain<S: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = S>) -> Output {
        self.finish(self.prepare(&[], command))
    }

    /// Makes attempts inside, one after the other in one sandbox, and gives the answer to each.
    pub fn attempt<S: AsRef<str>>(&self, attempts: &[&[S]]) -> (Vec<Answer>, Done) {
        let mut words = vec![PROBE.to_owned()];
        for (index, attempt) in attempts.iter().enumerate() {
            if index > 0 {
                words.push(THEN.to_owned());
            }
            words.extend(attempt.iter().map(|word| word.as_ref().to_owned()));
        }
        let done = self.command(&words);
        let lines: Vec<(String, Answer)> = done.stdout().lines().map(Answer::parse).collect();
        assert_eq!(lines.len(), attempts.len(), "the probe did not answer every attempt: {done:?}");
        for ((said, _), attempt) in lines.iter().zip(attempts) {
            assert_eq!(said, attempt[0].as_ref(), "the probe answered something else");
        }
        (lines.into_iter().map(|(_, answer)| answer).collect(), done)
    }

    /// Makes one attempt inside and gives the answer.
    pub fn probe(&self, attempt: &[&str]) -> Answer {
        let (mut answers, _) = self.attempt(&[attempt]);
        answers.remove(0)
    }

    fn finish(&self, mut command: Command) -> Output {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child: Child = command.spawn().expect("start pinfold");
        let mut stdin = child.stdin.take().expect("a pipe");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A command that does not read all of its input is no fault of the test.
                stdin.write_all(&self.input).unwrap_or_default();
            });
            child.wait_with_output().expect("wait for pinfold")
        })
    }
}

impl Done {
    /// What the command wrote, as text.
    pub fn stdout(&self) -> &str {
        self.json["stdout"].as_str().unwrap_or_else(|| panic!("no output: {self:?}"))
    }

    /// What the command complained of.
    pub fn stderr(&self) -> &str {
        self.json["stderr"].as_str().unwrap_or_else(|| panic!("no errors: {self:?}"))
    }

    /// Fails unless the command ran and ended with 0.
    pub fn ok(self) -> Self {
        assert_eq!(self.status, Some(0), "the command failed: {self:#?}");
        self
    }

    /// Fails unless Pinfold refused to run anything; gives the message with its hint.
    pub fn refused(&self) -> String {
        assert_eq!(self.status, Some(125), "not refused: {self:#?}");
        let error = &self.json["error"];
        let text = |key: &str| error[key].as_str().unwrap_or_default();
        assert!(text("code").starts_with("PF-"), "an error without a code: {self:#?}");
        format!("{} {}", text("message"), text("hint"))
    }

    /// What is said about violations of a control.
    pub fn violations(&self, control: &str) -> Vec<&str> {
        let all = self.json["violations"].as_array().unwrap_or_else(|| panic!("no violations: {self:?}"));
        all.iter().filter(|one| one["control"] == control).filter_map(|one| one["what"].as_str()).collect()
    }

    /// The receipt's line about a control.
    pub fn receipt(&self, control: &str) -> &Value {
        let lines = self.json["receipt"].as_array().unwrap_or_else(|| panic!("no receipt: {self:?}"));
        lines
            .iter()
            .find(|line| line["control"] == control)
            .unwrap_or_else(|| panic!("no line for {control}"))
    }
}
