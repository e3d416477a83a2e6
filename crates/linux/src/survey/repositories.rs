//! Finding what belongs to a repository: where its git directory is, and which further ones lie in it (submodules
//! and linked work trees). Reads git's own one-line files, with bounds, and git's configuration for where hooks are.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::SurveyError;
use super::gitconfig::{Points, points_to};
use super::links::{End, Trace, trace, trace_host};
use super::places::{PATH_MAX, Place};
use super::walk::{Bounds, Then, walk};

/// A configuration longer than this is not read.
const MOST_CONFIG: usize = 256 << 10;
/// Submodules are looked for this far.
const MODULES: Bounds = Bounds { entries: 50_000, directories: 5_000, depth: 64 };

/// A `.git` file longer than this is refused by git too (setup.c, read_gitfile_gently).
const MOST_GIT_FILE: usize = 1 << 20;

/// The path that a `.git` file names (gitrepository-layout(5)), as written; nothing when it is no such file.
pub(crate) fn git_file(place: &Place<'_>, path: &Path) -> Result<Option<PathBuf>, SurveyError> {
    let text = place.read(path, MOST_GIT_FILE)?;
    Ok(text.as_deref().and_then(|text| text.strip_prefix(b"gitdir: ")).and_then(one_line))
}

/// The path in a `commondir` file, as written; nothing when it is no such file.
pub(crate) fn common_dir(place: &Place<'_>, git_dir: &Path) -> Result<Option<PathBuf>, SurveyError> {
    Ok(place.read(&git_dir.join("commondir"), MOST_GIT_FILE)?.as_deref().and_then(one_line))
}

/// A path exactly as git reads it: line ends go from the end and nothing else does, not even a space; and a NUL ends
/// it. Nothing for one that the kernel would not take.
fn one_line(text: &[u8]) -> Option<PathBuf> {
    let last = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))?;
    let path = text[..=last].split(|byte| *byte == 0).next().unwrap_or_default();
    (!path.is_empty() && path.len() < PATH_MAX).then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// Where a path leads that stands in a file of the directory `base`.
pub(crate) fn follow(
    places: &[Place<'_>],
    place: &Place<'_>,
    base: &Path,
    written: &Path,
) -> Result<Trace, SurveyError> {
    if written.is_absolute() {
        trace_host(places, written)
    } else {
        trace(places, place, &base.join(written))
    }
}

/// The further git directories in one: those of submodules, at any depth, and of linked work trees.
pub(crate) fn within(place: &Place<'_>, git_dir: &Path) -> Result<Vec<PathBuf>, SurveyError> {
    let mut found = Vec::new();
    let modules = git_dir.join("modules");
    if is_directory(place, &modules)? {
        // A submodule's name may have slashes; what has a HEAD is its git directory, which may have modules again.
        let (heads, _) = walk(place.root, &modules, MODULES, |entry, heads| {
            if entry.name == b"HEAD"
                && let Some(parent) = entry.path.parent()
            {
                heads.push(parent.to_owned());
            }
            let store = matches!(entry.name, b"objects" | b"refs" | b"logs" | b"hooks" | b"info" | b"lfs");
            if store { Then::Skip } else { Then::Descend }
        });
        found.extend(heads);
    }
    let worktrees = git_dir.join("worktrees");
    if is_directory(place, &worktrees)? {
        let (entries, _) = place.list(&worktrees, 10_000)?;
        let directories = entries.into_iter().filter(|(_, kind)| *kind == FileType::Directory);
        found.extend(directories.map(|(name, _)| worktrees.join(name)));
    }
    Ok(found)
}

fn is_directory(place: &Place<'_>, path: &Path) -> Result<bool, SurveyError> {
    Ok(place.stat(path)?.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory))
}

/// The paths that the configuration of a git directory makes git run or read, each with the directory that a
/// relative one begins at. A path in a home directory is not in a zone's own terms, and is left out.
pub(crate) fn pointed_to(
    place: &Place<'_>,
    git_dir: &Path,
    work_tree: Option<&Path>,
) -> Result<Vec<(PathBuf, PathBuf)>, SurveyError> {
    let mut out = Vec::new();
    for name in ["config", "config.worktree"] {
        let Some(bytes) = place.read(&git_dir.join(name), MOST_CONFIG)? else { continue };
        for (points, path) in points_to(&bytes) {
            if path.as_os_str().is_empty() || path.starts_with("~") {
                continue;
            }
            let base = match points {
                Points::Hooks => work_tree.unwrap_or(git_dir),
                Points::Include => git_dir,
            };
            out.push((base.to_owned(), path));
        }
    }
    Ok(out)
}

/// The directory at the end of a way, when it is one in a zone.
pub(crate) fn directory_at(trace: &Trace) -> Option<(usize, &Path)> {
    match &trace.end {
        End::Inside { zone, path, kind: FileType::Directory } => Some((*zone, path)),
        _ => None,
    }
}
