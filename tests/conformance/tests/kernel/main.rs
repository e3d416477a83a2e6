//! Promises about the kernel's surface: `kernel.seccomp`, `kernel.abi`, `terminal.own`, and that a missing
//! mechanism stops the run. Classes 37 to 47 of the catalogue.

mod abi;
mod calls;
mod mechanisms;
mod mounts;
mod namespaces;
mod proc;
mod sockets;
mod steps;
mod terminals;
