//! What lies in the zones and must be covered before anything runs there: what deny globs match, sockets and FIFOs,
//! Pinfold's own state, and the names that the host would later execute or obey. And, when all inside is gone, what
//! became of those names.
//!
//! Runs on the host as the caller, before the sandbox is made and after it ended. It decides which paths are covered
//! with what; `mounts` does the covering. The host itself reads no file here but git's own small text files, with
//! bounds.
//!
//! # What is found when
//!
//! Start-up does not walk a workspace unless a glob with `**` demands it. Without one it looks at the names it
//! knows, at the repositories that the last complete look found, and at the tree near the root ([`NEAR`]). The end
//! of a run walks all directories of the writable zones, so a repository that start-up did not see is still checked
//! before the host uses it, and is known next time.

mod covers;
mod deny;
mod digest;
mod end;
mod gitconfig;
mod judge;
mod links;
mod placeholders;
mod places;
mod protected;
mod quarantine;
mod reach;
mod repositories;
mod scan;
mod special;
mod state;
mod walk;
pub mod watch;

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use pinfold_core::control::Control;
use pinfold_core::glob::GlobError;
use pinfold_core::path::AbsPath;
use pinfold_core::plan::Files;
use pinfold_core::zone::Access;
use rustix::io::Errno;

use covers::Covers;
use digest::Moment;
use places::Place;
use walk::Bounds;

pub use end::{Changed, EndReport, How, Quarantined};
pub use state::StateDir;

/// How far start-up looks from a zone's root without being asked to walk: enough for the usual layout (a few
/// repositories side by side), never more than about a third of a millisecond.
const NEAR: Bounds = Bounds { entries: 1_000, directories: 32, depth: 2 };

/// Mounts that everything but covers may need, kept free below the kernel's limit.
const SPARE_MOUNTS: usize = 1_000;

/// A host directory or file that is shown inside.
#[derive(Debug)]
pub struct Zone {
    /// Its root on the host, opened with `O_PATH`.
    pub root: OwnedFd,
    /// Where it is on the host.
    pub host: AbsPath,
    /// Where it is seen inside.
    pub inside: AbsPath,
    /// What may be done with it.
    pub access: Access,
}

/// What a path is covered with. Ordered: a greater one hides more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum With {
    /// The directory itself, writable as before: a mount point cannot be renamed or removed.
    Pinned,
    /// Itself, read-only: a file, a directory with all that is in it, or a link (mounted on the link).
    Itself,
    /// A link that leads nowhere, so that reading finds nothing and the name cannot be taken.
    Absent,
    /// An empty file that can be neither read nor written.
    EmptyFile,
    /// An empty directory that can be neither read nor written.
    EmptyDir,
}

impl With {
    /// True when what lies beneath cannot be seen.
    pub const fn hides(self) -> bool {
        matches!(self, Self::EmptyFile | Self::EmptyDir)
    }
}

/// Why a path is covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Because {
    /// A deny glob matches it, or it is on the way to what one matches.
    Deny,
    /// It is Pinfold's own state.
    Own,
    /// It is a socket or a FIFO, which would reach a process outside.
    Special,
    /// The host would execute or obey it.
    Protected,
    /// The host would execute or obey it, and it is not there.
    Placeholder,
}

/// One path that is covered. Paths are in the order to mount: what contains comes before what is contained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cover {
    /// Which zone, by its position.
    pub zone: usize,
    /// The path below the zone's root; empty for the root itself. No component is a link, but the last may be.
    pub path: PathBuf,
    /// With what.
    pub with: With,
    /// Why.
    pub because: Because,
}

/// What a walk cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Names looked at.
    pub entries: u64,
    /// Time taken.
    pub elapsed: Duration,
}

/// What start-up could not rule out, for the receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// A zone is larger than start-up looks at: a repository, socket or FIFO further down is not covered. The
    /// end check finds the repositories; with Landlock from ABI 9 sockets cannot be reached either.
    NotWalked(PathBuf),
    /// A process listens on a socket with a relative name, on the file system of a zone, and its place is not known.
    UnplacedSocket(PathBuf),
    /// The kernel does not tell which sockets are bound.
    SocketsUnknown,
    /// Directories of a zone lie too deep to be pinned.
    NotPinned(PathBuf),
    /// A deny glob is not applied to the directories of the system.
    SystemNotWalked(String),
    /// A denied file has other names, which are covered only if a glob matches them too.
    HardLinks(PathBuf),
}

