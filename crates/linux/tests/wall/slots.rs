//! The ids that root's sandboxes get: each its own, taken by nobody else, and free again however its
//! supervisor ended.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::harness::{Caller, Place, is_root};

/// A sandbox that waits, and the id that the host knows its command by.
fn waiting(place: &Place) -> (Child, u32) {
    let script = "grep ' /scratch ' /proc/mounts | tr , '\\n' | grep ^uid=; exec cat";
    let mut launch = place.launch(&[], &["sh", "-c", script]);
    let mut child = launch.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let id = line.trim().trim_start_matches("uid=").parse().unwrap();
    (child, id)
}

fn is_free(id: u32) -> bool {
    let lock = fs::File::open(format!("/run/pinfold/ids/{id}")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[test]
fn two_at_once_differ_and_a_killed_supervisor_frees_its_id() {
    if !is_root() {
        return;
    }
    let place = Place::new(Caller::Me);
    let (mut one, first) = waiting(&place);
    let (mut other, second) = waiting(&place);
    assert_ne!(first, second);
    assert!(!is_free(first) && !is_free(second));
    one.kill().unwrap();
    one.wait().unwrap();
    let since = Instant::now();
    while !is_free(first) {
        assert!(since.elapsed() < Duration::from_secs(5), "{first} is never free");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!is_free(second));
    drop(other.stdin.take());
    assert!(other.wait().unwrap().success());
    let locks = fs::metadata("/run/pinfold/ids").unwrap();
    assert_eq!((locks.uid(), locks.permissions().mode() & 0o777), (0, 0o700));
}

/// What any user of the host can do: take the names that ids were once reserved by.
#[test]
fn another_user_can_take_nothing_away() {
    if !is_root() {
        return;
    }
    let user = Place::new(Caller::User);
    let mut touch = std::process::Command::new("touch");
    user.as_caller(touch.arg("/run/pinfold/ids/x"));
    Place::new(Caller::Me).sh("true").ok();
    assert!(!touch.stderr(Stdio::null()).status().unwrap().success());
}

/// The id of a killed supervisor's sandbox is not given to another while anything may still run under it.
#[test]
fn the_guest_holds_the_id_too() {
    if !is_root() {
        return;
    }
    let place = Place::new(Caller::Me);
    let (mut supervisor, id) = waiting(&place);
    let pid = supervisor.id();
    let guest = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let lock = fs::canonicalize(format!("/run/pinfold/ids/{id}")).unwrap();
    let held = fs::read_dir(format!("/proc/{}/fd", guest.trim())).unwrap().flatten();
    let held: Vec<_> = held.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
    assert!(held.contains(&lock), "{held:?}");
    // And nothing that runs inside does.
    let command = fs::read_to_string(format!("/proc/{0}/task/{0}/children", guest.trim())).unwrap();
    let open = fs::read_dir(format!("/proc/{}/fd", command.trim())).unwrap().flatten();
    assert!(open.filter_map(|entry| fs::read_link(entry.path()).ok()).all(|path| path != lock));
    drop(supervisor.stdin.take());
    assert!(supervisor.wait().unwrap().success());
    assert!(is_free(id));
}
