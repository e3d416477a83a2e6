//! The look at the end: what became of the protected names, and which repositories there are now that were not
//! covered from the start. What the host would execute in those is moved to quarantine; inert configuration and
//! sample hooks stay, so that a repository made inside stays usable.
//!
//! A name whose cover held to the end cannot have been changed from inside: if it did change, someone on the host
//! did it, and it is reported but left alone. A name whose cover was lost while something ran is distrusted.
//!
//! Git directories that were covered from the start are not judged again. Others are, if anything about them changed
//! during the run: a directory becomes a repository only by a change of its own entries, by being renamed, or by
//! a new `.git` file or link that names it, and each of these leaves a change time within the run.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};

use super::digest::{Kept, Moment};
use super::gitconfig::{Verdict, judge};
use super::links::trace;
use super::placeholders::Holder;
use super::places::Place;
use super::protected::Known;
use super::quarantine::{Quarantine, write_new};
use super::repositories::{common_dir, directory_at, follow, git_file};
use super::scan::{self, Seen};
use super::{StateDir, SurveyError, Walked, Zone};

/// A configuration longer than this is not one.
const MOST_CONFIG: usize = 256 << 10;
/// Repositories remembered for the next start.
const MOST_KNOWN: usize = 500;

/// What became of the protected names.
#[derive(Debug, Default)]
pub struct EndReport {
    /// Protected names that are not what they were.
    pub changed: Vec<Changed>,
    /// What the host would have executed, and where it is now.
    pub quarantined: Vec<Quarantined>,
    /// Names that were kept free, and are someone's files now.
    pub placeholders_kept: Vec<PathBuf>,
    /// Directories that could not be looked at: their repositories, if any, were not judged.
    pub unchecked: Vec<PathBuf>,
    /// The cost of looking.
    pub walked: Option<Walked>,
}

impl EndReport {
    /// What a person is told, a line each.
    pub fn findings(&self) -> impl Iterator<Item = String> {
        let changed = self.changed.iter().map(|changed| match changed.how {
            How::OnTheHost => format!("{} was changed on the host meanwhile", changed.path.display()),
            How::Uncovered => format!("{} was changed while its cover was off", changed.path.display()),
        });
        let quarantined = self.quarantined.iter().map(|moved| {
            format!("{} was moved to {}: {}", moved.from.display(), moved.to.display(), moved.why)
        });
        let kept = self.placeholders_kept.iter().map(|path| format!("{} was made meanwhile", path.display()));
        let unchecked =
            self.unchecked.iter().map(|path| format!("{} could not be looked at", path.display()));
        changed.chain(quarantined).chain(kept).chain(unchecked)
    }
}

/// A protected name that changed during the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Its path on the host.
    pub path: PathBuf,
    /// By whom, as far as can be told.
    pub how: How,
}

/// How a protected name can have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Its cover held all the time: by someone on the host.
    OnTheHost,
    /// Its cover was lost during the run: perhaps from inside.
    Uncovered,
}

/// Something that was moved out of the host's way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Where it was on the host.
    pub from: PathBuf,
    /// Where it is.
    pub to: PathBuf,
    /// What it would have done.
    pub why: String,
}

/// What has to be done at the end.
#[derive(Debug)]
pub(crate) struct Pending {
    zones: Vec<Zone>,
    state: StateDir,
    since: Moment,
    kept: Vec<Kept>,
    known: HashSet<(u64, u64)>,
    holders: Vec<Holder>,
    /// Covers that were lost, by zone and path.
    pub(crate) lost: HashSet<(usize, PathBuf)>,
}

impl Pending {
    pub(crate) fn new(
        zones: &[Zone],
        state: &StateDir,
        since: Moment,
        kept: Vec<Kept>,
        known: Vec<Known>,
        holders: Vec<Holder>,
    ) -> Result<Self, SurveyError> {
        let again = |zone: &Zone| {
            let root = rustix::io::fcntl_dupfd_cloexec(&zone.root, 3)
                .map_err(|source| SurveyError::Look { path: zone.host.as_path().to_owned(), source })?;
            Ok(Zone { root, host: zone.host.clone(), inside: zone.inside.clone(), access: zone.access })
        };
        // All of them, so that positions stay the same and links between zones can be followed.
        let zones = zones.iter().map(again).collect::<Result<_, SurveyError>>()?;
        let known = known.into_iter().map(|known| (known.device, known.inode)).collect();
        Ok(Self { zones, state: state.again()?, since, kept, known, holders, lost: HashSet::new() })
    }
}

