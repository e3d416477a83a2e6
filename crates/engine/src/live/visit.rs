//! One command in a sandbox with a name, for a person: with the caller's streams, terminal and signals.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

use pinfold_core::outcome::{Exit, LimitKind, Outcome, Usage};
use pinfold_linux::backend::Stdio;
use pinfold_linux::backend::namespace::Turn;
use pinfold_linux::live::{Client, Door};
use pinfold_linux::wire::Exec;

use super::execution::{exit, is_killed, kernel_limit};
use super::holder::failed;
use super::named::{self, About, Watcher};
use crate::dirs::Dirs;
use crate::failure::Failure;
use crate::record::Record;
use crate::run::{Output, Ran, Streams};

/// What is asked of one.
#[derive(Clone, Debug)]
pub struct Visit<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// Variables on top of the sandbox's own.
    pub environment: &'a [(OsString, OsString)],
    /// Where it starts inside, if not where the sandbox's commands do.
    pub directory: Option<&'a str>,
    /// The longest that it takes, if that is less than what the sandbox allows.
    pub timeout: Option<Duration>,
    /// Where its output goes.
    pub output: Output,
}

/// Runs it to its end. What it starts in the background lives on in the sandbox.
pub fn visit(door: &Door, about: &About, visit: &Visit<'_>) -> Result<Ran, Failure> {
    let info = about.defaults();
    let mut record = Record::in_directory(&info.state)?;
    record.started(about.id, about.backend, visit.command)?;
    let ran = run(door, about, visit);
    match &ran {
        Ok(ran) => record.completed(&ran.outcome)?,
        Err(failure) => record.failed(about.id, &failure.to_string())?,
    }
    ran
}

fn run(door: &Door, about: &About, visit: &Visit<'_>) -> Result<Ran, Failure> {
    let info = about.defaults();
    let text = |bytes: &Vec<u8>| OsString::from_vec(bytes.clone());
    let mut environment: Vec<_> =
        info.environment.iter().map(|(name, value)| (text(name), text(value))).collect();
    for (name, value) in visit.environment {
        environment.retain(|(other, _)| other != name);
        environment.push((name.clone(), value.clone()));
    }
    let exec = Exec {
        arguments: visit.command.to_vec(),
        environment,
        directory: visit.directory.map_or_else(|| info.directory.as_path().into(), Into::into),
        keeps_background: true,
        ..Exec::default()
    };
    let watcher = Watcher::new(&Dirs::of_caller()?, &about.name.parse()?)?;
    let allowed = Duration::from_millis(info.timeout_ms);
    let started = Instant::now();
    let deadline = started.checked_add(visit.timeout.map_or(allowed, |asked| asked.min(allowed)));
    let stdio = if visit.output == Output::Capture { Stdio::Capture } else { Stdio::Relay };
    let mut client = Client::start(door, exec, stdio, deadline).map_err(failed)?;
    let mut streams =
        Streams::new(client.take_output(), visit.output, info.max_output_bytes).map_err(Failure::from)?;
    let mut ends_at_limit = info.ends_at_output_limit;
    let mut output_lost = None;
    while let Turn::Going { ready } = client.turn(&streams.waits()).map_err(failed)? {
        match streams.pass(&ready) {
            Ok(false) if ends_at_limit => {
                ends_at_limit = false;
                client.exceed(LimitKind::Output).map_err(failed)?;
            }
            Ok(_) => {}
            Err(error) => {
                streams.close();
                output_lost.get_or_insert(error);
                client.kill().map_err(failed)?;
            }
        }
    }
    if let Err(error) = streams.drain() {
        output_lost.get_or_insert(error);
    }
    let served = client.finish().map_err(failed)?;
    let mut limit = served.limit;
    if limit.is_none() && served.not_started.is_none() && served.ended.is_none_or(|end| is_killed(end.status))
    {
        limit = watcher.limit();
    }
    let exit = match (served.ended, &served.not_started) {
        (Some(ended), _) => exit(ended.status),
        (None, Some(error)) if error.kind() == std::io::ErrorKind::NotFound => Exit::Code(127),
        (None, Some(_)) => Exit::Code(126),
        // A limit ended the sandbox, or the command was to end and did not: then everything does. One that is gone by
        // now cannot be ended, nor need it.
        (None, None) if limit.is_some() => {
            drop(named::stop(&Dirs::of_caller()?, &about.name.parse()?));
            Exit::Signal(9)
        }
        (None, None) => {
            return Err(Failure::new("PF-LIVE-005", format!("the sandbox {} is gone", about.name))
                .hint("it was stopped, or its holder was killed: `pinfold ps` lists those that live"));
        }
    };
    let warnings = streams.warning().into_iter().collect();
    let [stdout, stderr] = streams.said();
    let output_bytes =
        stdout.bytes.len() as u64 + stdout.dropped + stderr.bytes.len() as u64 + stderr.dropped;
    let ended = served.ended.unwrap_or_default();
    let limit = limit.or_else(|| kernel_limit(&ended, info.max_cpu_seconds));
    let outcome = Outcome {
        id: about.id,
        backend: about.backend,
        exit,
        stdout,
        stderr,
        timed_out: limit == Some(LimitKind::Wall),
        limit,
        usage: Usage {
            wall_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            cpu_ms: ended.cpu_us / 1000,
            peak_memory_bytes: ended.peak_memory_bytes,
            output_bytes,
            ..Usage::default()
        },
        violations: Vec::new(),
        warnings,
        receipt: about.receipt().to_vec(),
    };
    Ok(Ran { outcome, not_started: served.not_started, output_lost })
}
