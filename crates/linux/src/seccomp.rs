//! The system-call filter: a profile becomes a program, a program is loaded, and both can be read by people.
//!
//! The rows are in `table`, the numbers in `calls`, the translation in `compile`. Which wall loads which
//! profile, and when, is not decided here.

mod calls;
mod compile;
mod rule;
mod table;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use pinfold_core::plan::SeccompProfile;

use crate::sys;
use calls::Call;
use rule::{Profile, Row, Verdict};

/// Why there is no filter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeccompError {
    /// The profile's file could not be read.
    #[error("cannot read the seccomp profile {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The profile's file is far larger than a list of system calls.
    #[error("the seccomp profile {} is larger than {LONGEST_FILE} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// A line names no system call.
    #[error("{}:{line}: no system call is named `{name}`", path.display())]
    UnknownCall {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What stands there.
        name: String,
    },
    /// The kernel did not take the program.
    #[error("cannot load the seccomp filter of {length} instructions")]
    Load {
        /// How long the program is.
        length: usize,
        /// What the system said.
        source: io::Error,
    },
    /// Another thread of this process has filters of its own, so none could be loaded for all.
    #[error("cannot load the seccomp filter: thread {thread} has filters of its own")]
    Diverged {
        /// The thread.
        thread: i32,
    },
}

/// The largest profile file that is read.
const LONGEST_FILE: u64 = 64 * 1024;

/// What the wall around the filter is like, where that changes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What network there is.
    pub network: Network,
    /// True for walls without namespaces for process ids, IPC and network: what those would have kept apart
    /// is refused.
    pub shares_host: bool,
}

/// The network that the filter leaves room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Loopback alone.
    Loopback,
    /// Loopback, and the door behind it.
    Door,
}

/// A compiled filter, ready to load any number of times.
#[derive(Clone)]
pub struct Filter {
    program: Vec<libc::sock_filter>,
    rows: Vec<&'static Row>,
    extra: Vec<Call>,
}

/// One row of a filter, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The system calls, or what else the row is about.
    pub calls: Vec<&'static str>,
    /// What must hold of the arguments; empty when nothing.
    pub when: String,
    /// `EPERM`, `ENOSYS`, `killed` and so on.
    pub verdict: String,
    /// The reason.
    pub why: &'static str,
}

impl Filter {
    /// Compiles a profile. One that is a file is read here, so this is called where the host's files are.
    pub fn compile(profile: &SeccompProfile, options: Options) -> Result<Self, SeccompError> {
        match profile {
            SeccompProfile::Default => Ok(Self::of(Profile::Default, options, Vec::new())),
            SeccompProfile::Strict => Ok(Self::of(Profile::Strict, options, Vec::new())),
            SeccompProfile::Debug => Ok(Self::of(Profile::Debug, options, Vec::new())),
            SeccompProfile::File(path) => {
                let path = path.as_path().to_path_buf();
                let mut text = String::new();
                let read = File::open(&path)
                    .and_then(|file| file.take(LONGEST_FILE + 1).read_to_string(&mut text))
                    .map_err(|source| SeccompError::Read { path: path.clone(), source })?;
                if read as u64 > LONGEST_FILE {
                    return Err(SeccompError::TooLong { path });
                }
                Self::compile_file(path, &text, options)
            }
        }
    }

    /// Compiles the default profile and what `text` refuses on top: one system call's name per line, `#`
    /// begins a comment. `path` is only for errors.
    pub fn compile_file(
        path: impl Into<PathBuf>,
        text: &str,
        options: Options,
    ) -> Result<Self, SeccompError> {
        let mut extra = Vec::new();
        for (line, content) in (1..).zip(text.lines()) {
            let name = content.split('#').next().unwrap_or_default().trim();
            if name.is_empty() {
                continue;
            }
            match calls::ALL.iter().find(|call| call.name == name) {
                Some(call) => extra.push(*call),
                None => {
                    return Err(SeccompError::UnknownCall { path: path.into(), line, name: name.to_owned() });
                }
            }
        }
        Ok(Self::of(Profile::Default, options, extra))
    }

    fn of(profile: Profile, options: Options, extra: Vec<Call>) -> Self {
        let rows: Vec<_> = table::TABLE.iter().filter(|row| row.applies.to(profile, options)).collect();
        Self { program: compile::compile(&rows, &extra), rows, extra }
    }

    /// Loads the filter into every thread of this process, for good. no_new_privs must be set already.
    pub fn install(&self) -> Result<(), SeccompError> {
        match sys::seccomp::load(&self.program) {
            Ok(sys::seccomp::Loaded::Everywhere) => Ok(()),
            Ok(sys::seccomp::Loaded::Diverged(thread)) => Err(SeccompError::Diverged { thread }),
            Err(source) => Err(SeccompError::Load { length: self.program.len(), source }),
        }
    }

    /// How many instructions the program has.
    #[allow(clippy::len_without_is_empty)] // it always judges the architecture first
    pub fn len(&self) -> usize {
        self.program.len()
    }

    /// Every row in force, in the order in which they are asked.
    pub fn describe(&self) -> Vec<Described> {
        let always = |calls, verdict: Verdict, why| Described {
            calls,
            when: String::new(),
            verdict: verdict.to_string(),
            why,
        };
        let mut lines = vec![
            always(
                vec!["(another architecture)"],
                Verdict::Kill,
                "int 0x80 and 32-bit programs number their calls differently and would pass any list",
            ),
            always(
                vec!["(x32, and numbers without a name)"],
                rule::NOT_KNOWN,
                "what a newer kernel adds is refused until it has been looked at",
            ),
        ];
        if !self.extra.is_empty() {
            let calls = self.extra.iter().map(|call| call.name).collect();
            lines.push(always(calls, rule::REFUSED, "refused by the profile's file"));
        }
        lines.extend(self.rows.iter().map(|row| Described {
            calls: row.calls.iter().filter(|call| call.number.is_some()).map(|call| call.name).collect(),
            when: row.when.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and "),
            verdict: row.verdict.to_string(),
            why: row.why,
        }));
        lines.retain(|line| !line.calls.is_empty());
        lines
    }
}
