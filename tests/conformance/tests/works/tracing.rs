//! Debuggers on one's own child, with the profile that allows them; and that no other profile does.

use pinfold_conformance::{case, each, skip};

const DEBUG: [&str; 4] = ["--profile", "build", "--set", "security.seccompProfile=debug"];

#[test]
fn strace_of_a_child() {
    let case = case!("strace");
    each(case, |place| {
        if skip::needs(case, "strace", "strace").is_none() {
            return;
        }
        let done =
            place.run().options(DEBUG).command(["strace", "-f", "-e", "trace=execve", "sh", "-c", "true"]);
        assert!(done.status == Some(0) && done.stderr().contains("execve(\"/"), "{done:?}");
        let plain = place.run().options(["--profile", "build"]).command(["strace", "true"]);
        assert_ne!(plain.status, Some(0), "tracing without the debug profile");
    });
}

#[test]
fn gdb_of_a_child() {
    let case = case!("gdb");
    each(case, |place| {
        if skip::needs(case, "gdb", "gdb").is_none() {
            return;
        }
        let words = ["gdb", "-nx", "-batch", "-ex", "run", "-ex", "print 6*7", "--args", "/bin/true"];
        let done = place.run().options(DEBUG).command(words);
        assert!(done.stdout().contains("exited normally") && done.stdout().contains("42"), "{done:?}");
    });
}

/// Even then, process 1 and what is outside stay out of reach.
#[test]
fn the_debug_profile_opens_nothing_else() {
    each(case!("narrow"), |place| {
        let (answers, _) = place.run().options(DEBUG).attempt(&[
            &["trace-child"],
            &["trace", "1"],
            &["seize", "1"],
            &["vm-read", "1"],
            &["vm-write", "1"],
            &["memory", "1"],
            &["unshare", "user"],
            &["call", "mount"],
            &["call", "bpf"],
            &["key"],
        ]);
        assert!(answers[0].is_ok(), "{}", answers[0]);
        assert!(answers[1..].iter().all(|answer| answer.is_refused(&["EPERM", "EACCES"])), "{answers:?}");
    });
}
