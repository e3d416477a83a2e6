//! The list of covers as it grows: the strongest wins at one place, what lies below a mask needs nothing more,
//! and parents come first. What is covered, and why, is decided elsewhere; mounting is not done here.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::links::Passed;
use super::places::Place;
use super::{Because, Cover, SurveyError, With};

/// How many levels below a zone's root directories are pinned for what is protected in them. Each is a mount, and a run
/// can leave a repository below as many directories as a path can name, for every start to pin. Real ones lie within a
/// dozen levels, those of nested package managers within twenty. Further down a repository's own names are covered all the
/// same; only a directory above it can be renamed, and what takes its place is judged at the end like any that is new.
pub(crate) const PINNED: usize = 32;

/// Covers by zone and path, in the order they are mounted.
#[derive(Default)]
pub(crate) struct Covers {
    all: BTreeMap<(usize, Below), (With, Because)>,
    /// Zones with directories too deep to be pinned.
    deep: BTreeSet<usize>,
}

/// A path below a zone's root, in the order of paths: what contains comes first, and all that is in it next. Compared by
/// its bytes, of which a slash is the least: the same for paths as they are made here, and far cheaper.
#[derive(PartialEq, Eq)]
struct Below(PathBuf);

impl Ord for Below {
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, two) = (self.0.as_os_str().as_bytes(), other.0.as_os_str().as_bytes());
        let order = |byte: u8| if byte == b'/' { 0 } else { byte };
        match one.iter().zip(two).find(|(one, two)| one != two) {
            Some((one, two)) => order(*one).cmp(&order(*two)),
            None => one.len().cmp(&two.len()),
        }
    }
}

impl PartialOrd for Below {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Whether `path` is `above` or lies in it.
fn is_in(path: &Path, above: &Path) -> bool {
    let (path, above) = (path.as_os_str().as_bytes(), above.as_os_str().as_bytes());
    path.strip_prefix(above).is_some_and(|rest| above.is_empty() || rest.is_empty() || rest[0] == b'/')
}

impl Covers {
    /// Covers `path` of `place`, unless a stronger cover is there already.
    pub(crate) fn add(&mut self, place: &Place<'_>, path: &Path, with: With, because: Because) {
        // What cannot be written needs no protection from writing.
        if !place.writable() && !with.hides() {
            return;
        }
        let entry = self.all.entry((place.index, Below(path.to_owned()))).or_insert((with, because));
        if with > entry.0 {
            *entry = (with, because);
        }
    }

    /// Pins every directory between the zone's root and `path`: a mount on `a/b` does not keep `a` from being
    /// renamed, after which another `a/b` could be made.
    pub(crate) fn pin_above(&mut self, place: &Place<'_>, path: &Path, because: Because) {
        let bytes = path.as_os_str().as_bytes();
        for (slash, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let above = Path::new(OsStr::from_bytes(&bytes[..slash]));
            if !self.pin(place, above, because) {
                break;
            }
        }
    }

    /// Pins one directory, unless it is too deep.
    fn pin(&mut self, place: &Place<'_>, path: &Path, because: Because) -> bool {
        let level = 1 + path.as_os_str().as_bytes().iter().filter(|byte| **byte == b'/').count();
        // What the policy denies is denied at any depth: only its own words lead there.
        let bounded = matches!(because, Because::Protected | Because::Placeholder);
        if bounded && level > PINNED {
            if place.writable() {
                self.deep.insert(place.index);
            }
            return false;
        }
        self.add(place, path, With::Pinned, because);
        true
    }

    /// Keeps the way that was followed from being changed: links stay links, directories stay where they are. Every
    /// directory above a step is a step itself.
    pub(crate) fn pin_way(&mut self, places: &[Place<'_>], passed: &[Passed], because: Because) {
        for step in passed {
            let place = &places[step.zone];
            if step.kind == FileType::Symlink {
                self.add(place, &step.path, With::Itself, because);
            } else {
                self.pin(place, &step.path, because);
            }
        }
    }

    /// The zones in which directories are too deep to be pinned.
    pub(crate) fn deep(&self) -> impl Iterator<Item = usize> {
        self.deep.iter().copied()
    }

    /// Repeats what lies in two zones at once: one host path can be seen through both, and is then covered in both.
    pub(crate) fn mirror(&mut self, places: &[Place<'_>]) -> Result<(), SurveyError> {
        if places.len() < 2 {
            return Ok(());
        }
        for from in places {
            for to in places.iter().filter(|to| to.index != from.index) {
                let (here, there) = (from.real()?, to.real()?);
                if !(here.starts_with(there) || there.starts_with(here)) {
                    continue;
                }
                let copies: Vec<(PathBuf, With, Because)> = self
                    .all
                    .range((from.index, Below(PathBuf::new()))..(from.index + 1, Below(PathBuf::new())))
                    .filter_map(|((_, Below(path)), (with, because))| {
                        let seen = here.join(path);
                        let below = seen.strip_prefix(there).ok()?;
                        // The root of a zone is a mount point already: it needs no pin.
                        let needed = !below.as_os_str().is_empty() || *with != With::Pinned;
                        needed.then(|| (below.to_owned(), *with, *because))
                    })
                    .collect();
                for (path, with, because) in copies {
                    self.add(to, &path, with, because);
                }
            }
        }
        Ok(())
    }

    /// The covers, parents first, without those that another one makes needless.
    pub(crate) fn finish(self) -> Vec<Cover> {
        let mut out: Vec<Cover> = Vec::with_capacity(self.all.len());
        // The directories that are wholly covered and could hold the next path; the map's order is depth first.
        let mut above: Vec<(usize, PathBuf, With)> = Vec::new();
        for ((zone, Below(path)), (with, because)) in self.all {
            while above.last().is_some_and(|(z, p, _)| *z != zone || !is_in(&path, p)) {
                above.pop();
            }
            let needless = above.iter().any(|(_, _, over)| match over {
                With::EmptyDir | With::EmptyFile | With::Absent => true,
                With::Itself => !with.hides(),
                With::Pinned => false,
            });
            if needless {
                continue;
            }
            if with != With::Pinned {
                above.push((zone, path.clone(), with));
            }
            out.push(Cover { zone, path, with, because });
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_paths() {
        let paths =
            ["", "a", "a/b", "a/b/c", "a b", "a.b", "a-b/c", "ab", "b/.git", "b/\u{1}", "\u{1}", "é/a", "z"];
        for one in paths {
            for two in paths {
                let (one, two) = (PathBuf::from(one), PathBuf::from(two));
                assert_eq!(is_in(&one, &two), one.starts_with(&two), "{one:?} in {two:?}");
                let components = one.cmp(&two);
                assert_eq!(Below(one).cmp(&Below(two)), components);
            }
        }
    }
}
