//! Sandboxes that stay alive: the next command in one costs about as much as a fork.
//!
//! ```no_run
//! use pinfold_engine::asked::Asked;
//! use pinfold_engine::live::{Command, SandboxRunner};
//!
//! let runner = SandboxRunner::start()?;
//! let sandbox = runner.blueprint(&Asked::new(".").profile("dev"))?.boot()?;
//! let outcome = sandbox.exec(&Command::new("python3").args(["-c", "print(6 * 7)"]))?.output()?;
//! assert_eq!(outcome.stdout.bytes, b"42\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`SandboxRunner`] starts one small process, the *spawner*, which makes every other: a program with threads must not
//! fork itself. Each sandbox has a *holder* that watches over it. Commands go from the caller to the sandbox directly.

mod command;
mod execution;
mod future;
pub mod holder;
pub mod named;
mod pool;
mod runner;
pub mod spawner;
pub mod visit;

pub use command::Command;
pub use execution::{ExecError, Execution, Piece};
pub use future::Running;
pub use pool::Pool;
pub use runner::{Blueprint, Sandbox, SandboxRunner};
