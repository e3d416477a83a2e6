//! What people really run, and how a command feels behind the wall: streams, terminals, signals, toolchains.
//! Nothing here is refused; a wall that breaks it would be switched off.

mod gits;
mod languages;
mod limits;
mod people;
mod shells;
mod streams;
mod tracing;
