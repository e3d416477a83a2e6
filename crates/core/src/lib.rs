//! Pinfold's nouns: the values a policy is made of, and what flows from a request to its outcome.
//!
//! Nothing here does I/O or knows of a backend, a front door or a policy file. A value of a type in this
//! crate is valid: it was parsed once, at the border, into its one canonical form.

pub mod control;
pub mod coverage;
pub mod destination;
pub mod event;
pub mod glob;
pub mod host;
pub mod id;
pub mod origin;
pub mod outcome;
pub mod path;
pub mod plan;
pub mod quantity;
pub mod request;
pub mod text;
pub mod zone;
