//! New namespaces (class 38): refused by every call that makes or enters one; threads and forks are not.

use pinfold_conformance::{Off, case, denials, each};

const FILTER: &[&str] = &["EPERM", "ENOSYS"];

denials! {
    unshare_user {
        attempt: &["unshare", "user"], refused: FILTER, off: Off::Succeeds(&["seccomp"]),
        control: &["unshare", "files"],
    }
    clone_user {
        attempt: &["clone", "user"], refused: FILTER, off: Off::Succeeds(&["seccomp"]), control: &["fork"],
    }
    clone3_user {
        attempt: &["clone3", "user"], refused: FILTER, off: Off::Succeeds(&["seccomp"]), control: &["thread"],
    }
    clone3_without_namespaces {
        attempt: &["clone3", "files"], refused: &["ENOSYS"], off: Off::Succeeds(&["seccomp"]),
        control: &["fork"],
    }
    enter_own { attempt: &["setns", "self", "user"], refused: FILTER, off: Off::Reaches(&["seccomp"]) }
    enter_those_of_process_1 {
        attempt: &["setns", "1", "mnt"], refused: &["EPERM", "EACCES", "ENOENT"], alone: &["seccomp"],
        off: Off::Never("they cannot even be opened"),
    }
    mount_with_a_user_namespace {
        attempt: &["mount-in-own-namespace", "/tmp"], refused: FILTER, alone: &["landlock", "seccomp"],
        off: Off::Succeeds(&["seccomp", "landlock"]),
    }
    unmount_with_a_user_namespace {
        attempt: &["unmount-in-own-namespace", "/workspace"], refused: &["EPERM", "EINVAL"],
        alone: &["landlock", "seccomp"],
        off: Off::Never("mounts of a more privileged namespace are locked together (mount_namespaces(7))"),
    }
    remount_with_a_user_namespace {
        attempt: &["remount-in-own-namespace", "/usr"], refused: &["EPERM", "EINVAL"],
        alone: &["landlock", "seccomp"],
        off: Off::Never("the read-only flag is locked (mount_namespaces(7))"),
    }
}

#[test]
fn every_kind_by_every_call() {
    each(case!("kinds"), |place| {
        for kind in ["mount", "cgroup", "uts", "ipc", "user", "pid", "net", "time"] {
            let (answers, _) = place.run().attempt(&[&["unshare", kind], &["clone3", kind]]);
            assert!(answers.iter().all(|answer| answer.is_refused(FILTER)), "{kind}: {answers:?}");
            // In clone(2) the bit of the time namespace lies in the exit signal.
            if kind != "time" {
                let answer = place.run().probe(&["clone", kind]);
                assert!(answer.is_refused(FILTER), "{kind}: {answer}");
            }
        }
    });
}
