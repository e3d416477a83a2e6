//! `mount_setattr`, which rustix does not have. The rest of the new mount API comes from rustix.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::mount::MountAttrFlags;

use super::checked;

/// What changes on a mount.
#[derive(Clone, Copy, Default)]
pub(crate) struct Attributes<'fd> {
    /// Flags that are set.
    pub(crate) set: u64,
    /// Whether the mount stops sending and receiving mount events.
    pub(crate) private: bool,
    /// A user namespace whose map is applied to owners.
    pub(crate) id_map: Option<BorrowedFd<'fd>>,
}

impl Attributes<'_> {
    /// Sets `flags`.
    pub(crate) fn set(flags: MountAttrFlags) -> Self {
        Self { set: u64::from(flags.bits()), ..Self::default() }
    }
}

/// How far a change reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The one mount.
    Mount,
    /// The mount and all below it, all or none (mount_setattr(2)).
    Tree,
}

/// Changes the mount whose root `mount` is.
pub(crate) fn set_attributes(mount: impl AsFd, reach: Reach, attributes: Attributes<'_>) -> io::Result<()> {
    set_attributes_at(mount, c"", reach, attributes)
}

/// Changes the mount at `path`, which begins at `directory`; no path means the mount whose root `directory` is.
pub(crate) fn set_attributes_at(
    directory: impl AsFd,
    path: &CStr,
    reach: Reach,
    attributes: Attributes<'_>,
) -> io::Result<()> {
    let id_map = attributes.id_map.map(|fd| fd.as_raw_fd() as u64);
    let args = libc::mount_attr {
        attr_set: attributes.set | id_map.map_or(0, |_| libc::MOUNT_ATTR_IDMAP),
        attr_clr: 0,
        propagation: if attributes.private { libc::MS_PRIVATE } else { 0 },
        userns_fd: id_map.unwrap_or(0),
    };
    let recursive = if reach == Reach::Tree { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a C string, `args` is a whole mount_attr, and the descriptors in it are
    // borrowed for the length of the call.
    let returned = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory.as_fd().as_raw_fd(),
            path.as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW | recursive,
            &raw const args,
            size_of_val(&args),
        )
    };
    checked(returned).map(drop)
}
