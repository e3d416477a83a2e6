//! One look at a zone's tree, near its root or whole, that collects everything anybody wants to know of it: what
//! deny globs match, sockets and FIFOs, links, and directories that git would take for a repository.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;

use super::SurveyError;
use super::deny::Deny;
use super::places::Place;
use super::reach::{Opened, open_up};
use super::walk::{Bounds, Entry, Tally, Then, walk};

/// What was seen of one zone.
#[derive(Default)]
pub(crate) struct Seen {
    /// The cost.
    pub(crate) tally: Tally,
    /// True when nothing in the zone was left out.
    pub(crate) whole: bool,
    /// What a deny glob matches, with the glob's position; only after a whole walk.
    pub(crate) denied: Vec<(PathBuf, FileType, usize)>,
    /// Links; only when deny globs ask for them.
    pub(crate) links: Vec<PathBuf>,
    /// Sockets and FIFOs.
    pub(crate) special: Vec<PathBuf>,
    /// Everything named `.git`.
    pub(crate) git: Vec<(PathBuf, FileType)>,
    /// Which of the names asked for, by their first components, are in the zone's root; nothing when it was not read
    /// wholly.
    pub(crate) top: Option<Vec<PathBuf>>,
    /// Other directories that have what git looks for in a git directory.
    pub(crate) bare: Vec<PathBuf>,
}

/// One thing found, as the threads of a walk hand it over.
enum Found {
    Denied(PathBuf, FileType, usize),
    Link(PathBuf),
    Special(PathBuf),
    Git(PathBuf, FileType),
    Top(PathBuf),
    /// A directory that holds a name which git directories hold: HEAD is the first bit, what must stand beside it
    /// the second (gitrepository-layout(5)).
    Part(PathBuf, u8),
}

/// What `name` says about the directory it lies in.
fn part_of_git(name: &[u8]) -> u8 {
    match name {
        b"HEAD" => 1,
        b"objects" | b"refs" | b"commondir" => 2,
        _ => 0,
    }
}

/// Looks at `place` as far as `bounds` say, and for `names` in its root. A whole look must succeed wholly.
pub(crate) fn scan(
    place: &Place<'_>,
    bounds: Bounds,
    deny: &Deny<'_>,
    names: &[String],
) -> Result<Seen, SurveyError> {
    if !place.is_dir() {
        return Ok(Seen { whole: true, ..Seen::default() });
    }
    let whole = bounds.depth == usize::MAX;
    let first = |name: &'_ String| name.split('/').next().unwrap_or_default().as_bytes().to_vec();
    let mut firsts: Vec<Vec<u8>> = names.iter().map(first).collect();
    firsts.sort_unstable();
    let mut seen = look(place, Path::new(""), bounds, |entry, found| {
        let in_root = entry.path.as_os_str().len() == entry.name.len();
        if in_root && firsts.binary_search_by(|name| name.as_slice().cmp(entry.name)).is_ok() {
            found.push(Found::Top(entry.path.to_owned()));
        }
        if !whole {
            return Then::Descend;
        }
        if let Some(glob) = deny.matches(place, entry.path) {
            found.push(Found::Denied(entry.path.to_owned(), entry.kind, glob));
            return Then::Skip;
        }
        if entry.kind == FileType::Symlink && deny.wants_links() {
            found.push(Found::Link(entry.path.to_owned()));
        }
        Then::Descend
    });
    if !seen.tally.start_read {
        seen.top = None;
    }
    if whole {
        if !seen.tally.too_deep.is_empty() {
            return Err(SurveyError::TooDeep { zone: place.host.to_owned() });
        }
        refuse_unreadable(place, &seen.tally)?;
    }
    Ok(seen)
}

