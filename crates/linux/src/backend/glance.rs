//! A look at a sandbox while it runs. It changes nothing about it.

use std::time::Duration;

use pinfold_core::outcome::Warning;

use super::RunError;
use crate::pty::Relay;

/// What was in use at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    /// CPU time so far.
    pub cpu: Duration,
    /// Memory.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub processes: u64,
}

/// What a sandbox uses.
#[derive(Debug)]
pub struct Glance<'a> {
    /// Time since its start.
    pub wall: Duration,
    /// What was in use when it was last looked at.
    pub in_use: InUse,
    /// Limits that were near by then, each once.
    pub warnings: &'a [Warning],
    relay: Option<&'a mut Relay>,
}

impl<'a> Glance<'a> {
    pub(super) fn new(
        wall: Duration,
        (in_use, warnings): (InUse, &'a [Warning]),
        relay: Option<&'a mut Relay>,
    ) -> Self {
        Self { wall, in_use, warnings, relay }
    }

    /// Shows a line below what the command says on the caller's terminal: nothing where there is none, or where the line
    /// would tear what is said. It goes away by itself when more is said, and at the end.
    pub fn draw(&mut self, line: &str) -> Result<(), RunError> {
        Ok(self.relay.as_mut().map_or(Ok(()), |relay| relay.draw(line))?)
    }
}
