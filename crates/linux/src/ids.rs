//! Who the command is: on the host, inside, and on the disks of the zones.
//!
//! Run by an ordinary user, the id inside is that user's and nothing else is mapped. Run by root, the command
//! is an id of the host that belongs to nobody and to this sandbox alone, and zones are mounted with a map
//! that shows their owner as that id: new files belong to the owner, and nothing is ever chowned. A file
//! system that cannot map owners is used as its owner, if that is not root.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use pinfold_core::plan::Plan;
use pinfold_core::zone::Access;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, openat};
use rustix::io::Errno;
use rustix::process::{Gid, Pid, Signal, Uid, getegid, geteuid, pidfd_send_signal};
use rustix::thread::{CapabilitySet, capabilities};

use crate::mounts::{MountError, Mounts, Source};
use crate::probe::pretends_missing;
use crate::sys;
use crate::sys::ids::Holder;

/// Why the command cannot get an id of its own.
#[derive(Debug, thiserror::Error)]
pub enum IdError {
    /// All ids set aside for sandboxes are taken.
    #[error("all {SLOTS} user ids set aside for sandboxes are in use")]
    NoneFree,
    /// The lock that marks an id as taken cannot be had.
    #[error("cannot reserve a user id with a lock in {path}")]
    Reserve {
        /// The directory of locks, or the lock.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others than root could take locks away, or hold them all.
    #[error("cannot reserve a user id in {path}: it must be a directory of root's that only root can write")]
    NotRoots {
        /// The directory of locks, or one above it.
        path: PathBuf,
    },
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

/// Where locks are kept: gone with a reboot, and the same for every supervisor of this host, whatever its
/// network namespace.
const RUN: &str = "/run";
/// Below it, or below the caller's state where it cannot be written.
const LOCKS: [&str; 2] = ["pinfold", "ids"];
/// Supervisors begin to look at as many different ids, so that most find theirs at once, and as many empty
/// files are all that is left behind unless more run together.
const SPREAD: u32 = 256;
/// How many are tried anywhere, each time in twice as large a part, before all of them are tried.
const LEAPS: u32 = 12;
/// Spreads neighbouring process numbers over all slots (Knuth's multiplicative hash).
const SCATTER: u32 = 2_654_435_761;

/// The command's ids.
#[derive(Debug)]
pub(crate) struct Ids {
    /// Seen inside, as user and as group.
    inside: u32,
    /// What the host sees.
    host: (u32, u32),
    how: How,
    /// Processes that carried a map and are killed: nothing has to wait until they are gone.
    holders: RefCell<Vec<Holder>>,
}

#[derive(Debug)]
enum How {
    /// The caller's own ids.
    Caller,
    /// Ids of nobody, for as long as the lock is open, here or in the guest.
    Reserved(OwnedFd),
    /// The owner of a zone.
    Owner,
}

/// Whether this process may map ids that are not its own and make idmapped mounts.
pub(crate) fn may_map() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::SETUID | CapabilitySet::SETGID;
    geteuid().is_root() && capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Who the command will be on the host, and what is to be known about it, both in words. `maps` says whether
/// owners can be mapped at all; whether a zone's file system can is seen only when it is mounted.
pub(crate) fn outlook(plan: &Plan, maps: bool) -> (&'static str, &'static str) {
    let mut zones = plan.files.zones.iter().filter_map(|zone| zone.host());
    let writes = !plan.files.write.is_empty() || zones.any(|(_, access)| access == Access::ReadWrite);
    expected(may_map(), writes, maps)
}

fn expected(may_map: bool, writes: bool, maps: bool) -> (&'static str, &'static str) {
    match (writes, maps) {
        _ if !may_map => ("the caller's own id", ""),
        (false, _) => ("an id of nobody's, of this sandbox alone", ""),
        (true, true) => (
            "an id of nobody's, of this sandbox alone",
            "where the file system of a writable zone cannot map owners, the id of the zone's owner instead",
        ),
        (true, false) => (
            "the id of the writable zones' owner",
            "owners cannot be mapped, so it is not of this sandbox alone; root as the owner is refused",
        ),
    }
}

impl Ids {
    /// Chooses ids. `owner` is who the command has to be because a zone cannot map owners; see
    /// [`IdError::Owner`]. `state` is a directory for locks where `/run` cannot be written.
    pub(crate) fn choose(
        inside: u32,
        owner: Option<(u32, u32)>,
        state: Option<&Path>,
    ) -> Result<Self, IdError> {
        if !may_map() {
            let host = (geteuid().as_raw(), getegid().as_raw());
            return Ok(Self { inside, host, how: How::Caller, holders: RefCell::default() });
        }
        if let Some(host) = owner {
            return Ok(Self { inside, host, how: How::Owner, holders: RefCell::default() });
        }
        let (first, slots) = range()?;
        let (id, lock) = reserve(&Locks::open(Path::new(RUN), state)?, first, slots)?;
        Ok(Self { inside, host: (id, id), how: How::Reserved(lock), holders: RefCell::default() })
    }

    /// The lock that keeps others from the same ids, if one does.
    pub(crate) fn lock(&self) -> Option<BorrowedFd<'_>> {
        match &self.how {
            How::Reserved(lock) => Some(lock.as_fd()),
            How::Caller | How::Owner => None,
        }
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
                Entry::Vacant(entry) => {
                    let (map, holder) = id_map(source.owner, self.host)?;
                    self.holders.borrow_mut().push(holder);
                    entry.insert(map)
                }
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

    /// Waits for the end of the processes that carried maps, once nobody waits for what follows.
    pub(crate) fn reap_holders(&self) {
        self.holders.borrow_mut().clear();
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
        let failed = |error: Errno| IdError::Become { id: self.inside, source: error.into() };
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

/// A directory of locks, which only root can write.
#[derive(Debug)]
struct Locks {
    path: PathBuf,
    directory: OwnedFd,
}

impl Locks {
    /// Opens the one below `run`, or below `state` if `run` cannot be written, and makes it if it is not there.
    /// Supervisors with different state directories do not see each other's locks, which is why `run` comes
    /// first.
    fn open(run: &Path, state: Option<&Path>) -> Result<Self, IdError> {
        let unwritable = |error: &IdError| {
            use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
            matches!(error, IdError::Reserve { source, .. }
                if matches!(source.kind(), NotFound | PermissionDenied | ReadOnlyFilesystem))
        };
        match (Self::below(run), state) {
            (Err(error), Some(state)) if unwritable(&error) => Self::below(state),
            (opened, _) => opened,
        }
    }

    fn below(base: &Path) -> Result<Self, IdError> {
        let mut path = base.to_owned();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut directory =
            openat(CWD, base, flags, Mode::empty()).map_err(|error| reserve_failed(&path, error))?;
        belongs_to_root(&directory, &path)?;
        for name in LOCKS {
            path.push(name);
            // Mostly it is there. A link is no directory of root's, whoever made it.
            let open = || openat(&directory, name, flags | OFlags::NOFOLLOW, Mode::empty());
            let made = |error| match error {
                Errno::NOENT => match mkdirat(&directory, name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => open(),
                    Err(error) => Err(error),
                },
                error => Err(error),
            };
            directory = open().or_else(made).map_err(|error| match error {
                Errno::LOOP | Errno::NOTDIR => IdError::NotRoots { path: path.clone() },
                error => reserve_failed(&path, error),
            })?;
            belongs_to_root(&directory, &path)?;
        }
        Ok(Self { path, directory })
    }
}

fn reserve_failed(path: &Path, error: Errno) -> IdError {
    IdError::Reserve { path: path.to_owned(), source: error.into() }
}

fn belongs_to_root(directory: &OwnedFd, path: &Path) -> Result<(), IdError> {
    let status = fstat(directory).map_err(|error| reserve_failed(path, error))?;
    if status.st_uid != 0 || status.st_mode & 0o022 != 0 {
        return Err(IdError::NotRoots { path: path.to_owned() });
    }
    Ok(())
}

/// Reserves an id for as long as the returned lock is open: the kernel lets go of it however the process ends
/// (flock(2)). Its file stays: removed, it could be locked by one while another makes a new one.
fn reserve(locks: &Locks, first: u32, slots: u32) -> Result<(u32, OwnedFd), IdError> {
    let pid = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
    let start = pid % SPREAD;
    // Beside many sandboxes, some tries further and further off find a free one sooner than one after another does.
    let leaps = (1..LEAPS).map(|leap| pid.wrapping_mul(SCATTER).wrapping_mul(leap) % (SPREAD << leap));
    for id in [start].into_iter().chain(leaps).chain(start..start + slots).map(|slot| first + slot % slots) {
        let name = id.to_string();
        let failed = |error| reserve_failed(&locks.path.join(&name), error);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = openat(&locks.directory, &name, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok((id, lock)),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(IdError::NoneFree)
}

/// A user namespace in which `disk` is `shown` to the host: what an idmapped mount is made with
/// (mount_setattr(2)). Its holder is killed, and to be reaped.
fn id_map(disk: (u32, u32), shown: (u32, u32)) -> Result<(OwnedFd, Holder), IdError> {
    let holder = sys::ids::hold_user_namespace().map_err(IdError::Holder)?;
    let pid = holder.child.pid;
    write(pid, "uid_map", &format!("{} {} 1", disk.0, shown.0))?;
    write(pid, "gid_map", &format!("{} {} 1", disk.1, shown.1))?;
    let path = PathBuf::from(format!("/proc/{}/ns/user", pid.as_raw_nonzero()));
    let namespace = fs::File::open(&path).map_err(|source| IdError::Map { path, source })?;
    pidfd_send_signal(&holder.child.pidfd, Signal::KILL).map_err(|error| IdError::Holder(error.into()))?;
    Ok((namespace.into(), holder))
}

/// Writes a file of `/proc/<pid>`, in one call as maps demand.
fn write(pid: Pid, file: &str, text: &str) -> Result<(), IdError> {
    let path = PathBuf::from(format!("/proc/{}/{file}", pid.as_raw_nonzero()));
    let open = fs::OpenOptions::new().write(true).open(&path);
    open.and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))
        .map_err(|source| IdError::Map { path, source })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn an_owners_id_is_not_called_nobodys() {
        assert!(expected(false, true, true).0.contains("caller's own"));
        assert!(expected(true, false, false).0.contains("nobody's"));
        assert!(expected(true, true, true).1.contains("the id of the zone's owner instead"));
        let (who, detail) = expected(true, true, false);
        assert!(
            who.contains("owner") && !who.contains("alone") && detail.contains("not of this sandbox alone")
        );
    }

    fn root_directory() -> Option<tempfile::TempDir> {
        geteuid().is_root().then(|| tempfile::tempdir().unwrap())
    }

    #[test]
    fn two_at_once_differ_and_an_ended_one_is_free_again() {
        let Some(run) = root_directory() else { return };
        let locks = || Locks::open(run.path(), None).unwrap();
        let (one, held) = reserve(&locks(), FIRST, SLOTS).unwrap();
        let (other, _held) = reserve(&locks(), FIRST, SLOTS).unwrap();
        assert_ne!(one, other);
        drop(held);
        assert_eq!(reserve(&locks(), FIRST, SLOTS).unwrap().0, one);
        let all: Vec<_> = (0..3).map(|_| reserve(&locks(), FIRST + SLOTS, 3).unwrap()).collect();
        assert!(matches!(reserve(&locks(), FIRST + SLOTS, 3), Err(IdError::NoneFree)), "{all:?}");
        assert_eq!(fs::metadata(run.path().join("pinfold/ids")).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        let refused = |prepare: &dyn Fn(&Path)| {
            let Some(run) = root_directory() else { return };
            fs::create_dir_all(run.path().join("pinfold/ids")).unwrap();
            Locks::open(run.path(), None).unwrap();
            prepare(run.path());
            let opened = Locks::open(run.path(), Some(run.path()));
            assert!(matches!(opened, Err(IdError::NotRoots { .. })), "{opened:?}");
        };
        refused(&|run| chown(run.join("pinfold"), Some(1234), None).unwrap());
        refused(&|run| chown(run.join("pinfold/ids"), Some(1234), None).unwrap());
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        refused(&|run| open(&run.join("pinfold/ids")));
        refused(&|run| open(run));
        refused(&|run| {
            fs::rename(run.join("pinfold/ids"), run.join("moved")).unwrap();
            symlink(run.join("moved"), run.join("pinfold/ids")).unwrap();
        });
    }

    #[test]
    fn where_run_cannot_be_written_the_callers_state_is_used() {
        let Some(state) = root_directory() else { return };
        let absent = state.path().join("absent");
        let locks = Locks::open(&absent, Some(state.path())).unwrap();
        assert_eq!(locks.path, state.path().join("pinfold/ids"));
        assert!(matches!(Locks::open(&absent, None), Err(IdError::Reserve { path, .. }) if path == absent));
    }
}
