//! Deny globs and Pinfold's own paths, turned into covers that hide.
//!
//! A pattern is relative to each zone's root, or an absolute host path. What it matches is hidden; where the match is
//! a link, or the way to it leads through one, the target is hidden too when it lies in a zone (anywhere else it is
//! not inside). In a writable zone the directories that a pattern names are pinned, and links kept: or one run could
//! rename `secrets`, and the next would find no match for `secrets/*.key`.
//!
//! Limits. A name that is not there is not covered (what the inside itself puts there is no secret), but for a
//! literal name in the workspace's root. A second name (hard link) of a denied file is covered only if it matches
//! too; a match that has others is reported. A pattern that names several directories after a wildcard is followed
//! through one link, not through a chain of linked directories.

use std::path::{Path, PathBuf};

use pinfold_core::glob::{Glob, GlobSet};
use pinfold_core::path::AbsPath;
use pinfold_core::plan::Files;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::covers::Covers;
use super::links::{End, Trace, trace, trace_host};
use super::placeholders::{Kind, Wanted};
use super::places::Place;
use super::scan::{Seen, refuse_unreadable};
use super::walk::{Bounds, Then, walk};
use super::{Because, Left, SurveyError, With};

/// Hides Pinfold's own state wherever a zone would show it, and keeps it from being made where a zone could be written to:
/// what the inside makes there, Pinfold would take for its own.
pub(crate) fn own(
    own: &[AbsPath],
    places: &[Place<'_>],
    covers: &mut Covers,
    wanted: &mut Vec<Wanted>,
) -> Result<(), SurveyError> {
    for path in own {
        let mut inside = false;
        for place in places {
            inside |= path.as_path().starts_with(place.host) || place.below(path.as_path())?.is_some();
            if place.host.starts_with(path.as_path()) || place.real()?.starts_with(path.as_path()) {
                let with = if place.is_dir() { With::EmptyDir } else { With::EmptyFile };
                covers.add(place, Path::new(""), with, Because::Own);
            }
        }
        if !inside && has_no_link(path.as_path()) {
            continue;
        }
        let way = trace_host(places, path.as_path())?;
        match &way.end {
            End::Absent { zone, path } => {
                covers.pin_way(places, &way.passed, Because::Own);
                // One directory can be seen through several zones; covers are repeated in all of them.
                let missing = places[*zone].real()?.join(path);
                for place in places.iter().filter(|place| place.writable() && place.is_dir()) {
                    if let Some(below) = place.below(&missing)? {
                        let path = below.to_owned();
                        wanted.push(Wanted { zone: place.index, path, kind: Kind::Socket });
                        break;
                    }
                }
            }
            End::Blocked { zone, path } => {
                covers.pin_way(places, &way.passed, Because::Own);
                covers.pin_above(&places[*zone], path, Because::Own);
                covers.add(&places[*zone], path, With::Itself, Because::Own);
            }
            End::Inside { .. } if inside => {
                hide_trace(places, way, Pin::Way, Because::Own, covers, &mut Vec::new())?;
            }
            End::Inside { .. } | End::Elsewhere => {}
        }
    }
    Ok(())
}

/// Whether a host path, as far as it exists, is reached through no link: then it is where its name says.
fn has_no_link(path: &Path) -> bool {
    let found = rustix::fs::openat2(
        rustix::fs::CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    );
    matches!(found, Ok(_) | Err(Errno::NOENT))
}

/// Whether a match depends on the names of the directories above it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pin {
    /// It does: they are pinned.
    Way,
    /// It does not: `**/name` matches wherever the directory goes.
    Nothing,
}

/// The deny globs of a plan.
pub(crate) struct Deny<'f> {
    globs: &'f [Glob],
    set: Option<GlobSet>,
    absolute: bool,
    links: bool,
}

impl<'f> Deny<'f> {
    /// Prepares the globs; building the matcher is left out when every one is a plain path.
    pub(crate) fn new(globs: &'f [Glob]) -> Result<Self, SurveyError> {
        let set =
            if globs.iter().all(|glob| glob.literal().is_some()) { None } else { Some(GlobSet::new(globs)?) };
        Ok(Self {
            globs,
            set,
            absolute: globs.iter().any(Glob::is_absolute),
            links: globs.iter().any(|glob| glob.needs_walk() && pin(glob) == Pin::Way),
        })
    }