/// Does everything that is left to do.
pub(crate) fn finish(pending: Pending) -> Result<EndReport, SurveyError> {
    let Pending { zones, state, since, kept, known, holders, lost } = pending;
    let places: Vec<Place<'_>> =
        zones.iter().enumerate().map(|(index, zone)| Place::new(index, zone)).collect::<Result<_, _>>()?;
    let quarantine = Quarantine::new(state);
    let mut end = End { places: &places, since, known, lost, quarantine, report: EndReport::default() };
    for kept in &kept {
        end.compare(kept)?;
    }
    for holder in holders {
        let place = &places[holder.zone];
        let seen = scan::repositories(place);
        let found = end.repositories(place, &seen)?;
        let sum = end.report.walked.get_or_insert(Walked { entries: 0, elapsed: std::time::Duration::ZERO });
        sum.entries += seen.tally.entries;
        sum.elapsed += seen.tally.elapsed;
        let unread = seen.tally.unreadable.into_iter().map(|(path, _)| path).chain(seen.tally.too_deep);
        end.report.unchecked.extend(unread.map(|path| place.shown(&path)));
        for path in holder.leave(Some(found))? {
            end.taken_name(place, path)?;
        }
    }
    Ok(end.report)
}

struct End<'a, 'z> {
    places: &'a [Place<'z>],
    since: Moment,
    known: HashSet<(u64, u64)>,
    lost: HashSet<(usize, PathBuf)>,
    quarantine: Quarantine,
    report: EndReport,
}

