//! What a front door asks for, with the facts about the caller that planning needs. Building one does the
//! looking; planning from it is pure.

use std::collections::BTreeMap;

use crate::destination::Destination;
use crate::path::AbsPath;

/// One command to run, and where from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The program and its arguments, as typed.
    pub command: Vec<std::ffi::OsString>,
    /// The directory that becomes `/workspace`.
    pub workspace: AbsPath,
    /// The caller's directory: inside the workspace, the command starts at the same place.
    pub directory: AbsPath,
    /// Whether the command gets a terminal.
    pub terminal: bool,
    /// Facts about the caller and the machine.
    pub surroundings: Surroundings,
}

/// Facts that a plan depends on but no policy states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The caller's home directory.
    pub home: Option<AbsPath>,
    /// The caller's own name, for `USER`.
    pub user: String,
    /// `LANG` and `TERM` of the caller, where set, and git's author.
    pub environment: BTreeMap<String, String>,
    /// Toolchains found in the home directory: what they are, and their directories.
    pub toolchains: Vec<Toolchain>,
    /// The hosts that the caller's package managers use.
    pub registries: Vec<Destination>,
    /// Where Pinfold keeps its own state, configuration and sockets.
    pub own: Vec<AbsPath>,
}

/// A toolchain that lives in a home directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// What it is called: `rustup`, `nvm`, …
    pub name: String,
    /// Directories to show read-only; never one that holds credentials.
    pub read: Vec<AbsPath>,
    /// Directories whose programs belong on `PATH`.
    pub path: Vec<AbsPath>,
    /// Variables that point programs at it.
    pub environment: BTreeMap<String, String>,
}
