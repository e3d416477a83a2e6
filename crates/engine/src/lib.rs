//! Drives one run: finds the policy in force and the facts around a request, chooses a wall, keeps the record.
//!
//! Front doors build a request here; what must hold is decided by `pinfold-policy`, which does no I/O of its own.

pub mod asked;
pub mod dirs;
pub mod failure;
pub mod history;
pub mod live;
pub mod output;
pub mod progress;
pub mod record;
pub mod run;
pub mod select;
pub mod sources;
pub mod surroundings;
mod toolchains;
pub mod trust;