impl<'z> End<'_, 'z> {
    /// Whether a cover on the way to `path`, at it or below it was lost.
    fn is_suspect(&self, zone: usize, path: &Path) -> bool {
        self.lost.iter().any(|(z, lost)| *z == zone && (path.starts_with(lost) || lost.starts_with(path)))
    }

    fn take(&mut self, place: &Place<'z>, path: &Path, why: &str) -> Result<(), SurveyError> {
        if let Some(to) = self.quarantine.take(place, path)? {
            self.report.quarantined.push(Quarantined { from: place.shown(path), to, why: why.to_owned() });
        }
        Ok(())
    }

    /// Compares a protected thing with what it was.
    fn compare(&mut self, kept: &Kept) -> Result<(), SurveyError> {
        let place = &self.places[kept.zone];
        let suspect = self.is_suspect(kept.zone, &kept.path);
        let changed = kept
            .is_changed(place.root, &self.since, suspect)
            .map_err(|source| SurveyError::Look { path: place.shown(&kept.path), source })?;
        if !changed {
            return Ok(());
        }
        let how = if suspect { How::Uncovered } else { How::OnTheHost };
        self.report.changed.push(Changed { path: place.shown(&kept.path), how });
        if suspect {
            self.distrust(place, &kept.path)?;
        }
        Ok(())
    }

    /// A name that was kept free and is not any more.
    fn taken_name(&mut self, place: &Place<'z>, path: PathBuf) -> Result<(), SurveyError> {
        let below = path.strip_prefix(place.host).unwrap_or(&path).to_owned();
        if self.is_suspect(place.index, &below) {
            self.report.changed.push(Changed { path: path.clone(), how: How::Uncovered });
            self.distrust(place, &below)?;
        }
        self.report.placeholders_kept.push(path);
        Ok(())
    }

    /// Takes what may have been written from inside: of git's own files only what acts, anything else wholly.
    fn distrust(&mut self, place: &Place<'z>, path: &Path) -> Result<(), SurveyError> {
        match path.file_name().map(std::ffi::OsStr::as_encoded_bytes) {
            Some(b"config" | b"config.worktree") => self.configuration(place, path),
            Some(b"hooks") => self.hooks(place, path),
            _ => self.take(place, path, "a protected name that was changed while its cover was gone"),
        }
    }

    /// Judges the repositories of a zone. Returns all git directories, for the next start.
    fn repositories(&mut self, place: &Place<'z>, seen: &Seen) -> Result<Vec<PathBuf>, SurveyError> {
        let timeless = !self.since.is_comparable();
        let mut found = Vec::new();
        for (path, kind) in &seen.git {
            match kind {
                FileType::Directory => self.git_dir(place, path, timeless)?,
                FileType::RegularFile | FileType::Symlink => {
                    let fresh = |stat: &Stat| timeless || self.since.is_before_change_of(stat);
                    let fresh = place.stat(path)?.is_some_and(|stat| fresh(&stat));
                    self.pointer(place, path, *kind, fresh)?;
                }
                _ => {}
            }
            found.push(path.clone());
        }
        for path in &seen.bare {
            self.git_dir(place, path, timeless)?;
            found.push(path.clone());
        }
        found.truncate(MOST_KNOWN);
        Ok(found)
    }

    /// Judges the git directory that a `.git` file or link names.
    fn pointer(
        &mut self,
        place: &Place<'z>,
        path: &Path,
        kind: FileType,
        fresh: bool,
    ) -> Result<(), SurveyError> {
        let way = if kind == FileType::Symlink {
            trace(self.places, place, path)?
        } else {
            match git_file(place, path)? {
                Some(written) => {
                    follow(self.places, place, path.parent().unwrap_or(Path::new("")), &written)?
                }
                None => return Ok(()),
            }
        };
        match directory_at(&way) {
            Some((zone, target)) => {
                let places = self.places;
                self.git_dir(&places[zone], target, fresh)
            }
            None => Ok(()),
        }
    }

    /// Judges one git directory, unless it was covered all the time or nothing about it changed.
    fn git_dir(&mut self, place: &Place<'z>, path: &Path, fresh: bool) -> Result<(), SurveyError> {
        let Some(stat) = place.stat(path)? else { return Ok(()) };
        if self.known.contains(&(stat.st_dev, stat.st_ino)) || !place.writable() {
            return Ok(());
        }
        let hooks = path.join("hooks");
        let mut touched = fresh || self.since.is_before_change_of(&stat);
        for name in ["config", "config.worktree", "commondir", "hooks"] {
            touched |=
                place.stat(&path.join(name))?.is_some_and(|stat| self.since.is_before_change_of(&stat));
        }
        if !touched {
            // A hook can be rewritten without its directory noticing.
            let Some(stat) = place.stat(&hooks)? else { return Ok(()) };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                for (name, _) in place.list(&hooks, usize::MAX)?.0 {
                    let hook = place.stat(&hooks.join(name))?;
                    touched |= hook.is_some_and(|stat| self.since.is_before_change_of(&stat));
                }
            }
        }
        if !touched {
            return Ok(());
        }
        self.known.insert((stat.st_dev, stat.st_ino));
        self.configuration(place, &path.join("config"))?;
        self.configuration(place, &path.join("config.worktree"))?;
        self.hooks(place, &hooks)?;
        self.common(place, path)
    }

    /// Leaves an inert configuration, and only the inert part of any other.
    fn configuration(&mut self, place: &Place<'z>, path: &Path) -> Result<(), SurveyError> {
        let Some(stat) = place.stat(path)? else { return Ok(()) };
        let bytes = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => place.read(path, MOST_CONFIG)?,
            _ => None,
        };
        let (rest, why) = match bytes.as_deref().map(judge) {
            Some(Verdict::Inert) => return Ok(()),
            Some(Verdict::Active { rest, without }) => {
                (rest, format!("git configuration: {}", without.join(", ")))
            }
            None => (String::new(), "git configuration that is no ordinary file".to_owned()),
        };
        self.take(place, path, &why)?;
        let failed = |source| SurveyError::Quarantine { path: place.shown(path), source };
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let parent =
            place.open(above, rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY).map_err(failed)?;
        write_new(std::os::fd::AsFd::as_fd(&parent), name, rest.as_bytes(), Some(&stat)).map_err(failed)
    }

    /// Leaves samples, and what is no file: git runs files alone.
    fn hooks(&mut self, place: &Place<'z>, path: &Path) -> Result<(), SurveyError> {
        let Some(stat) = place.stat(path)? else { return Ok(()) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                for (name, kind) in place.list(path, usize::MAX)?.0 {
                    let sample = name.as_os_str().as_encoded_bytes().ends_with(b".sample");
                    if !sample && kind != FileType::Directory {
                        self.take(place, &path.join(name), "a git hook")?;
                    }
                }
                Ok(())
            }
            FileType::Symlink => self.take(place, path, "git hooks kept elsewhere"),
            _ => Ok(()),
        }
    }

    /// Leaves a `commondir` as linked work trees have it; any other takes the configuration from somewhere else.
    fn common(&mut self, place: &Place<'z>, path: &Path) -> Result<(), SurveyError> {
        let at = path.join("commondir");
        if place.stat(&at)?.is_none() {
            return Ok(());
        }
        let linked = path.parent().is_some_and(|up| up.ends_with("worktrees"));
        match common_dir(place, path)? {
            Some(common) if linked && common == Path::new("../..") => Ok(()),
            _ => self.take(place, &at, "takes git's configuration from another directory"),
        }
    }
}
