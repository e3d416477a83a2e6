//! For a plan that reads as little as possible: which files the program asked for consists of. Links on the
//! way to it and the interpreter its first line names; its libraries are shown anyway.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

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
pub(super) fn parts(program: &OsStr, path: &OsStr) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut wanted: Vec<PathBuf> = find(program, path).into_iter().collect();
    for _ in 0..STEPS {
        let Some(next) = wanted.pop() else { break };
        if let Ok(target) = fs::read_link(&next) {
            let full = next.parent().unwrap_or(Path::new("/")).join(&target);
            parts.push(Part::Link(next, target));
            wanted.push(lexical(&full));
        } else {
            wanted.extend(interpreters(&next, path));
            parts.push(Part::File(next));
        }
    }
    parts
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
        let parts = parts(OsStr::new("tool"), OsStr::new(&path));
        assert!(parts.contains(&Part::File(script)));
        assert!(parts.contains(&Part::File("/usr/bin/env".into())));
        assert!(parts.iter().any(|part| matches!(part,
            Part::Link(at, _) | Part::File(at) if at == Path::new("/usr/bin/sh"))));
    }

    #[test]
    fn what_is_not_there_has_no_parts() {
        assert_eq!(parts(OsStr::new("no-such-program"), OsStr::new("/usr/bin")), Vec::new());
        assert_eq!(parts(OsStr::new("relative/program"), OsStr::new("/usr/bin")), Vec::new());
    }
}