    /// True when some glob can only be expanded in `place` by walking it.
    pub(crate) fn needs_walk(&self, place: &Place<'_>) -> bool {
        let concerns = |glob: &Glob| {
            let prefix = glob.fixed_prefix();
            !glob.is_absolute() || prefix.starts_with(place.host) || place.host.starts_with(&prefix)
        };
        self.globs.iter().any(|glob| glob.needs_walk() && concerns(glob))
    }

    /// True when links have to be looked through for matches below them.
    pub(crate) fn wants_links(&self) -> bool {
        self.links
    }

    /// The position of the glob that matches `path` of `place`.
    pub(crate) fn matches(&self, place: &Place<'_>, path: &Path) -> Option<usize> {
        let set = self.set.as_ref()?;
        set.matches(path).or_else(|| if self.absolute { set.matches(&place.host.join(path)) } else { None })
    }

    /// Covers everything that matches in any zone.
    pub(crate) fn apply(
        &self,
        places: &[Place<'_>],
        near: &[Seen],
        files: &Files,
        covers: &mut Covers,
        wanted: &mut Vec<Wanted>,
        left: &mut Vec<Left>,
    ) -> Result<(), SurveyError> {
        if self.globs.is_empty() {
            return Ok(());
        }
        let whole = GlobSet::new(self.globs)?;
        for (place, seen) in places.iter().zip(near) {
            if whole.matches_or_parent(place.host).is_some() {
                let with = if place.is_dir() { With::EmptyDir } else { With::EmptyFile };
                covers.add(place, Path::new(""), with, Because::Deny);
            }
            for (path, kind, glob) in &seen.denied {
                hide(places, place, path, *kind, pin(&self.globs[*glob]), Because::Deny, covers, left)?;
            }
            for link in &seen.links {
                self.look_through(places, place, link, covers, left)?;
            }
        }
        for glob in self.globs.iter().filter(|glob| !glob.needs_walk()) {
            if glob.is_absolute() {
                self.expand(places, None, glob, covers, left)?;
                continue;
            }
            for place in places.iter().filter(|place| place.is_dir()) {
                let absent = self.expand(places, Some(place), glob, covers, left)?;
                // A literal name in the workspace's root is kept free even while it is absent.
                let workspace = |zone: &pinfold_core::plan::Zone| {
                    zone.name == "workspace"
                        && zone.host().is_some_and(|(host, _)| host.as_path() == place.host)
                };
                if let Some(path) = absent
                    && path.components().count() == 1
                    && place.writable()
                    && files.zones.iter().any(workspace)
                {
                    wanted.push(Wanted { zone: place.index, path, kind: Kind::Socket });
                }
            }
        }
        Ok(())
    }

    /// Expands a glob that takes no walk, from a zone's root or from `/`. Says which path of the zone is missing
    /// when a literal one is.
    fn expand(
        &self,
        places: &[Place<'_>],
        place: Option<&Place<'_>>,
        glob: &Glob,
        covers: &mut Covers,
        left: &mut Vec<Left>,
    ) -> Result<Option<PathBuf>, SurveyError> {
        let follow = |path: &Path| match place {
            Some(place) => trace(places, place, path),
            None => trace_host(places, path),
        };
        if let Some(path) = glob.literal() {
            let trace = follow(&path)?;
            if let (End::Absent { zone, path: missing }, Some(place)) = (&trace.end, place)
                && *zone == place.index
            {
                return Ok(Some(missing.clone()));
            }
            hide_trace(places, trace, Pin::Way, Because::Deny, covers, left)?;
            return Ok(None);
        }
        let prefix = glob.fixed_prefix();
        let Trace { passed, end } = follow(&prefix)?;
        let End::Inside { zone, path: base, kind: FileType::Directory } = end else { return Ok(None) };
        let set = GlobSet::new([glob])?;
        // Without a `**` the slashes bound how deep a match can lie; braces may hold some of them.
        let depth = glob.as_str().matches('/').count().saturating_sub(prefix.components().count());
        let found = below(&places[zone], &base, &prefix, depth, &set)?;
        if !found.is_empty() {
            covers.pin_way(places, &passed, Because::Deny);
        }
        for (path, kind) in found {
            hide(places, &places[zone], &path, kind, Pin::Way, Because::Deny, covers, left)?;
        }
        Ok(None)
    }

    /// Matches what lies below a linked directory under the names that the link gives it.
    fn look_through(
        &self,
        places: &[Place<'_>],
        place: &Place<'_>,
        link: &Path,
        covers: &mut Covers,
        left: &mut Vec<Left>,
    ) -> Result<(), SurveyError> {
        let Some(set) = &self.set else { return Ok(()) };
        let Trace { passed, end } = trace(places, place, link)?;
        let End::Inside { zone, path: base, kind: FileType::Directory } = end else { return Ok(()) };
        let depth = self.globs.iter().map(|glob| glob.as_str().matches('/').count()).max().unwrap_or(0);
        let found = below(&places[zone], &base, link, depth, set)?;
        if !found.is_empty() {
            covers.pin_way(places, &passed, Because::Deny);
        }
        for (path, kind) in found {
            hide(places, &places[zone], &path, kind, Pin::Way, Because::Deny, covers, left)?;
        }
        Ok(())
    }
}

/// What `set` matches among the things at most `depth` levels below `base`, when `base` is called `called`.
fn below(
    place: &Place<'_>,
    base: &Path,
    called: &Path,
    depth: usize,
    set: &GlobSet,
) -> Result<Vec<(PathBuf, FileType)>, SurveyError> {
    let bounds = Bounds { entries: u64::MAX, directories: u64::MAX, depth };
    let (found, tally) = walk(place.root, base, bounds, |entry, found| {
        let rest = entry.path.strip_prefix(base).unwrap_or(entry.path);
        if set.matches(&called.join(rest)).is_some() {
            found.push((entry.path.to_owned(), entry.kind));
            return Then::Skip;
        }
        Then::Descend
    });
    refuse_unreadable(place, &tally)?;
    Ok(found)
}

/// Whether a match of `glob` depends on the directories above it.
fn pin(glob: &Glob) -> Pin {
    match glob.as_str().strip_prefix("**/") {
        Some(name) if !name.contains('/') => Pin::Nothing,
        _ => Pin::Way,
    }
}

/// Hides what lies at `path`, and where it points.
#[allow(clippy::too_many_arguments)] // the three lists are what every step adds to
fn hide(
    places: &[Place<'_>],
    place: &Place<'_>,
    path: &Path,
    kind: FileType,
    pin: Pin,
    because: Because,
    covers: &mut Covers,
    left: &mut Vec<Left>,
) -> Result<(), SurveyError> {
    if pin == Pin::Way {
        covers.pin_above(place, path, because);
    }
    match kind {
        FileType::Directory => covers.add(place, path, With::EmptyDir, because),
        FileType::Symlink => {
            // The link stays what it is: without it, the next run would not know the target for a match.
            covers.add(place, path, With::Itself, because);
            hide_trace(places, trace(places, place, path)?, Pin::Way, because, covers, left)?;
        }
        _ => {
            covers.add(place, path, With::EmptyFile, because);
            if kind == FileType::RegularFile && place.stat(path)?.is_some_and(|stat| stat.st_nlink > 1) {
                left.push(Left::HardLinks(place.shown(path)));
            }
        }
    }
    Ok(())
}

/// Hides what a path led to.
fn hide_trace(
    places: &[Place<'_>],
    trace: Trace,
    pin: Pin,
    because: Because,
    covers: &mut Covers,
    left: &mut Vec<Left>,
) -> Result<(), SurveyError> {
    let End::Inside { zone, path, kind } = trace.end else { return Ok(()) };
    covers.pin_way(places, &trace.passed, because);
    hide(places, &places[zone], &path, kind, pin, because, covers, left)
}