/// Looks at all directories of `place` for repositories, in git's own stores too: whoever knows that they are left out
/// hides one there. Directories that the inside closed are opened; those are returned too.
pub(crate) fn repositories(place: &Place<'_>) -> (Seen, Vec<Opened>) {
    let mut seen = look(place, Path::new(""), Bounds::NONE, |_, _| Then::Descend);
    let (mut opened, mut tried) = (Vec::new(), HashSet::new());
    let mut closed = std::mem::take(&mut seen.tally.unreadable);
    while let Some((path, source)) = closed.pop() {
        let more = if source == Errno::ACCESS { open_up(place.root, &path).0 } else { Vec::new() };
        let ready = !more.is_empty() || opened.iter().any(|open: &Opened| path.starts_with(&open.path));
        opened.extend(more);
        if !ready || !tried.insert(path.clone()) {
            // Not the caller's own, or not closed but broken: whoever asked says so.
            seen.tally.unreadable.push((path, source));
            continue;
        }
        let mut below = look(place, &path, Bounds::NONE, |_, _| Then::Descend);
        closed.append(&mut below.tally.unreadable);
        seen.git.append(&mut below.git);
        seen.bare.append(&mut below.bare);
        seen.tally.too_deep.append(&mut below.tally.too_deep);
        seen.tally.entries += below.tally.entries;
        seen.tally.elapsed += below.tally.elapsed;
    }
    (seen, opened)
}

fn look(
    place: &Place<'_>,
    start: &Path,
    bounds: Bounds,
    judge: impl Fn(&Entry<'_>, &mut Vec<Found>) -> Then + Sync,
) -> Seen {
    let near = bounds.depth != usize::MAX;
    let (all, tally) = walk(place.root, start, bounds, |entry, found| {
        if judge(entry, found) == Then::Skip {
            return Then::Skip;
        }
        if matches!(entry.kind, FileType::Socket | FileType::Fifo) {
            found.push(Found::Special(entry.path.to_owned()));
        }
        if entry.name == b".git" {
            found.push(Found::Git(entry.path.to_owned(), entry.kind));
            // Near the root, what a git directory holds is looked at by name, not by walking it.
            return if near { Then::Skip } else { Then::Descend };
        }
        let part = part_of_git(entry.name);
        if part != 0
            && let Some(parent) = entry.path.parent()
        {
            found.push(Found::Part(parent.to_owned(), part));
        }
        Then::Descend
    });
    let mut seen = Seen { tally, ..Seen::default() };
    let mut parts: BTreeMap<PathBuf, u8> = BTreeMap::new();
    let mut top = Vec::new();
    for found in all {
        match found {
            Found::Denied(path, kind, glob) => seen.denied.push((path, kind, glob)),
            Found::Link(path) => seen.links.push(path),
            Found::Special(path) => seen.special.push(path),
            Found::Git(path, kind) => seen.git.push((path, kind)),
            Found::Top(path) => top.push(path),
            Found::Part(path, part) => *parts.entry(path).or_default() |= part,
        }
    }
    seen.top = Some(top);
    let is_bare = |path: &PathBuf, bits: u8| bits == 3 && path.file_name() != Some(OsStr::new(".git"));
    let all_read = !seen.tally.bounded && seen.tally.too_deep.is_empty() && seen.tally.unreadable.is_empty();
    seen.whole = all_read && !(near && seen.git.iter().any(|(_, kind)| *kind == FileType::Directory));
    seen.bare = parts.into_iter().filter(|(path, bits)| is_bare(path, *bits)).map(|(path, _)| path).collect();
    seen
}

/// Fails when a directory could not be read that the inside could make readable: its owner is the caller.
pub(crate) fn refuse_unreadable(place: &Place<'_>, tally: &Tally) -> Result<(), SurveyError> {
    for (path, source) in &tally.unreadable {
        let mine = place.stat(path)?.is_some_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw());
        if *source != Errno::ACCESS || mine {
            return Err(SurveyError::Unreadable { path: place.shown(path), source: *source });
        }
    }
    Ok(())
}
