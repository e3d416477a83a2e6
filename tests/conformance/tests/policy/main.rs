//! Promises that hold whatever a command is called (class 82 of the catalogue): the wall does not look at
//! names.

mod names;
mod wrong;
