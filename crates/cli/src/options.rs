//! The options that every command shares with `run`: what was typed, and the policy keys it stands for.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pinfold_core::path::AbsPath;
use pinfold_core::plan::Plan;
use pinfold_core::quantity::{Size, Span};
use pinfold_core::request::Request;
use pinfold_engine::dirs::Dirs;
use pinfold_engine::history::HistoryFile;
use pinfold_engine::sources::{self, Wanted};
use pinfold_engine::surroundings;
use pinfold_policy::estimate::History;
use pinfold_policy::layer::{Layer, Settled};
use pinfold_policy::options::{OptionValue, PolicyOption};
use pinfold_policy::planner::{self, LimitsMode};
use serde_json::{Value, json};

use crate::failure::Failure;

/// Who has the last word about limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LimitsArg {
    /// What a table knows of the command and what its earlier runs used, never more than a policy states
    Auto,
    /// The policy's numbers alone
    Policy,
}

// No doc comment: clap would take it for what the command does.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Policy")]
pub(crate) struct RunOptions {
    /// A policy file, in place of the workspace's own
    #[arg(short, long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// A profile to build on: default, strict, compute, dev, build, test
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The wall to use, or auto
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// At least this much isolation: none, process, container, vm, wasm
    #[arg(long, value_name = "LEVEL")]
    isolation: Option<String>,
    /// The directory that becomes /workspace [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// A named place inside: NAME=PATH:ro, NAME=PATH:rw or NAME=tmpfs:SIZE
    #[arg(long, value_name = "ZONE")]
    zone: Vec<String>,
    /// A host path to show read-only at its own place
    #[arg(long, value_name = "PATH")]
    read: Vec<String>,
    /// A host path to show writable at its own place
    #[arg(long, value_name = "PATH")]
    write: Vec<String>,
    /// A glob of files to mask
    #[arg(long, value_name = "GLOB")]
    deny: Vec<String>,
    /// Allow a destination: DOMAIN, *.SUFFIX, address or network, with :PORT if it is not 80 or 443
    #[arg(long, value_name = "DOMAIN[:PORT]")]
    net: Vec<String>,
    /// Set a variable, or pass the caller's
    #[arg(long, value_name = "K[=V]")]
    env: Vec<String>,
    /// Any key of a policy, such as security.seccompProfile=strict
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Elapsed time, such as 30s or 5m
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    timeout: Option<Span>,
    /// Memory of everything inside, such as 256M
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    memory: Option<Size>,
    /// CPU time of everything inside, such as 30s
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    cpu: Option<Span>,
    /// Processes and threads
    #[arg(long, value_name = "N", help_heading = "Limits")]
    processes: Option<u64>,
    /// Open descriptors per process
    #[arg(long, value_name = "N", help_heading = "Limits")]
    fds: Option<u64>,
    /// What may be written to disk, such as 64M
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    disk: Option<Size>,
    /// Bytes of output, such as 64K
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    output: Option<Size>,
    /// Who may raise a profile's numbers [default: the table of known commands, without earlier runs]
    #[arg(long, value_enum, value_name = "WHO", help_heading = "Limits")]
    limits: Option<LimitsArg>,
}

/// Everything that the options and the documents in force come to.
pub(crate) struct Resolved {
    pub(crate) dirs: Dirs,
    pub(crate) request: Request,
    pub(crate) layers: Vec<Layer>,
    pub(crate) settled: Settled,
    limits: Option<LimitsArg>,
    /// What earlier runs used, where that counts.
    history: History,
}

impl Resolved {
    /// What must hold.
    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        let mode = match self.limits {
            None => LimitsMode::Auto,
            Some(LimitsArg::Auto) => LimitsMode::Learned(&self.history),
            Some(LimitsArg::Policy) => LimitsMode::Policy,
        };
        Ok(planner::plan(&self.request, &self.settled, mode)?)
    }
}

impl RunOptions {
    /// No options at all, in a workspace that nobody minds: for questions about the machine.
    pub(crate) fn scratch() -> Result<Self, Failure> {
        Ok(Self { workspace: Some(std::env::temp_dir()), ..Self::default() })
    }

    /// Reads every document in force, puts the options on top, and looks around.
    pub(crate) fn resolve(&self, command: Vec<OsString>, terminal: bool) -> Result<Resolved, Failure> {
        let dirs = Dirs::of_caller()?;
        let here = current_directory()?;
        let workspace = self.workspace(&here)?;
        let file = self.policy.as_ref().map(|file| canonical(&here, file)).transpose()?;
        let wanted = Wanted { file: file.as_ref(), workspace: &workspace };
        let (layers, settled) = sources::settle(&dirs, &wanted, &self.policy_options()?, &here)?;
        let history = match self.limits {
            Some(LimitsArg::Auto) => HistoryFile::new(&dirs).recall()?,
            Some(LimitsArg::Policy) | None => History::default(),
        };
        let request =
            surroundings::request(&dirs, settled.policy.fs.reads.value, workspace, here, command, terminal);
        Ok(Resolved { dirs, request, layers, settled, limits: self.limits, history })
    }