impl Left {
    /// The controls whose receipt has to tell of it.
    fn controls(&self) -> &'static [Control] {
        match self {
            Self::NotWalked(_) => &[Control::FilesProtected, Control::IpcIsolated],
            Self::UnplacedSocket(_) | Self::SocketsUnknown => &[Control::IpcIsolated],
            Self::NotPinned(_) => &[Control::FilesProtected],
            Self::SystemNotWalked(_) | Self::HardLinks(_) => &[Control::FilesDeny],
        }
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWalked(zone) => write!(
                f,
                "{} was looked at only near its root: repositories further down are checked at the end, FIFOs and \
                 sockets of other network namespaces are not covered",
                zone.display()
            ),
            Self::UnplacedSocket(name) => {
                write!(
                    f,
                    "a process listens on the socket `{}` in a directory that is not known",
                    name.display()
                )
            }
            Self::SocketsUnknown => f.write_str("the kernel does not tell which sockets are bound"),
            Self::NotPinned(zone) => write!(
                f,
                "directories more than {} levels below {} can be renamed: what then is in the place of a repository \
                 there is checked at the end",
                covers::PINNED,
                zone.display()
            ),
            Self::SystemNotWalked(glob) => write!(
                f,
                "`{glob}` is not applied to the directories of the system, which are not walked: what it matches \
                 there can be read; name it, or a directory above it"
            ),
            Self::HardLinks(path) => {
                write!(f, "{} has other names, which are covered only if they match too", path.display())
            }
        }
    }
}

/// Why the zones could not be surveyed.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    /// Something could not be looked at.
    #[error("cannot look at {}", path.display())]
    Look {
        /// Where.
        path: PathBuf,
        /// Why.
        source: Errno,
    },
    /// A directory could not be read, so what it holds might match a deny glob unseen.
    #[error("cannot read the directory {}, in which a deny glob could match", path.display())]
    Unreadable {
        /// Where.
        path: PathBuf,
        /// Why.
        source: Errno,
    },
    /// Paths longer than the kernel takes in one call: nothing down there could be covered.
    #[error("{} holds paths longer than {} bytes, which cannot be covered", zone.display(), places::PATH_MAX)]
    TooDeep {
        /// The zone.
        zone: PathBuf,
    },
    /// More covers than the kernel allows mounts.
    #[error("{count} paths have to be covered, but the kernel allows {limit} mounts (fs.mount-max)")]
    TooMany {
        /// How many.
        count: usize,
        /// The kernel's limit.
        limit: usize,
    },
    /// A glob that cannot be matched.
    #[error("a deny glob cannot be matched")]
    Glob(#[from] GlobError),
    /// The state directory failed.
    #[error("cannot {action} {} in the state directory", name.display())]
    State {
        /// What was tried.
        action: &'static str,
        /// With what.
        name: PathBuf,
        /// Why.
        source: Errno,
    },
    /// A placeholder could not be made, so the inside could take the name.
    #[error("cannot keep the protected name {} from being made", path.display())]
    Placeholder {
        /// The name.
        path: PathBuf,
        /// Why.
        source: Errno,
    },
    /// Something that the host would execute could not be taken out of its way.
    #[error("cannot move {} to quarantine", path.display())]
    Quarantine {
        /// What.
        path: PathBuf,
        /// Why.
        source: Errno,
    },
}

/// What has to be covered, and what must be looked at again at the end.
#[derive(Debug)]
pub struct Survey {
    /// The covers, in the order to mount them.
    pub covers: Vec<Cover>,
    /// The cost of the walk, when a glob demanded one.
    pub walked: Option<Walked>,
    /// What start-up could not rule out.
    pub left: Vec<Left>,
    /// What was found of runs that did not come to their end, by a look before anything was trusted. It is in the report
    /// of the end too.
    pub recovered: EndReport,
    end: end::Pending,
}

impl Survey {
    /// Records that these covers, by position, were gone while something still ran inside (see [`watch`]): what they
    /// covered is then distrusted at the end.
    pub fn lost(&mut self, covers: impl IntoIterator<Item = usize>) {
        let lost = covers.into_iter().filter_map(|at| self.covers.get(at));
        self.end.lost.extend(lost.map(|cover| (cover.zone, cover.path.clone())));
    }

    /// What is left open, in words, for the receipt of each control.
    pub fn left_open(&self) -> Vec<(Control, String)> {
        let told = |left: &Left| {
            left.controls().iter().map(|control| (*control, left.to_string())).collect::<Vec<_>>()
        };
        self.left.iter().flat_map(told).collect()
    }

    /// Looks again, on the host, after everything inside is gone: compares the protected names, takes out of the way
    /// what the host would execute, and removes placeholders that nobody else needs.
    ///
    /// What cannot be looked at or tidied is told in the report, and does not keep the rest from being done.
    pub fn finish(self) -> Result<EndReport, SurveyError> {
        Ok(self.recovered.and(end::finish(self.end)?))
    }
}

