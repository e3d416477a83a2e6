//! Promises about the network while it is off: `network.direct`, and the sockets of `ipc.isolated`. Classes
//! 48 and 46 of the catalogue; what a door lets through is not here, because there is none yet.

mod direct;
mod loopback;
mod unix;