    /// The workspace: the directory named, or the current one.
    pub(crate) fn workspace(&self, here: &AbsPath) -> Result<AbsPath, Failure> {
        let Some(named) = &self.workspace else { return Ok(here.clone()) };
        let path = canonical(here, named)?;
        if !path.as_path().is_dir() {
            return Err(Failure::new("PF-CLI-003", format!("--workspace {path} is no directory")));
        }
        Ok(path)
    }

    fn policy_options(&self) -> Result<Vec<PolicyOption>, Failure> {
        let mut options = List::default();
        options.text("--profile", "extends", self.profile.as_deref());
        options.text("--backend", "sandbox.backend", self.backend.as_deref());
        options.text("--isolation", "sandbox.isolationLevel", self.isolation.as_deref());
        for zone in &self.zone {
            options.push(format!("--zone {zone}"), "sandbox.zones", OptionValue::Item(zone_value(zone)?));
        }
        options.items("--read", "fs.allowedReadPaths", &self.read);
        options.items("--write", "fs.allowedWritePaths", &self.write);
        options.items("--deny", "fs.deny", &self.deny);
        if let Some(first) = self.net.first() {
            options.push(format!("--net {first}"), "net.enabled", OptionValue::One(true.into()));
        }
        options.items("--net", "net.allowlist", &self.net);
        for variable in &self.env {
            let typed = format!("--env {variable}");
            match variable.split_once('=') {
                Some((name, value)) => {
                    options.push(typed, &format!("env.set.{name}"), OptionValue::One(value.into()));
                }
                None => options.push(typed, "env.pass", OptionValue::Item(variable.as_str().into())),
            }
        }
        let number = |value: u64| value.into();
        options.one("--timeout", "proc.timeoutMs", self.timeout, |time| number(time.as_millis()));
        options.one("--memory", "proc.maxMemoryMB", self.memory, |size| number(size.as_mb_ceil()));
        options.one("--cpu", "proc.maxCpuSeconds", self.cpu, |time| number(time.as_secs_ceil()));
        options.one("--processes", "proc.maxProcesses", self.processes, number);
        options.one("--fds", "proc.maxFileDescriptors", self.fds, number);
        options.one("--disk", "proc.maxDiskMB", self.disk, |size| number(size.as_mb_ceil()));
        options.one("--output", "proc.maxOutputBytes", self.output, |size| number(size.as_bytes()));
        for setting in &self.set {
            let Some((key, value)) = setting.split_once('=') else {
                return Err(Failure::new("PF-CLI-004", format!("--set {setting} has no value"))
                    .hint("write --set KEY=VALUE, such as --set net.enabled=false"));
            };
            options.push(format!("--set {setting}"), key, OptionValue::Text(value.to_owned()));
        }
        Ok(options.0)
    }
}

#[derive(Default)]
struct List(Vec<PolicyOption>);

impl List {
    fn push(&mut self, typed: String, key: &str, value: OptionValue) {
        self.0.push(PolicyOption { typed, key: key.to_owned(), value });
    }

    fn text(&mut self, option: &str, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.push(format!("{option} {value}"), key, OptionValue::One(value.into()));
        }
    }

    fn items(&mut self, option: &str, key: &str, values: &[String]) {
        for value in values {
            self.push(format!("{option} {value}"), key, OptionValue::Item(value.as_str().into()));
        }
    }

    fn one<T: std::fmt::Display + Copy>(
        &mut self,
        option: &str,
        key: &str,
        value: Option<T>,
        json: impl Fn(T) -> Value,
    ) {
        if let Some(value) = value {
            self.push(format!("{option} {value}"), key, OptionValue::One(json(value)));
        }
    }
}

/// `NAME=PATH:ro`, `NAME=PATH:rw` or `NAME=tmpfs:SIZE` as an entry of `sandbox.zones`.
fn zone_value(text: &str) -> Result<Value, Failure> {
    let bad = || {
        Failure::new("PF-CLI-005", format!("--zone {text} is not understood"))
            .hint("write NAME=PATH:ro, NAME=PATH:rw or NAME=tmpfs:SIZE, such as --zone input=./data:ro")
    };
    let (name, rest) = text.split_once('=').ok_or_else(bad)?;
    match rest.rsplit_once(':').ok_or_else(bad)? {
        ("tmpfs", size) => {
            let size: Size = size.parse().map_err(|error| {
                Failure::new("PF-CLI-005", format!("--zone {text}: {error}")).hint("write a size such as 64M")
            })?;
            Ok(json!({ "name": name, "mode": "tmpfs", "sizeMB": size.as_mb_ceil() }))
        }
        (path, mode @ ("ro" | "rw")) => Ok(json!({ "name": name, "mode": mode, "hostPath": path })),
        _ => Err(bad()),
    }
}

/// The caller's directory.
pub(crate) fn current_directory() -> Result<AbsPath, Failure> {
    let gone = |why: String| {
        Failure::new("PF-CLI-002", format!("the current directory cannot be told: {why}"))
            .hint("it may have been removed; change to another one, or use --workspace")
    };
    let here = std::env::current_dir().map_err(|error| gone(error.to_string()))?;
    AbsPath::new(here).map_err(|error| gone(error.to_string()))
}

/// A path of the caller's as the kernel sees it, links resolved.
pub(crate) fn canonical(here: &AbsPath, path: &std::path::Path) -> Result<AbsPath, Failure> {
    pinfold_engine::asked::canonical(&here.as_path().join(path))
}
