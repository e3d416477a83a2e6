//! What the native wall promises, tried from inside, as root and as an ordinary user. Each denial has a
//! positive control, and where a debug build can switch the defence off, the attack is seen to succeed
//! without it.
//!
//! The wall forks, and this program has threads: every sandbox is started by the example `launch`.
#![allow(clippy::unwrap_used)]

#[path = "wall/harness.rs"]
mod harness;

#[path = "wall/ending.rs"]
mod ending;
#[path = "wall/files.rs"]
mod files;
#[path = "wall/ids.rs"]
mod ids;
#[path = "wall/links.rs"]
mod links;
#[path = "wall/processes.rs"]
mod processes;
#[path = "wall/slots.rs"]
mod slots;
#[path = "wall/start.rs"]
mod start;
#[path = "wall/terminal.rs"]
mod terminal;
