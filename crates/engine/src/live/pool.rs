//! Sandboxes that were made ahead of time.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::runner::{Blueprint, Sandbox, lock};
use crate::failure::Failure;

/// Keeps some sandboxes of one blueprint ready. Each is used by one caller and never put back.
#[derive(Debug)]
pub struct Pool {
    blueprint: Blueprint,
    ready: Mutex<VecDeque<Sandbox>>,
}

impl Pool {
    pub(super) fn new(blueprint: Blueprint, size: usize) -> Result<Self, Failure> {
        let ready = (0..size).map(|_| blueprint.order()).collect::<Result<VecDeque<_>, _>>()?;
        for sandbox in &ready {
            sandbox.wait_until_ready()?;
        }
        Ok(Self { blueprint, ready: Mutex::new(ready) })
    }

    /// A fresh sandbox: one that is there, and another is made in its place meanwhile.
    pub fn take(&self) -> Result<Sandbox, Failure> {
        let next = self.blueprint.order()?;
        let mut ready = lock(&self.ready);
        ready.push_back(next);
        // One that was ended from outside while it waited is of no use to anybody.
        while ready.front().is_some_and(Sandbox::is_over) {
            ready.pop_front();
            ready.push_back(self.blueprint.order()?);
        }
        match ready.pop_front() {
            Some(sandbox) => Ok(sandbox),
            None => self.blueprint.boot(),
        }
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        lock(&self.ready).len()
    }

    /// Whether none are kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
