//! The file system inside: what it consists of (`layout`), from which paths of the host (`lookup`, `source`,
//! `system`), and how it is put together in the new mount namespace (`build`).
//!
//! The root is a small tmpfs that is read-only once it is built, whatever the plan says: what can be written
//! are the writable zones, and, unless the plan asks for a read-only root, `/dev/shm` and a `/tmp` and
//! `/scratch` in memory where the plan declares none.

mod build;
pub(crate) mod denied;
mod layout;
mod lookup;
mod program;
mod source;
mod system;

use std::io;
use std::path::PathBuf;

use pinfold_core::path::AbsPath;

pub(crate) use build::{Build, Mounts, cover, cover_all};
pub(crate) use layout::{Layout, What};
pub(crate) use source::Source;

/// Why the file system inside could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// A path of the plan cannot be opened.
    #[error("cannot open {path} on the host")]
    LookUp {
        /// As the plan names it.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// A path of the plan leads through a link that may be an earlier run's.
    #[error(
        "{path} leads through the link {}, which lies in {within}, where a sandbox can write: it may have been \
         put there to show what it leads to; replace it by a directory, or name the place that is meant",
        link.display()
    )]
    PlantedLink {
        /// As the plan names it.
        path: AbsPath,
        /// The link.
        link: PathBuf,
        /// The writable path that the link lies in, as the plan names it.
        within: AbsPath,
    },
    /// A path of the plan is a link to what is never shown.
    #[error("{path} leads to {}, which is {why} and is not shown; name a directory below it", real.display())]
    LeadsTo {
        /// As the plan names it.
        path: AbsPath,
        /// Where it leads.
        real: PathBuf,
        /// What is there.
        why: &'static str,
    },
    /// A socket, device or FIFO is asked for.
    #[error("{path} is neither a file nor a directory, and only those can be shown inside")]
    NeitherFileNorDirectory {
        /// As the plan names it.
        path: AbsPath,
    },
    /// A place that belongs to the wall itself.
    #[error("{path} cannot be shown inside: {reason}")]
    Reserved {
        /// The place inside.
        path: PathBuf,
        /// Why it is reserved.
        reason: &'static str,
    },
    /// Two parts of the plan want the same place.
    #[error("{path} is asked for twice inside, as {first} and as {second}")]
    Twice {
        /// The place inside.
        path: PathBuf,
        /// What comes there first.
        first: String,
        /// What would cover it.
        second: String,
    },
    /// A zone lies in another one, which has nothing to mount it on.
    #[error(
        "{name} belongs at {path}, inside {within}, where no such {kind} exists; create it on the host first"
    )]
    NoMountPoint {
        /// The inner zone.
        name: String,
        /// Its place inside.
        path: PathBuf,
        /// The outer zone.
        within: String,
        /// `directory` or `file`.
        kind: &'static str,
    },
    /// A mount point leads through a symlink or out of the root.
    #[error("the mount point {path} cannot be opened without following a link")]
    MountPoint {
        /// The place inside.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The object at a path is not the one that was looked up.
    #[error("{path} was replaced while the sandbox was starting")]
    Changed {
        /// Where on the host.
        path: PathBuf,
    },
    /// A mount of the host cannot be copied.
    #[error("cannot clone the mounts at {path}")]
    CloneTree {
        /// Where on the host.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The owners on a mount cannot be mapped.
    #[error("cannot map the owners of {path}")]
    IdMap {
        /// Where on the host.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The flags of a mount cannot be set.
    #[error("cannot set the mount flags of {path}")]
    Attributes {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A new file system cannot be made.
    #[error("cannot make a new {kind} for {path}")]
    Make {
        /// Its type.
        kind: &'static str,
        /// Its place inside.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A mount cannot be attached.
    #[error("cannot mount {path}")]
    Attach {
        /// The place inside.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory, link or file of the root cannot be made.
    #[error("cannot create {path} in the new root")]
    Create {
        /// The place inside.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A deny glob matches more in a directory of the system than is covered one by one.
    #[error("the pattern `{glob}` matches {count} names of the system; deny the directory instead")]
    DeniesTooMany {
        /// The glob.
        glob: String,
        /// How many.
        count: usize,
    },
    /// The host's system directories cannot be read.
    #[error("cannot inspect {path} on the host")]
    Inspect {
        /// Where on the host.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The new root cannot take the old one's place.
    #[error("cannot change the root")]
    Pivot {
        /// Why.
        source: io::Error,
    },
}
