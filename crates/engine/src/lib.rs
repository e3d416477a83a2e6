//! Drives one run: finds the policy in force and the facts around a request.
//!
//! Front doors build a request here; what must hold is decided by `pinfold-policy`, which does no I/O of its own.

pub mod dirs;
pub mod sources;
pub mod surroundings;
mod toolchains;
pub mod trust;
