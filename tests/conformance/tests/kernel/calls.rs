//! System calls that are refused (classes 37, 39): with real arguments where they would succeed without the
//! filter, with nonsense for the rest, where the kernel's own answer shows whether the filter came first.

use pinfold_conformance::{Off, case, denials, each};

const SECCOMP: Off = Off::Succeeds(&["seccomp"]);
const FILTER: &[&str] = &["EPERM", "ENOSYS"];

denials! {
    io_uring { attempt: &["io-uring"], refused: FILTER, off: SECCOMP }
    key_ring { attempt: &["key-ring"], refused: FILTER, off: SECCOMP }
    key { attempt: &["key"], refused: FILTER, off: SECCOMP }
    secret_memory { attempt: &["secret-memory"], refused: FILTER, off: SECCOMP }
    fault_handler { attempt: &["fault-handler"], refused: FILTER, off: SECCOMP }
    old_personality {
        attempt: &["personality", "262144"], refused: FILTER, off: SECCOMP, control: &["personality", "8"],
    }
    unrandomised_personality {
        attempt: &["personality", "4194304"], refused: FILTER, off: SECCOMP, control: &["personality", "0"],
    }
}

/// Refused before the kernel looks at the arguments. Without the filter the kernel complains of them, or does
/// not have the call at all.
const REFUSED: &[&str] = &[
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "setns",
    "mount",
    "umount2",
    "chroot",
    "open_tree",
    "mount_setattr",
    "fsconfig",
    "open_by_handle_at",
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "kexec_file_load",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "keyctl",
    "add_key",
    "request_key",
    "memfd_secret",
    "swapon",
    "quotactl",
    "settimeofday",
    "clock_settime",
    "adjtimex",
    "move_pages",
    "process_vm_writev",
    "pidfd_getfd",
    "ptrace",
    "kcmp",
];

/// Refused, and the kernel refuses an unprivileged caller in the same words: the filter is a second lock.
const PRIVILEGED: &[&str] = &[
    "pivot_root",
    "move_mount",
    "fsopen",
    "fsmount",
    "fspick",
    "reboot",
    "fanotify_init",
    "acct",
    "sethostname",
    "syslog",
];

/// Answered as by a kernel that does not have them, so that libraries fall back to what the filter can look
/// into.
const ABSENT: &[&str] = &["clone3", "openat2"];

fn answers(
    place: &pinfold_conformance::Place,
    names: &[&str],
    without: &[&str],
) -> Vec<pinfold_conformance::Answer> {
    let attempts: Vec<[&str; 2]> = names.iter().map(|name| ["call", name]).collect();
    let attempts: Vec<&[&str]> = attempts.iter().map(|attempt| attempt.as_slice()).collect();
    place.run().without(without).attempt(&attempts).0
}

#[test]
fn dangerous_calls_are_refused_whatever_their_arguments() {
    each(case!("refused"), |place| {
        for (names, with) in [(REFUSED, "EPERM"), (PRIVILEGED, "EPERM"), (ABSENT, "ENOSYS")] {
            for (answer, name) in answers(place, names, &[]).iter().zip(names) {
                assert!(answer.is_refused(&[with]), "{name} was {answer}");
            }
        }
        for (answer, name) in answers(place, REFUSED, &["seccomp"]).iter().zip(REFUSED) {
            assert!(!answer.is_refused(&["EPERM"]), "{name} is refused without the filter too: {answer}");
        }
        for (answer, name) in answers(place, ABSENT, &["seccomp"]).iter().zip(ABSENT) {
            assert!(
                !answer.is_refused(&["ENOSYS"]),
                "{name} is not there without the filter either: {answer}"
            );
        }
        for (answer, name) in answers(place, PRIVILEGED, &["seccomp"]).iter().zip(PRIVILEGED) {
            assert!(!answer.is_ok(), "{name} was {answer}");
        }
    });
}

#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_one_architecture_are_refused() {
    each(case!("x86"), |place| {
        for (answer, name) in answers(place, &["iopl", "modify_ldt", "uselib"], &[]).iter().zip([
            "iopl",
            "modify_ldt",
            "uselib",
        ]) {
            assert!(answer.is_refused(FILTER), "{name} was {answer}");
        }
        assert!(answers(place, &["modify_ldt"], &["seccomp"])[0].is_ok(), "the filter is not what holds it");
    });
}

/// Numbers that the filter does not know do not exist.
#[test]
fn unknown_calls_do_not_exist() {
    each(case!("unknown"), |place| {
        for number in ["1000", "4095", "600", "-1", "2147483647"] {
            let answer = place.run().probe(&["unknown-call", number]);
            assert!(answer.is_refused(&["ENOSYS"]), "{number} was {answer}");
        }
    });
}

/// What ordinary programs need is still there.
#[test]
fn what_programs_need_works() {
    each(case!("control"), |place| {
        let (answers, _) = place.run().attempt(&[
            &["thread"],
            &["fork"],
            &["unshare", "files"],
            &["loopback", "127.0.0.1"],
            &["socket-pair", "unix"],
            &["ioctl-null"],
            &["run", "sh", "-c", "echo $(uname) | cat"],
        ]);
        assert!(answers.iter().all(pinfold_conformance::Answer::is_ok), "{answers:?}");
    });
}
