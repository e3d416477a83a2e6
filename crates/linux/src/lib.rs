//! Enforces a plan with Linux kernel primitives. The only home of unsafe code, in `sys`.
//!
//! Blocking, and free of any runtime. Whoever starts a sandbox must be single-threaded at that moment: the
//! guest is a fork of the caller that goes on running, and a lock held by a thread that was not forked would
//! never be free.

pub mod backend;
pub mod capabilities;
pub mod cgroup;
pub mod descriptors;
pub mod environment;
pub mod guest;
pub mod holder;
pub mod ids;
pub mod landlock;
pub mod link;
pub mod live;
mod monitor;
pub mod mounts;
pub mod namespaces;
pub mod probe;
pub mod pty;
mod restore;
pub mod rlimits;
pub mod seccomp;
pub mod steps;
pub mod survey;
mod sys;
pub mod wire;
