//! The guest, process 1 of every sandbox (class 24): nothing of it can be written, and nothing inside decides
//! how much it may use or when it runs.

use pinfold_conformance::{Off, case, denials, each};

const SEALED: Off = Off::Never("the guest is sealed, which has no switch");

denials! {
    its_limits { attempt: &["set-limits", "1"], refused: &["EPERM", "EACCES"], off: SEALED }
    its_likelihood_to_be_killed {
        attempt: &["open-write", "/proc/1/oom_score_adj"], refused: &["EPERM", "EACCES"], off: SEALED,
    }
    its_memory_map {
        attempt: &["open-write", "/proc/1/clear_refs"], refused: &["EPERM", "EACCES"], off: SEALED,
    }
}

/// Every file of the process is tried; the kernel has more of them with every version.
#[test]
fn no_file_of_it_can_be_opened_for_writing() {
    each(case!("files"), |place| {
        let script = "for f in /proc/1/* /proc/1/attr/* /proc/1/task/1/*; do
                [ -f \"$f\" ] || continue
                ( : >>\"$f\" ) 2>/dev/null && echo \"$f\"
            done
            ( : >>/proc/self/oom_score_adj ) 2>/dev/null && echo control";
        let done = place.run().options(["--processes", "32"]).shell(script);
        let open: Vec<&str> = done.stdout().lines().collect();
        // These ask for nothing when they are opened, and refuse what is written by anyone else.
        let later =
            ["/comm", "/attr/", "/timerslack_ns", "/uid_map", "/gid_map", "/projid_map", "/setgroups"];
        let open: Vec<&&str> =
            open.iter().filter(|path| !later.iter().any(|name| path.contains(name))).collect();
        assert_eq!(open, [&"control"], "{done:?}");
    });
}

/// What the guest may be asked by anyone is harmless: who it is, and that it is there. Where zones come from
/// is told by every process's list of mounts, in this wall as in any other that mounts them.
#[test]
fn it_tells_nothing_of_the_host() {
    each(case!("tells"), |place| {
        let script = "cat /proc/1/cmdline /proc/1/comm /proc/1/status /proc/1/cgroup 2>/dev/null";
        let done = place.run().variable("SENTINEL", "of the caller").shell(script);
        let said = done.stdout();
        assert!(said.contains("State:"), "the control: {said}");
        for word in [place.name(), "sentinel", "of the caller", "--backend"] {
            assert!(!said.contains(word), "{word} is told: {said}");
        }
    });
}
