//! The list of covers as it grows: the strongest wins at one place, what lies below a mask needs nothing more,
//! and parents come first. What is covered, and why, is decided elsewhere; mounting is not done here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::links::Passed;
use super::places::Place;
use super::{Because, Cover, SurveyError, With};

/// Covers by zone and path, in the order they are mounted.
#[derive(Default)]
pub(crate) struct Covers(BTreeMap<(usize, PathBuf), (With, Because)>);

impl Covers {
    /// Covers `path` of `place`, unless a stronger cover is there already.
    pub(crate) fn add(&mut self, place: &Place<'_>, path: &Path, with: With, because: Because) {
        // What cannot be written needs no protection from writing.
        if !place.writable() && !with.hides() {
            return;
        }
        let entry = self.0.entry((place.index, path.to_owned())).or_insert((with, because));
        if with > entry.0 {
            *entry = (with, because);
        }
    }

    /// Pins every directory between the zone's root and `path`: a mount on `a/b` does not keep `a` from being
    /// renamed, after which another `a/b` could be made.
    pub(crate) fn pin_above(&mut self, place: &Place<'_>, path: &Path, because: Because) {
        for above in path.ancestors().skip(1) {
            if above.as_os_str().is_empty() {
                break;
            }
            self.add(place, above, With::Pinned, because);
        }
    }

    /// Keeps the way that was followed from being changed: links stay links, directories stay where they are.
    pub(crate) fn pin_way(&mut self, places: &[Place<'_>], passed: &[Passed], because: Because) {
        for step in passed {
            let with = if step.kind == FileType::Symlink { With::Itself } else { With::Pinned };
            self.add(&places[step.zone], &step.path, with, because);
            self.pin_above(&places[step.zone], &step.path, because);
        }
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
                    .0
                    .range((from.index, PathBuf::new())..(from.index + 1, PathBuf::new()))
                    .filter_map(|((_, path), (with, because))| {
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
        let mut out: Vec<Cover> = Vec::with_capacity(self.0.len());
        // The directories that are wholly covered and could hold the next path; the map's order is depth first.
        let mut above: Vec<(usize, PathBuf, With)> = Vec::new();
        for ((zone, path), (with, because)) in self.0 {
            while above.last().is_some_and(|(z, p, _)| *z != zone || !path.starts_with(p)) {
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
