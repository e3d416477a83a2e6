//! For a plan that reads as little as possible: which files the program asked for consists of. Links on the
//! way to it and the interpreter its first line names; its libraries are shown anyway.
//!
//! What lies in a path that the plan shows is not among them: it is there already, at the place that the plan
//! gives it, and where a sandbox can write, a link or a first line may be an earlier run's, to be shown what
//! it names.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::MountError;
use super::source::Source;
use crate::probe::without;

/// One path that has to exist inside for the program to start.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A link and where it leads.
    Link(PathBuf, PathBuf),
    /// A file, shown read-only.
    File(PathBuf),
}

/// Links and interpreters are followed this often; the kernel itself stops at 40 and 5.
const STEPS: usize = 40;

/// The parts of `program` as it would be found along `path`. Empty when there is no such program: exec then
/// says so, as it does everywhere.
pub(super) fn parts(program: &OsStr, path: &OsStr, shown: &[Source]) -> Result<Vec<Part>, MountError> {
    let mut parts = Vec::new();
    let mut wanted: Vec<PathBuf> = find(program, path).into_iter().collect();
    for _ in 0..STEPS {
        let Some(next) = wanted.pop() else { break };
        if lies_in(&next, shown)? {
            continue;
        }
        if let Ok(target) = fs::read_link(&next) {
            let full = next.parent().unwrap_or(Path::new("/")).join(&target);
            parts.push(Part::Link(next, target));
            wanted.push(lexical(&full));
        } else {
            wanted.extend(interpreters(&next, path));
            parts.push(Part::File(next));
        }
    }
    Ok(parts)
}

/// Whether `file` lies in one of `shown`, by whatever links its directory is reached.
fn lies_in(file: &Path, shown: &[Source]) -> Result<bool, MountError> {
    if shown.is_empty() || without("links") {
        return Ok(false);
    }
    let directory = file.parent().unwrap_or(Path::new("/"));
    let real = match fs::canonicalize(directory) {
        Ok(real) => real,
        // What is not there is shown as nothing, and exec says so.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(MountError::Inspect { path: directory.to_owned(), source }),
    };
    let real = real.join(file.file_name().unwrap_or_default());
    Ok(shown.iter().any(|source| real.starts_with(&source.real)))
}

/// Where a shell would find `program`.
fn find(program: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Path::new(program).is_absolute().then(|| PathBuf::from(program));
    }
    let runs = |file: &PathBuf| {
        fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path).map(|directory| directory.join(program)).find(runs)
}

/// The programs that the first line of a script names: its interpreter, and what `env` is to find.
fn interpreters(file: &Path, path: &OsStr) -> Vec<PathBuf> {
    let mut start = Vec::new();
    // An unreadable program is no script to us; exec will say what is wrong with it.
    let read = File::open(file).and_then(|file| file.take(256).read_to_end(&mut start));
    let Some(line) = read.ok().and_then(|_| start.strip_prefix(b"#!")) else { return Vec::new() };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return Vec::new() };
    let mut found = vec![PathBuf::from(OsStr::from_bytes(first))];
    if first.ends_with(b"/env") {
        found.extend(
            words.find(|word| !word.starts_with(b"-")).and_then(|word| find(OsStr::from_bytes(word), path)),
        );
    }
    found
}

/// `path` without `.` and `..`.
fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in path.components() {
        match component {
            std::path::Component::Normal(name) => out.push(name),
            std::path::Component::ParentDir => {
                out.pop();
            }
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_needs_its_interpreter_and_what_env_finds() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("tool");
        fs::write(&script, "#!/usr/bin/env sh\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin", directory.path().display());
        let parts = parts(OsStr::new("tool"), OsStr::new(&path), &[]).unwrap();
        assert!(parts.contains(&Part::File(script)));
        assert!(parts.contains(&Part::File("/usr/bin/env".into())));
        assert!(parts.iter().any(|part| matches!(part,
            Part::Link(at, _) | Part::File(at) if at == Path::new("/usr/bin/sh"))));
    }

    #[test]
    fn what_is_not_there_has_no_parts() {
        assert_eq!(parts(OsStr::new("no-such-program"), OsStr::new("/usr/bin"), &[]).unwrap(), Vec::new());
        assert_eq!(parts(OsStr::new("relative/program"), OsStr::new("/usr/bin"), &[]).unwrap(), Vec::new());
    }
}
