//! The same for programs that await: no runtime is needed, and any will do.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use pinfold_core::outcome::Outcome;

use super::command::Command;
use super::execution::{ExecError, Handle};
use super::runner::{Sandbox, lock};

/// A command in a live sandbox, to be awaited. Dropping it ends the command.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Mutex<Shared>>,
    handle: Handle,
}

#[derive(Debug, Default)]
struct Shared {
    outcome: Option<Result<Outcome, ExecError>>,
    waker: Option<Waker>,
}

impl Sandbox {
    /// Sends a command in, to be awaited. A thread of its own moves its output.
    ///
    /// ```no_run
    /// # use pinfold_engine::{asked::Asked, live::{Command, SandboxRunner}};
    /// # async fn example(runner: SandboxRunner) -> Result<(), Box<dyn std::error::Error>> {
    /// let sandbox = runner.blueprint(&Asked::new("."))?.boot()?;
    /// let (one, two) = (sandbox.start(&Command::new("make"))?, sandbox.start(&Command::new("date"))?);
    /// println!("{:?} {:?}", two.await?.exit, one.await?.exit);
    /// # Ok(())
    /// # }
    /// ```
    pub fn start(&self, command: &Command) -> Result<Running, ExecError> {
        let execution = self.exec(command)?;
        let handle = execution.handle()?;
        let shared = Arc::new(Mutex::new(Shared::default()));
        let theirs = shared.clone();
        let moved = move || {
            let outcome = execution.output();
            let mut shared = lock(&theirs);
            shared.outcome = Some(outcome);
            if let Some(waker) = shared.waker.take() {
                waker.wake();
            }
        };
        std::thread::Builder::new().name("pinfold".to_owned()).spawn(moved).map_err(ExecError::Io)?;
        Ok(Running { shared, handle })
    }
}

impl Future for Running {
    type Output = Result<Outcome, ExecError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut shared = lock(&self.shared);
        match shared.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                shared.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.kill();
    }
}
