//! What deny globs match in the directories of the system, which are shown whole and are no zones: the survey does not
//! look there. Only root can put anything there, so names are looked up as the host finds them, before the clone.
//!
//! Absolute globs alone mean anything outside zones. One that names a path, all below a directory, or names in one
//! directory is applied. One that could only be applied by walking, such as `/usr/**/x`, is not: `/usr` holds hundreds of
//! thousands of files. The receipt says so.

use std::io;
use std::path::{Path, PathBuf};

use pinfold_core::glob::{Glob, GlobSet};

use super::{MountError, system};
use crate::survey::With;

/// More matches than this are refused: each is a mount.
const MOST: usize = 1_000;

/// The directory that `glob` denies everything below, when it says no more than that.
fn all_below(glob: &Glob) -> Option<PathBuf> {
    let directory = glob.as_str().strip_suffix("/**")?;
    Glob::parse(if directory.is_empty() { "/" } else { directory }).ok()?.literal()
}

/// Whether `glob` could match in the directories of the system and is not applied there.
pub(crate) fn is_left_out(glob: &Glob) -> bool {
    let prefix = glob.fixed_prefix();
    let names = prefix.strip_prefix("/").unwrap_or(&prefix);
    let reaches = names.as_os_str().is_empty() || system::is_roots(names);
    glob.is_absolute() && glob.needs_walk() && all_below(glob).is_none() && reaches
}

/// What is covered with what, for `globs` where the paths `shown` of the host are shown. Paths are relative to the root.
pub(super) fn covers(globs: &[Glob], shown: &[PathBuf]) -> Result<Vec<(PathBuf, With)>, MountError> {
    let mut covers = Vec::new();
    for glob in globs.iter().filter(|glob| glob.is_absolute()) {
        let failed = |path: &Path, source| MountError::Inspect { path: path.to_owned(), source };
        for path in matches(glob)? {
            let real = match std::fs::canonicalize(&path) {
                Ok(real) => real,
                Err(error) if is_absence(&error) => continue,
                Err(error) => return Err(failed(&path, error)),
            };
            let at = real.strip_prefix("/").unwrap_or(&real);
            let inside = shown.iter().any(|shown| at.starts_with(shown));
            let below = shown.iter().filter(|shown| shown.starts_with(at)).cloned();
            let hidden: Vec<PathBuf> = if inside { vec![at.to_owned()] } else { below.collect() };
            for at in hidden {
                let host = Path::new("/").join(&at);
                let directory = std::fs::metadata(&host).map_err(|error| failed(&host, error))?.is_dir();
                covers.push((at, if directory { With::EmptyDir } else { With::EmptyFile }));
            }
        }
    }
    // What contains comes first, and what it contains needs no cover and cannot have one.
    covers.sort();
    covers.dedup_by(|later, first| later.0.starts_with(&first.0));
    Ok(covers)
}

/// The paths that `glob` names, as far as that takes no walk.
fn matches(glob: &Glob) -> Result<Vec<PathBuf>, MountError> {
    if let Some(path) = glob.literal().or_else(|| all_below(glob)) {
        return Ok(vec![path]);
    }
    let directory = glob.fixed_prefix();
    let names = directory.strip_prefix("/").unwrap_or(&directory);
    if glob.needs_walk() || !system::is_roots(names) {
        return Ok(Vec::new());
    }
    let failed = |source| MountError::Inspect { path: directory.clone(), source };
    let set = GlobSet::new([glob]).map_err(|error| failed(io::Error::other(error)))?;
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if is_absence(&error) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if set.matches(&path).is_some() {
            found.push(path);
        }
    }
    if found.len() > MOST {
        return Err(MountError::DeniesTooMany { glob: glob.as_str().to_owned(), count: found.len() });
    }
    Ok(found)
}

/// What is not there, or cannot be reached by the caller, is not shown to anybody inside either.
fn is_absence(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_a_walk_is_left_out() {
        for (text, left_out) in [
            ("/etc/ssl/**", false),
            ("/etc/ssl/cert.pem", false),
            ("/usr/bin/x*", false),
            ("/**/id_rsa", true),
            ("/usr/**/secret", true),
            ("/etc/*/secret", true),
            ("/home/me/**/secret", false),
            ("**/secret", false),
            ("secret", false),
        ] {
            assert_eq!(is_left_out(&Glob::parse(text).unwrap()), left_out, "{text}");
        }
    }

    #[test]
    fn a_directory_hides_what_else_matches_in_it() {
        let globs: Vec<Glob> = ["/usr/**", "/usr/bin/env", "/nonexistent/x", "relative"]
            .iter()
            .map(|text| Glob::parse(text).unwrap())
            .collect();
        assert_eq!(covers(&globs, &["usr".into()]).unwrap(), [("usr".into(), With::EmptyDir)]);
        // What is above hides each that is shown.
        let shown = ["usr/bin".into(), "usr/lib".into()];
        let hidden = [("usr/bin".into(), With::EmptyDir), ("usr/lib".into(), With::EmptyDir)];
        assert_eq!(covers(&globs, &shown).unwrap(), hidden);
        assert_eq!(covers(&globs, &["etc/ssl".into()]).unwrap(), []);
    }
}
