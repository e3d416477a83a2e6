//! Text to policy to plan, with reasons.
//!
//! Pure: files are read by the caller, facts about the machine come in with the request, and no backend is known
//! here. [`layer::Layer::load`] reads documents, [`layer::settle`] makes one policy of them, and
//! [`planner::plan`] turns a request and that policy into a [`pinfold_core::plan::Plan`].

mod diagnose;
pub mod document;
pub mod estimate;
pub mod layer;
mod node;
pub mod options;
pub mod planner;
pub mod problem;
pub mod profile;
mod protected;
mod rule;
pub mod schema;
mod setting;
pub mod trust;
mod yaml;

pub use setting::Setting;