/// Surveys `zones` for what `files` asks, and makes the placeholders. `state` is a directory of the caller's own,
/// outside every zone, for locks, the list of known repositories, and quarantine.
pub fn take(files: &Files, zones: &[Zone], state: &StateDir) -> Result<Survey, SurveyError> {
    let moment = Moment::now();
    let places: Vec<Place<'_>> =
        zones.iter().enumerate().map(|(index, zone)| Place::new(index, zone)).collect::<Result<_, _>>()?;
    let mut covers = Covers::default();
    let mut left = Vec::new();
    let mut walked: Option<Walked> = None;

    let is_workspace = |place: &Place<'_>| {
        let same = |zone: &pinfold_core::plan::Zone| {
            zone.host().is_some_and(|(host, _)| host.as_path() == place.host)
        };
        files.zones.iter().any(|zone| zone.name == "workspace" && same(zone))
    };
    let recovered = recover(files, &places, state, is_workspace)?;
    let mut wanted = Vec::new();
    deny::own(&files.own, &places, &mut covers, &mut wanted)?;
    let deny = deny::Deny::new(&files.deny)?;
    let mut near = Vec::with_capacity(places.len());
    for place in &places {
        let whole = place.is_dir() && deny.needs_walk(place);
        let seen = scan::scan(place, if whole { Bounds::NONE } else { NEAR }, &deny, &files.protect.names)?;
        if whole {
            let sum = walked.get_or_insert(Walked { entries: 0, elapsed: Duration::ZERO });
            sum.entries += seen.tally.entries;
            sum.elapsed += seen.tally.elapsed;
        } else if !seen.whole {
            left.push(Left::NotWalked(place.host.to_owned()));
        }
        near.push(seen);
    }
    let left_out = files.deny.iter().filter(|glob| crate::mounts::denied::is_left_out(glob));
    left.extend(left_out.map(|glob| Left::SystemNotWalked(glob.as_str().to_owned())));
    deny.apply(&places, &near, files, &mut covers, &mut wanted, &mut left)?;
    special::apply(&places, &near, &mut covers, &mut left)?;

    let mut protector = protected::Protector::new(&files.protect, &places, &mut covers, moment, wanted);
    let mut records = Vec::new();
    for place in one_by_one(&places) {
        let record = state.record(place)?;
        protector.zone(place, is_workspace(place), &near[place.index], &record)?;
        records.push((place, record));
    }
    for (place, record) in records {
        protector.hold(state, place, record)?;
    }
    let found = protector.finish();
    covers.mirror(&places)?;
    left.extend(covers.deep().map(|zone| Left::NotPinned(places[zone].host.to_owned())));
    let covers = covers.finish();
    check_count(covers.len())?;
    let moment = moment.no_later_than(&found.holders);
    let end = end::Pending::new(zones, state, moment, &files.protect.names, found)?;
    Ok(Survey { covers, walked, left, recovered, end })
}

/// Looks at what runs left that were killed or whose end could not be looked at, before any of it is taken for known.
fn recover(
    files: &Files,
    places: &[Place<'_>],
    state: &StateDir,
    is_workspace: impl Fn(&Place<'_>) -> bool,
) -> Result<EndReport, SurveyError> {
    let mut report = EndReport::default();
    for place in one_by_one(places) {
        let mut record = state.record(place)?;
        let marks: Vec<_> = record.marks().cloned().collect();
        // While another run uses the zone, a mark may be that run's, which will look itself.
        if marks.is_empty() || !state.is_unused(&record)? {
            continue;
        }
        let roots = is_workspace(place).then(|| (place.index, PathBuf::new())).into_iter().collect();
        let (found, seen) = end::recover(places, place, state, &marks, roots, &files.protect.names)?;
        if seen.failures.is_empty() {
            record.settle(found)?;
        }
        report = report.and(seen);
    }
    Ok(report)
}

/// The writable directories, each once, in an order that is the same for everyone: their records are locked in it,
/// so that two starts cannot wait for each other.
fn one_by_one<'p, 'z>(places: &'p [Place<'z>]) -> Vec<&'p Place<'z>> {
    let mut chosen: Vec<&Place<'z>> =
        places.iter().filter(|place| place.writable() && place.is_dir()).collect();
    chosen.sort_by_key(|place| (place.stat.st_dev, place.stat.st_ino));
    chosen.dedup_by_key(|place| (place.stat.st_dev, place.stat.st_ino));
    chosen
}

/// Refuses more covers than the kernel would mount, before the first is mounted.
fn check_count(count: usize) -> Result<(), SurveyError> {
    // Far below any setting, the file need not be read.
    if count <= SPARE_MOUNTS {
        return Ok(());
    }
    let path = PathBuf::from("/proc/sys/fs/mount-max");
    let text = std::fs::read_to_string(&path).map_err(|error| SurveyError::Look {
        path: path.clone(),
        source: Errno::from_io_error(&error).unwrap_or(Errno::IO),
    })?;
    let limit: usize = text.trim().parse().map_err(|_| SurveyError::Look { path, source: Errno::INVAL })?;
    if count + SPARE_MOUNTS > limit { Err(SurveyError::TooMany { count, limit }) } else { Ok(()) }
}
