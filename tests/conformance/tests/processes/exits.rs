//! How a command ends (classes 31, 32, 33, 35): its status comes through, orphans are reaped, an open output
//! does not hold the end up, and no core is left.

use std::time::Instant;

use pinfold_conformance::place::PROBE;
use pinfold_conformance::{case, each, host};

#[test]
fn exit_codes_come_through() {
    each(case!("codes"), |place| {
        for code in [0, 1, 2, 42, 124, 125, 126, 127, 128, 200, 255] {
            let done = place.run().shell(&format!("exit {code}"));
            assert_eq!(
                (done.status, done.json["exit"]["code"].as_i64()),
                (Some(code), Some(code.into())),
                "{done:?}"
            );
        }
    });
}

#[test]
fn signals_come_through() {
    each(case!("signals"), |place| {
        for (name, number) in [
            ("HUP", 1),
            ("INT", 2),
            ("QUIT", 3),
            ("ABRT", 6),
            ("KILL", 9),
            ("SEGV", 11),
            ("TERM", 15),
            ("USR1", 10),
        ] {
            let done = place.run().shell(&format!("kill -{name} $$"));
            assert_eq!(done.status, Some(128 + number), "{name}: {done:?}");
            assert_eq!(done.json["exit"]["signal"].as_i64(), Some(number.into()), "{name}");
        }
    });
}

#[test]
fn what_cannot_be_started_is_126_or_127() {
    each(case!("not-started"), |place| {
        place.write("workspace/text", "no program\n");
        assert_eq!(place.run().command(["no-such-program"]).status, Some(127));
        assert_eq!(place.run().command(["/workspace/absent"]).status, Some(127));
        assert_eq!(place.run().command(["/workspace/text"]).status, Some(126));
        assert_eq!(place.run().command(["/workspace"]).status, Some(126));
        let output = place.run().plain(["no-such-program"]);
        assert!(String::from_utf8_lossy(&output.stderr).contains("no-such-program"), "{output:?}");
    });
}

#[test]
fn orphans_are_reaped() {
    each(case!("orphans"), |place| {
        let (answers, _) =
            place.run().options(["--processes", "32"]).attempt(&[&["orphans", "100"], &["zombies"]]);
        assert!(answers[0].is_ok(), "{}", answers[0]);
        assert_eq!(answers[1].value().as_array().map(Vec::len), Some(0), "zombies are left: {}", answers[1]);
    });
}

/// The command ends; a child of its keeps the output open for ever.
#[test]
fn an_output_that_stays_open_does_not_hold_the_end_up() {
    each(case!("held-open"), |place| {
        for json in [true, false] {
            let mark = pinfold_conformance::canary::random();
            let started = Instant::now();
            let command = [PROBE, "daemon", &mark];
            if json {
                assert!(place.run().command(command).ok().stdout().contains("\"ok\":true"));
            } else {
                assert!(place.run().plain(command).status.success());
            }
            assert!(started.elapsed() < host::PATIENCE, "it took {:?}", started.elapsed());
            assert!(host::until(host::SOON, || host::processes(&mark).is_empty()), "the child lives on");
        }
    });
}

#[test]
fn no_core_is_dumped() {
    each(case!("core"), |place| {
        let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
        let before = cores(&pattern);
        let done =
            place.run().shell("ulimit -c unlimited 2>/dev/null; /tools/pinfold-probe dump-core; ulimit -c");
        assert!(done.stdout().contains("SIGABRT"), "{done:?}");
        assert!(!done.stdout().contains("unlimited"), "the limit can be raised: {}", done.stdout());
        for entry in std::fs::read_dir(place.path("workspace")).expect("read the workspace").flatten() {
            assert!(!entry.file_name().to_string_lossy().starts_with("core"), "a core in the workspace");
        }
        assert_eq!(cores(&pattern), before, "a core where the host keeps them");
    });
}

/// The names where the host's pattern puts cores, when that is a directory.
fn cores(pattern: &str) -> Vec<std::ffi::OsString> {
    let Some(directory) = std::path::Path::new(pattern.trim()).parent().filter(|path| path.is_absolute())
    else {
        return Vec::new();
    };
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .map(|all| all.flatten().map(|entry| entry.file_name()).collect())
        .unwrap_or_default();
    names.sort();
    names
}
