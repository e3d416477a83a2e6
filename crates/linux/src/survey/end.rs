//! The look at the end: what became of the protected names, and which repositories there are now that were not
//! covered from the start (`judge` says what becomes of those).
//!
//! A name whose cover held to the end cannot have been changed from inside: if it did change, someone on the host
//! did it, and it is reported but left alone. A name whose cover was lost while something ran is distrusted.
//!
//! Nothing that is found stops the look: what fails is noted and the rest is looked at all the same, for the inside can
//! cause failures. A look that was not complete leaves its mark in the zone's record, and the next start looks again,
//! before it trusts anything, at what changed since.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::digest::{Kept, Moment};
use super::placeholders::Holder;
use super::places::Place;
use super::protected::Known;
use super::quarantine::Quarantine;
use super::reach::Opened;
use super::scan::{self, Seen};
use super::state::Mark;
use super::{StateDir, SurveyError, Walked, Zone};

/// What became of the protected names.
#[derive(Debug, Default)]
pub struct EndReport {
    /// Protected names that are not what they were.
    pub changed: Vec<Changed>,
    /// What the host would have executed, and where it is now.
    pub quarantined: Vec<Quarantined>,
    /// Names that were kept free, and are someone's files now.
    pub placeholders_kept: Vec<PathBuf>,
    /// What could not be looked at: its repositories, if any, were not judged.
    pub unchecked: Vec<PathBuf>,
    /// Directories of the caller's own that were closed to it during the run, and were opened again.
    pub opened: Vec<PathBuf>,
    /// What went wrong while looking and tidying; everything else was done.
    pub failures: Vec<SurveyError>,
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
        let opened = self.opened.iter().map(|path| format!("{} was closed to its owner", path.display()));
        let failures = self.failures.iter().map(|error| match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        });
        changed.chain(quarantined).chain(kept).chain(unchecked).chain(opened).chain(failures)
    }

    /// This report with what a later look found.
    pub(crate) fn and(mut self, later: Self) -> Self {
        self.changed.extend(later.changed);
        self.quarantined.extend(later.quarantined);
        self.placeholders_kept.extend(later.placeholders_kept);
        self.unchecked.extend(later.unchecked);
        self.opened.extend(later.opened);
        self.failures.extend(later.failures);
        self.walked = later.walked.or(self.walked);
        self
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

/// What the start leaves for the end.
#[derive(Debug)]
pub(crate) struct Pending {
    zones: Vec<Zone>,
    state: StateDir,
    since: Moment,
    kept: Vec<Kept>,
    known: HashSet<(u64, u64)>,
    roots: HashSet<(usize, PathBuf)>,
    names: Vec<String>,
    holders: Vec<Holder>,
    /// Covers that were lost, by zone and path.
    pub(crate) lost: HashSet<(usize, PathBuf)>,
}

impl Pending {
    pub(crate) fn new(
        zones: &[Zone],
        state: &StateDir,
        since: Moment,
        names: &[String],
        found: super::protected::Found,
    ) -> Result<Self, SurveyError> {
        let again = |zone: &Zone| {
            let root = rustix::io::fcntl_dupfd_cloexec(&zone.root, 3)
                .map_err(|source| SurveyError::Look { path: zone.host.as_path().to_owned(), source })?;
            Ok(Zone { root, host: zone.host.clone(), inside: zone.inside.clone(), access: zone.access })
        };
        // All of them, so that positions stay the same and links between zones can be followed.
        let zones = zones.iter().map(again).collect::<Result<_, SurveyError>>()?;
        let super::protected::Found { kept, known, roots, holders } = found;
        let known = known.into_iter().map(|Known { device, inode }| (device, inode)).collect();
        let (state, names, lost) = (state.again()?, names.to_vec(), HashSet::new());
        Ok(Self { zones, state, since, kept, known, roots, names, holders, lost })
    }
}

/// Does everything that is left to do.
pub(crate) fn finish(pending: Pending) -> Result<EndReport, SurveyError> {
    let Pending { zones, state, since, kept, known, roots, names, holders, lost } = pending;
    let places: Vec<Place<'_>> =
        zones.iter().enumerate().map(|(index, zone)| Place::new(index, zone)).collect::<Result<_, _>>()?;
    let mut end = End::new(&places, state, since, known, roots, names);
    end.lost = lost;
    // First of all, so that what was closed is open for everything else.
    let seen: Vec<Seen> = holders.iter().map(|holder| end.look(&places[holder.zone])).collect();
    for kept in &kept {
        let compared = end.compare(kept);
        end.note(&places[kept.zone], &kept.path, compared);
    }
    let found: Vec<_> =
        holders.iter().zip(&seen).map(|(held, seen)| end.judge(&places[held.zone], seen)).collect();
    let complete = end.report.failures.is_empty();
    for (holder, found) in holders.into_iter().zip(found) {
        let place = &places[holder.zone];
        let gone = holder.leave(Some(found), complete);
        end.keep_open(place, gone.opened);
        end.report.failures.extend(gone.failures);
        for path in gone.kept {
            let below = path.strip_prefix(place.host).unwrap_or(&path).to_owned();
            let taken = end.taken_name(place, path);
            end.note(place, &below, taken);
        }
    }
    Ok(end.close())
}

/// Looks at what runs left that did not come to their end, as `marks` tell. Returns the git directories found too, and
/// the report says whether that was complete.
pub(crate) fn recover(
    places: &[Place<'_>],
    place: &Place<'_>,
    state: &StateDir,
    marks: &[Mark],
    roots: HashSet<(usize, PathBuf)>,
    names: &[String],
) -> Result<(Vec<PathBuf>, EndReport), SurveyError> {
    let since = marks.iter().map(|mark| mark.since).min().unwrap_or_default();
    // What the first of them made may have been covered by the second.
    let mut known: HashSet<(u64, u64)> = marks.first().map(|mark| mark.known.clone()).unwrap_or_default();
    known.retain(|one| marks.iter().all(|mark| mark.known.contains(one)));
    let mut end = End::new(places, state.again()?, Moment::recalled(since), known, roots, names.to_vec());
    let place = &places[place.index];
    let seen = end.look(place);
    let found = end.judge(place, &seen);
    Ok((found, end.close()))
}

/// The state of a look.
pub(super) struct End<'a, 'z> {
    pub(super) places: &'a [Place<'z>],
    pub(super) since: Moment,
    /// True when file times say nothing about before and after.
    pub(super) timeless: bool,
    /// Git directories, and `.git` files and links, that were covered from the start.
    pub(super) known: HashSet<(u64, u64)>,
    /// Work trees whose names were covered from the start.
    pub(super) roots: HashSet<(usize, PathBuf)>,
    /// The names that are protected in work trees.
    pub(super) names: Vec<String>,
    /// Git directories that were judged already, and whether as fresh ones.
    pub(super) judged: HashSet<(u64, u64, bool)>,
    lost: HashSet<(usize, PathBuf)>,
    quarantine: Quarantine,
    opened: Vec<(usize, Opened)>,
    report: EndReport,
}

impl<'a, 'z> End<'a, 'z> {
    fn new(
        places: &'a [Place<'z>],
        state: StateDir,
        since: Moment,
        known: HashSet<(u64, u64)>,
        roots: HashSet<(usize, PathBuf)>,
        names: Vec<String>,
    ) -> Self {
        Self {
            places,
            since,
            timeless: !since.is_comparable(),
            known,
            roots,
            names,
            judged: HashSet::new(),
            lost: HashSet::new(),
            quarantine: Quarantine::new(state),
            opened: Vec::new(),
            report: EndReport::default(),
        }
    }

    /// Finds the repositories of a zone, opening what was closed on the way.
    fn look(&mut self, place: &Place<'z>) -> Seen {
        let (seen, opened) = scan::repositories(place);
        self.keep_open(place, opened);
        let sum = self.report.walked.get_or_insert(Walked { entries: 0, elapsed: std::time::Duration::ZERO });
        sum.entries += seen.tally.entries;
        sum.elapsed += seen.tally.elapsed;
        seen
    }

    /// Judges what was found, and takes what could not be looked into if it may have been made from inside.
    fn judge(&mut self, place: &Place<'z>, seen: &Seen) -> Vec<PathBuf> {
        let found = self.repositories(place, seen);
        let unread = seen.tally.unreadable.iter().map(|(path, _)| path).chain(&seen.tally.too_deep);
        for path in unread {
            match place.stat(path) {
                Ok(Some(stat)) if self.is_made_inside(&stat) && !path.as_os_str().is_empty() => {
                    let taken = self.take(place, path, "a directory that cannot be looked into");
                    self.note(place, path, taken);
                }
                Ok(None) => {}
                Ok(Some(_)) => self.report.unchecked.push(place.shown(path)),
                Err(error) => self.note(place, path, Err(error)),
            }
        }
        found
    }

    fn is_made_inside(&self, stat: &rustix::fs::Stat) -> bool {
        let mine = stat.st_uid == rustix::process::geteuid().as_raw();
        mine && (self.timeless || self.since.is_before_change_of(stat))
    }

    fn keep_open(&mut self, place: &Place<'z>, opened: Vec<Opened>) {
        self.opened.extend(opened.into_iter().map(|opened| (place.index, opened)));
    }

    /// Closes again what was closed before the run, tells of the rest, and ends.
    fn close(mut self) -> EndReport {
        // The innermost first: the way to it must be open.
        for (zone, opened) in std::mem::take(&mut self.opened).into_iter().rev() {
            let path = self.places[zone].shown(&opened.path);
            if self.timeless || self.since.is_before_change_of(&opened.before) {
                self.report.opened.push(path);
            } else if let Err(source) = opened.close() {
                self.report.failures.push(SurveyError::Look { path, source });
            }
        }
        self.report
    }

    /// Notes what failed, and goes on.
    pub(super) fn note(&mut self, place: &Place<'z>, path: &Path, done: Result<(), SurveyError>) {
        if let Err(error) = done {
            self.report.unchecked.push(place.shown(path));
            self.report.failures.push(error);
        }
    }

    /// Whether a cover on the way to `path`, at it or below it was lost.
    fn is_suspect(&self, zone: usize, path: &Path) -> bool {
        self.lost.iter().any(|(z, lost)| *z == zone && (path.starts_with(lost) || lost.starts_with(path)))
    }

    pub(super) fn take(&mut self, place: &Place<'z>, path: &Path, why: &str) -> Result<(), SurveyError> {
        let taken = self.quarantine.take(place, path);
        let opened = std::mem::take(&mut self.quarantine.opened);
        self.keep_open(place, opened);
        if let Some(to) = taken? {
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
}
