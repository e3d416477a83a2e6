//! Which namespaces the sandbox gets, and the small set-up that is neither files nor ids: name and network.

use std::io;

use crate::probe::without;
use crate::sys;

/// Those made by the one clone, each with the name that debug builds may leave it out by. The seventh, of the
/// network, costs as much as these together: it is made beside the building of the root (see [`Network`]).
const ALL: [(i32, &str); 6] = [
    (libc::CLONE_NEWUSER, "userns"),
    (libc::CLONE_NEWNS, "mountns"),
    (libc::CLONE_NEWPID, "pidns"),
    (libc::CLONE_NEWIPC, "ipcns"),
    (libc::CLONE_NEWUTS, "utsns"),
    (libc::CLONE_NEWCGROUP, "cgroupns"),
];

/// The host name inside.
const NAME: &[u8] = b"pinfold";

/// Why a namespace could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// The namespaces cannot be made.
    #[error("cannot make new namespaces")]
    Clone(#[source] io::Error),
    /// The host name cannot be set.
    #[error("cannot set the host name inside")]
    Name(#[source] io::Error),
    /// The network namespace cannot be made, entered, or its loopback interface not be raised.
    #[error("cannot set up the network namespace")]
    Network(#[source] io::Error),
    /// The old root cannot be let go of.
    #[error("cannot unmount the old root")]
    OldRoot(#[source] io::Error),
}

/// The flags for clone3(2).
pub(crate) fn flags() -> u64 {
    ALL.iter().filter(|(_, name)| !without(name)).fold(0, |flags, (flag, _)| flags | *flag as u64)
}

/// Gives the inside a name of its own.
pub(crate) fn set_name() -> Result<(), NamespaceError> {
    if without("utsns") {
        return Ok(());
    }
    rustix::system::sethostname(NAME).map_err(|error| NamespaceError::Name(error.into()))
}

/// The network namespace, made while other steps run.
#[derive(Debug)]
pub(crate) struct Network(Option<sys::net::Making>);

impl Network {
    /// Begins to make it: nothing in it but loopback, which is up, so that servers on localhost work.
    pub(crate) fn begin() -> Result<Self, NamespaceError> {
        if without("netns") {
            return Ok(Self(None));
        }
        sys::net::begin().map(|making| Self(Some(making))).map_err(NamespaceError::Network)
    }

    /// Lets go of the old root after a change of the root, by the time that [`Network::enter`] returns.
    pub(crate) fn let_go_of_old_root(&self) -> Result<(), NamespaceError> {
        match &self.0 {
            Some(making) => making.let_go_of_old_root(),
            None => rustix::mount::unmount(c"/", rustix::mount::UnmountFlags::DETACH)
                .map_err(|error| NamespaceError::OldRoot(error.into()))?,
        }
        Ok(())
    }

    /// Enters it.
    pub(crate) fn enter(self) -> Result<(), NamespaceError> {
        let told = |error: io::Error| match error.kind() {
            io::ErrorKind::ResourceBusy => NamespaceError::OldRoot(error),
            _ => NamespaceError::Network(error),
        };
        self.0.map_or(Ok(()), |making| making.enter().map_err(told))
    }
}
