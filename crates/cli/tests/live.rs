//! Live sandboxes through the library, attacked: what holds for a command that is run on its own holds for the second,
//! for the hundredth, and for several at once.
#![allow(clippy::unwrap_used)]

mod place;

#[path = "live/endings.rs"]
mod endings;
#[path = "live/guest.rs"]
mod guest;
#[path = "live/harness.rs"]
mod harness;
#[path = "live/hosts.rs"]
mod hosts;
#[path = "live/inside.rs"]
mod inside;
#[path = "live/streams.rs"]
mod streams;
#[path = "live/workspace.rs"]
mod workspace;
