//! Who the command is: on the host, inside, and on the disks of the zones.
//!
//! Run by an ordinary user, the id inside is that user's and nothing else is mapped. Run by root, the command
//! is an id of the host that belongs to nobody and to this sandbox alone, and zones are mounted with a map
//! that shows their owner as that id: new files belong to the owner, and nothing is ever chowned. A file
//! system that cannot map owners is used as its owner, if that is not root.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use pinfold_core::zone::Access;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use rustix::process::{Gid, Pid, Signal, Uid, getegid, geteuid, pidfd_send_signal};
use rustix::thread::{CapabilitySet, capabilities};

use crate::mounts::{MountError, Mounts, Source};
use crate::probe::pretends_missing;
use crate::sys;

/// Why the command cannot get an id of its own.
#[derive(Debug, thiserror::Error)]
pub enum IdError {
    /// All ids set aside for sandboxes are taken.
    #[error("all {SLOTS} user ids set aside for sandboxes are in use")]
    NoneFree,
    /// The socket that marks an id as taken failed.
    #[error("cannot reserve a user id")]
    Reserve(#[source] io::Error),
    /// The caller's own id map cannot be read.
    #[error("cannot read /proc/self/uid_map")]
    OwnMap(#[source] io::Error),
    /// A map cannot be written.
    #[error("cannot write {path}")]
    Map {
        /// Which map.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A namespace for an id map cannot be made.
    #[error("cannot make a user namespace for an id map")]
    Holder(#[source] io::Error),
    /// The owner of a zone is root and its file system cannot map owners.
    #[error("{path} belongs to root on a file system that cannot map owners")]
    RootOwned {
        /// The zone on the host.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Two zones that cannot map owners have different ones.
    #[error("{path} cannot map owners, and belongs to another user than a zone before it")]
    TwoOwners {
        /// The zone on the host.
        path: PathBuf,
    },
    /// A zone cannot map owners: the command has to be its owner.
    #[error("{path} cannot map owners, so the command has to be user {} there", owner.0)]
    Owner {
        /// The zone on the host.
        path: PathBuf,
        /// User and group on disk.
        owner: (u32, u32),
    },
    /// A zone could not be mounted.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The id inside cannot be taken on.
    #[error("cannot become user {id} inside")]
    Become {
        /// The id.
        id: u32,
        /// Why.
        source: io::Error,
    },
}

/// Ids for sandboxes: above what systemd gives to containers, below what it calls foreign
/// (systemd's UIDS-GIDS.md), so that no account and no container has them.
const FIRST: u32 = 0x7000_0000;
/// How many there are.
const SLOTS: u32 = 0x1_0000;

/// The command's ids.
#[derive(Debug)]
pub(crate) struct Ids {
    /// Seen inside, as user and as group.
    inside: u32,
    /// What the host sees.
    host: (u32, u32),
    how: How,
}

#[derive(Debug)]
enum How {
    /// The caller's own ids.
    Caller,
    /// Ids of nobody, for as long as the socket is open.
    Reserved(#[allow(dead_code)] OwnedFd),
    /// The owner of a zone.
    Owner,
}

/// Whether this process may map ids that are not its own and make idmapped mounts.
pub(crate) fn may_map() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::SETUID | CapabilitySet::SETGID;
    geteuid().is_root() && capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

impl Ids {
    /// Chooses ids. `owner` is who the command has to be because a zone cannot map owners; see
    /// [`IdError::Owner`].
    pub(crate) fn choose(inside: u32, owner: Option<(u32, u32)>) -> Result<Self, IdError> {
        if !may_map() {
            let host = (geteuid().as_raw(), getegid().as_raw());
            return Ok(Self { inside, host, how: How::Caller });
        }
        if let Some(host) = owner {
            return Ok(Self { inside, host, how: How::Owner });
        }
        let (first, slots) = range()?;
        let (id, socket) = reserve(first, slots)?;
        Ok(Self { inside, host: (id, id), how: How::Reserved(socket) })
    }

    /// Who makes the mounts of host paths: this process if it may map owners, else the new namespace.
    pub(crate) fn mounts(&self) -> Mounts {
        match self.how {
            How::Caller => Mounts::Open,
            How::Reserved(_) | How::Owner => Mounts::HandedOver,
        }
    }

    /// Mounts every source so that its owner on disk is the command.
    pub(crate) fn mount<'s>(&self, sources: impl Iterator<Item = &'s mut Source>) -> Result<(), IdError> {
        let mut maps = HashMap::new();
        for source in sources {
            if source.owner == self.host {
                source.mount_here(None)?;
                continue;
            }
            let map = match maps.entry(source.owner) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(id_map(source.owner, self.host)?),
            };
            let mapped = if pretends_missing("idmap") {
                Err(MountError::IdMap {
                    path: source.real.clone(),
                    source: io::ErrorKind::Unsupported.into(),
                })
            } else {
                source.mount_here(Some(map.as_fd()))
            };
            match mapped {
                Err(MountError::IdMap { source: error, .. }) => self.without_map(source, error)?,
                mapped => mapped?,
            }
        }
        Ok(())
    }

    /// What happens where a file system cannot map owners. What is read-only needs no owner: what others may
    /// read there, the command may.
    fn without_map(&self, source: &mut Source, error: io::Error) -> Result<(), IdError> {
        let path = source.real.clone();
        match (source.access, source.owner, &self.how) {
            (Access::ReadOnly, ..) => Ok(source.mount_here(None)?),
            (Access::ReadWrite, (0, _), _) => Err(IdError::RootOwned { path, source: error }),
            (Access::ReadWrite, _, How::Owner) => Err(IdError::TwoOwners { path }),
            (Access::ReadWrite, owner, _) => Err(IdError::Owner { path, owner }),
        }
    }

    /// Writes the maps of the new namespace that `pid` is in.
    pub(crate) fn write_maps(&self, pid: Pid) -> Result<(), IdError> {
        let (user, group) = self.host;
        if matches!(self.how, How::Caller) {
            // Without privileges a group map needs this first (user_namespaces(7)).
            write(pid, "setgroups", "deny")?;
        }
        write(pid, "uid_map", &format!("{} {user} 1", self.inside))?;
        write(pid, "gid_map", &format!("{} {group} 1", self.inside))
    }

    /// Takes the ids on, inside, once they are mapped. Capabilities in the new namespace stay: they are lost
    /// when its root becomes someone else (capabilities(7)), and the process was no id of that namespace
    /// before.
    pub(crate) fn take_on(&self) -> Result<(), IdError> {
        if matches!(self.how, How::Caller) {
            return Ok(());
        }
        let failed = |error: rustix::io::Errno| IdError::Become { id: self.inside, source: error.into() };
        let (user, group) = (Uid::from_raw(self.inside), Gid::from_raw(self.inside));
        rustix::thread::set_thread_groups(&[]).map_err(failed)?;
        rustix::thread::set_thread_res_gid(group, group, group).map_err(failed)?;
        rustix::thread::set_thread_res_uid(user, user, user).map_err(failed)
    }
}

/// The ids to choose from. In a container the caller may not have all of them: then the upper half of what it
/// has.
fn range() -> Result<(u32, u32), IdError> {
    let text = fs::read_to_string("/proc/self/uid_map").map_err(IdError::OwnMap)?;
    let mut best = (0, 0);
    for line in text.lines() {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u32>().unwrap_or(0));
        let (first, count) = (numbers.next().unwrap_or(0), numbers.nth(1).unwrap_or(0));
        if u64::from(first) <= FIRST.into() && u64::from(first) + u64::from(count) >= u64::from(FIRST + SLOTS)
        {
            return Ok((FIRST, SLOTS));
        }
        if count > best.1 {
            best = (first, count);
        }
    }
    let slots = (best.1 / 2).min(SLOTS);
    Ok((best.0 + best.1 - slots, slots))
}

/// Reserves an id for as long as the returned socket is open. The name of an abstract socket is a lock that
/// leaves no file behind and is let go of by the kernel however the process ends (unix(7)).
fn reserve(first: u32, slots: u32) -> Result<(u32, OwnedFd), IdError> {
    if slots == 0 {
        return Err(IdError::NoneFree);
    }
    let reserve = |error: rustix::io::Errno| IdError::Reserve(error.into());
    let start = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).map_err(reserve)?;
    for slot in (0..slots).map(|offset| (start.wrapping_add(offset)) % slots) {
        let id = first + slot;
        let name = format!("pinfold/uid/{id}");
        match bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(reserve)?) {
            Ok(()) => return Ok((id, socket)),
            Err(rustix::io::Errno::ADDRINUSE) => {}
            Err(error) => return Err(reserve(error)),
        }
    }
    Err(IdError::NoneFree)
}

/// A user namespace in which `disk` is `shown` to the host: what an idmapped mount is made with
/// (mount_setattr(2)).
fn id_map(disk: (u32, u32), shown: (u32, u32)) -> Result<OwnedFd, IdError> {
    let holder = sys::ids::hold_user_namespace().map_err(IdError::Holder)?;
    let pid = holder.child.pid;
    let namespace = write(pid, "uid_map", &format!("{} {} 1", disk.0, shown.0))
        .and_then(|()| write(pid, "gid_map", &format!("{} {} 1", disk.1, shown.1)))
        .and_then(|()| {
            let path = PathBuf::from(format!("/proc/{}/ns/user", pid.as_raw_nonzero()));
            fs::File::open(&path).map_err(|source| IdError::Map { path, source })
        });
    let killed =
        pidfd_send_signal(&holder.child.pidfd, Signal::KILL).map_err(|error| IdError::Holder(error.into()));
    let reaped = sys::wait::reap(pid).map_err(IdError::Holder);
    killed?;
    reaped?;
    namespace.map(OwnedFd::from)
}

/// Writes a file of `/proc/<pid>`, in one call as maps demand.
fn write(pid: Pid, file: &str, text: &str) -> Result<(), IdError> {
    let path = PathBuf::from(format!("/proc/{}/{file}", pid.as_raw_nonzero()));
    let open = fs::OpenOptions::new().write(true).open(&path);
    open.and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))
        .map_err(|source| IdError::Map { path, source })
}
