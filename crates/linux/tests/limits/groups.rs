//! What the tests know of the host's groups.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use pinfold_linux::cgroup::{Controller, Places};

use crate::harness::{Caller, Place};

/// A place whose caller can make groups; nothing, with the reason noted, where the host has none for it.
pub(crate) fn place() -> Option<Place> {
    let places = Places::here();
    if places.has(Controller::Memory) && places.has(Controller::Pids) && places.has(Controller::Cpuacct) {
        return Some(Place::new(Caller::Me));
    }
    if let Ok(skips) = std::env::var("PINFOLD_TEST_SKIPS") {
        let mut file = fs::OpenOptions::new().append(true).open(skips).unwrap();
        writeln!(file, "limits: {}", places.why_not()).unwrap();
    }
    None
}

/// Every directory below `/sys/fs/cgroup` that is called `pinfold-*`.
pub(crate) fn groups() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    collect(Path::new("/sys/fs/cgroup"), &mut found);
    found
}

fn collect(directory: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name().as_encoded_bytes().starts_with(b"pinfold-") {
                found.insert(entry.path());
            }
            collect(&entry.path(), found);
        }
    }
}

/// The groups that process `pid` is in.
pub(crate) fn groups_of(pid: i32) -> BTreeSet<PathBuf> {
    let is_in = |group: &PathBuf| {
        let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        members.lines().any(|line| line == pid.to_string())
    };
    groups().into_iter().filter(is_in).collect()
}
