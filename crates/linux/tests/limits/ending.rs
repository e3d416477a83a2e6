//! Groups end with their sandbox, however that ends.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::groups::{groups, groups_of, place};
use crate::harness::{Caller, Place, is_root};

/// Starts a script that says when it is ready.
fn ready(place: &Place, script: &str) -> Child {
    let mut launch = place.launch(&[], &["sh", "-c", script]);
    let mut child = launch.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut word = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
    assert_eq!(&word, b"ready\n");
    child
}

/// The guest of the supervisor `pid`: its first child. Another may be waiting to be reaped.
fn guest(pid: u32) -> i32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}

/// Kills a supervisor and waits until its guest, and with it everything inside, is gone.
fn kill_and_wait(supervisor: &mut Child) {
    let guest = Pid::from_raw(guest(supervisor.id())).unwrap();
    let guest = pidfd_open(guest, PidfdFlags::empty()).unwrap();
    supervisor.kill().unwrap();
    assert_eq!(supervisor.wait().unwrap().signal(), Some(9));
    poll(&mut [PollFd::new(&guest, PollFlags::IN)], None).unwrap();
}

#[test]
fn a_sandbox_has_a_group_in_each_hierarchy_and_leaves_none() {
    let Some(place) = place() else { return };
    let mut child = ready(&place, "echo ready; read line; exit 7");
    let own = groups_of(guest(child.id()));
    assert!(!own.is_empty());
    assert!(
        own.iter()
            .any(|group| group.join("memory.limit_in_bytes").exists() || group.join("memory.max").exists())
    );
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert!(groups().is_disjoint(&own), "{own:?}");
}

#[test]
fn a_killed_supervisor_leaves_groups_to_the_next_start() {
    let Some(place) = place() else { return };
    let mut child = ready(&place, "echo ready; sleep 1000");
    let own = groups_of(guest(child.id()));
    assert!(!own.is_empty());
    // One that lives is not touched, be it as it may that others start.
    let mut other = ready(&place, "echo ready; sleep 1000");
    let others = groups_of(guest(other.id()));
    kill_and_wait(&mut child);
    place.sh("true").ok();
    assert!(groups().is_disjoint(&own), "{own:?}");
    assert!(groups().is_superset(&others));
    kill_and_wait(&mut other);
    place.sh("true").ok();
    assert!(groups().is_disjoint(&others), "{others:?}");
}

#[test]
fn a_start_in_progress_is_never_swept() {
    let Some(place) = place() else { return };
    let starts: Vec<_> = (0..4)
        .map(|_| {
            let mut shell = std::process::Command::new("sh");
            shell
                .args(["-c", "for i in 1 2 3 4 5 6 7 8 9 10; do \"$@\" || exit 1; done", "sh"])
                .arg(place.program());
            shell.arg("--state").arg(place.path("state")).args(["--", "true"]);
            place.as_caller(&mut shell);
            shell.spawn().unwrap()
        })
        .collect();
    for mut start in starts {
        assert!(start.wait().unwrap().success());
    }
}

#[test]
fn a_step_that_fails_leaves_no_group() {
    let Some(place) = place() else { return };
    for (number, step) in
        ["groups", "survey", "hand-over", "enter-groups", "seal", "seccomp"].iter().enumerate()
    {
        // Other tests make groups at the same time, so this one knows its own by name.
        let id = format!("{:08x}{number:08x}", std::process::id());
        let ran = place.run(&["--id", &id], "true", &[("PINFOLD_FAIL_AT", step)]);
        assert_eq!(ran.code, 125, "{ran:?}");
        let left: Vec<_> =
            groups().into_iter().filter(|group| group.to_string_lossy().contains(&id)).collect();
        assert!(left.is_empty(), "{step}: {left:?}");
    }
}

#[test]
fn a_user_who_may_make_no_groups_is_still_bounded() {
    if !is_root() {
        return;
    }
    let place = Place::new(Caller::User);
    let bomb = "exec /usr/bin/python3 -c 'import time\nx = []\nwhile True: x.append(bytearray(1 << 20)); time.sleep(0.001)'";
    let ran = place.run(&["--memory", "48", "--report"], bomb, &[]);
    assert!(ran.code == 137 && ran.stderr.contains("limit: Some(Memory)"), "{ran:?}");
    let busy = "while :; do :; done & while :; do :; done";
    let ran = place.run(&["--cpu", "1", "--report"], busy, &[]);
    assert!(ran.code == 137 && ran.stderr.contains("limit: Some(Cpu)"), "{ran:?}");
}
