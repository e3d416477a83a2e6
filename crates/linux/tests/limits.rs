//! Limits that the control groups of this host hold, tried from inside. They need a caller that may make groups: root
//! here; without one a test says so and is counted as skipped.
//!
//! The wall forks, and this program has threads: every sandbox is started by the example `launch`.
#![allow(clippy::unwrap_used)]

#[path = "wall/harness.rs"]
#[allow(dead_code)] // each test program uses its part of it
mod harness;

#[path = "limits/ending.rs"]
mod ending;
#[path = "limits/groups.rs"]
mod groups;
#[path = "limits/holding.rs"]
mod holding;
