//! Following links as the host would, one component at a time, and saying what was passed on the way.
//!
//! The host's kernel follows a link from `/`, in the host's tree; the inside sees the zones elsewhere and can still
//! write to every part of the way that lies in one. So each link and directory passed within a zone is reported, for
//! the caller to pin. Decides nothing itself.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;

use super::SurveyError;
use super::places::Place;

/// Links followed before giving up, as the kernel does (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// A place passed on the way, in a zone.
pub(crate) struct Passed {
    /// Which zone.
    pub(crate) zone: usize,
    /// Where in it.
    pub(crate) path: PathBuf,
    /// A directory or a link.
    pub(crate) kind: FileType,
}

/// Where a path led.
pub(crate) struct Trace {
    /// Directories and links passed within zones, in order.
    pub(crate) passed: Vec<Passed>,
    /// What was there.
    pub(crate) end: End,
}

/// What lies at the end.
pub(crate) enum End {
    /// Something in a zone that is no link.
    Inside {
        /// Which zone.
        zone: usize,
        /// Where in it.
        path: PathBuf,
        /// What it is.
        kind: FileType,
    },
    /// A name in a zone that is not there; what was meant may lie further down.
    Absent {
        /// Which zone.
        zone: usize,
        /// The first name that is missing.
        path: PathBuf,
    },
    /// Something in a zone that is no directory although the way goes on: whoever removes it can make one.
    Blocked {
        /// Which zone.
        zone: usize,
        /// Where in it.
        path: PathBuf,
    },
    /// Somewhere the inside cannot change, or nowhere: outside every zone, or in a circle.
    Elsewhere,
}

/// Follows `path` in `places[zone]`.
pub(crate) fn trace(places: &[Place<'_>], zone: &Place<'_>, path: &Path) -> Result<Trace, SurveyError> {
    follow(places, zone.real()?.to_owned(), path)
}

/// Follows an absolute path of the host.
pub(crate) fn trace_host(places: &[Place<'_>], path: &Path) -> Result<Trace, SurveyError> {
    follow(places, PathBuf::from("/"), path)
}

/// The zone that a real host path lies in: the innermost.
fn zone_of<'p, 'z>(
    places: &'p [Place<'z>],
    real: &Path,
) -> Result<Option<(&'p Place<'z>, PathBuf)>, SurveyError> {
    let mut best: Option<(&Place<'z>, PathBuf)> = None;
    for place in places.iter().filter(|place| place.is_dir()) {
        if let Some(below) = place.below(real)?
            && best.as_ref().is_none_or(|(_, other)| below.as_os_str().len() < other.as_os_str().len())
        {
            best = Some((place, below.to_owned()));
        }
    }
    Ok(best)
}

fn follow(places: &[Place<'_>], mut at: PathBuf, path: &Path) -> Result<Trace, SurveyError> {
    let mut todo: VecDeque<OsString> = VecDeque::new();
    queue(&mut todo, &mut at, path);
    let mut passed = Vec::new();
    let mut links = 0;
    let elsewhere = |passed| Ok(Trace { passed, end: End::Elsewhere });
    loop {
        let Some(name) = todo.pop_front() else {
            // Only an empty path, or one that ends in `..`, comes here: it names a directory passed before.
            return Ok(match zone_of(places, &at)? {
                Some((place, path)) => {
                    Trace { passed, end: End::Inside { zone: place.index, path, kind: FileType::Directory } }
                }
                None => Trace { passed, end: End::Elsewhere },
            });
        };
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let inside = zone_of(places, &next)?;
        let (kind, target) = match &inside {
            Some((place, below)) => match place.stat(below)? {
                None => {
                    return Ok(Trace { passed, end: End::Absent { zone: place.index, path: below.clone() } });
                }
                Some(stat) => match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Symlink => (FileType::Symlink, Some(place.read_link(below)?)),
                    other => (other, None),
                },
            },
            None => match outside(&next)? {
                Some(found) => found,
                None => return elsewhere(passed),
            },
        };
        if let Some((place, below)) = &inside
            && (kind == FileType::Symlink || kind == FileType::Directory && !todo.is_empty())
            && !below.as_os_str().is_empty()
        {
            passed.push(Passed { zone: place.index, path: below.clone(), kind });
        }
        match (kind, target) {
            (FileType::Symlink, Some(target)) => {
                links += 1;
                if links > MOST_LINKS {
                    return elsewhere(passed);
                }
                let rest = std::mem::take(&mut todo);
                queue(&mut todo, &mut at, &target);
                todo.extend(rest);
            }
            (FileType::Directory, _) if !todo.is_empty() => at = next,
            (kind, _) if todo.is_empty() => {
                return Ok(match inside {
                    Some((place, path)) => {
                        Trace { passed, end: End::Inside { zone: place.index, path, kind } }
                    }
                    None => Trace { passed, end: End::Elsewhere },
                });
            }
            _ => {
                return Ok(match inside {
                    Some((place, path)) => Trace { passed, end: End::Blocked { zone: place.index, path } },
                    None => Trace { passed, end: End::Elsewhere },
                });
            }
        }
    }
}

/// Puts the components of `path` into the queue; an absolute one starts again at `/`.
fn queue(todo: &mut VecDeque<OsString>, at: &mut PathBuf, path: &Path) {
    for component in path.components() {
        match component {
            Component::RootDir => *at = PathBuf::from("/"),
            Component::ParentDir => todo.push_back("..".into()),
            Component::Normal(name) => todo.push_back(name.to_owned()),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

/// What lies at a host path outside every zone. What the caller may not see, nobody inside can change either.
fn outside(path: &Path) -> Result<Option<(FileType, Option<PathBuf>)>, SurveyError> {
    let failed = |source| SurveyError::Look { path: path.to_owned(), source };
    match rustix::fs::lstat(path) {
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                let target = std::fs::read_link(path)
                    .map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
                Ok(Some((FileType::Symlink, Some(target))))
            }
            kind => Ok(Some((kind, None))),
        },
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP | Errno::NAMETOOLONG) => Ok(None),
        Err(source) => Err(failed(source)),
    }
}
