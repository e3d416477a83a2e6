//! Promises about processes: `processes.isolated`, `processes.end`, `ipc.isolated`, `privileges.*`,
//! `env.clean`, `descriptors.clean`.
//!
//! Of the catalogue's classes 23 to 36, class 34 (a number that was reaped is never signalled) cannot be seen
//! from outside: the supervisor signals by pidfd and through the guest alone.

mod descriptors;
mod ending;
mod environment;
mod exits;
mod guest;
mod ipc;
mod others;
mod privileges;
