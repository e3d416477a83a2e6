//! A denial cannot be passed by another name for the same thing: through `/proc/self/root`, by a copy of a
//! program, or by calling the loader.

use pinfold_conformance::{Off, case, denials, each};

const HELD: &[&str] = &["EACCES", "EROFS", "EBUSY", "ENOENT"];

denials! {
    denied_through_own_root {
        attempt: &["read", "/proc/self/root/workspace/secret"], refused: HELD, options: &["--deny", "secret"],
        setup: |place| { place.write("workspace/secret", "x"); Vec::new() }, off: Off::Succeeds(&["masks"]),
    }
    denied_through_own_directory {
        attempt: &["read", "/proc/thread-self/cwd/secret"], refused: HELD, options: &["--deny", "secret"],
        setup: |place| { place.write("workspace/secret", "x"); Vec::new() }, off: Off::Succeeds(&["masks"]),
    }
    denied_with_dots {
        attempt: &["read", "/workspace/./x/..//secret"], refused: HELD, options: &["--deny", "secret"],
        setup: |place| { place.write("workspace/secret", "x"); place.mkdir("workspace/x"); Vec::new() },
        off: Off::Succeeds(&["masks"]),
    }
    protected_through_own_root {
        attempt: &["write", "/proc/self/root/workspace/.envrc", "x"], refused: HELD,
        setup: |place| { place.write("workspace/.envrc", "x"); Vec::new() }, off: Off::Succeeds(&["protect"]),
    }
    outside_through_own_root {
        attempt: &["read", "/proc/self/root{canary}"], refused: HELD,
        off: Off::Succeeds(&["mounts", "landlock"]), alone: &["mounts", "landlock"],
    }
}

/// The same attempt by a copy of the program, by the loader, from memory, and by an interpreter.
#[test]
fn a_copied_program_and_the_loader_are_held_too() {
    each(case!("copies"), |place| {
        place.write("workspace/secret", "sentinel\n");
        let canary = place.canary("outside/canary");
        let run = || place.run().options(["--deny", "secret", "--processes", "32"]);
        let loader = "$(ls /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1 2>/dev/null | head -1)";
        let copies = [
            "cp /bin/cat ./mycat && ./mycat".to_owned(),
            "cp /bin/cat /tmp/ls && /tmp/ls".to_owned(),
            "cp /bin/cat /dev/shm/x && chmod +x /dev/shm/x && /dev/shm/x".to_owned(),
            format!("{loader} /bin/cat"),
            format!("cp /bin/cat ./plain && chmod -x ./plain && {loader} ./plain"),
            "ln -s /bin/cat ./link && ./link".to_owned(),
            "perl -e 'print <>'".to_owned(),
        ];
        for copy in copies {
            let script = format!(
                "echo works >ok; {copy} ok && {{ {copy} secret; {copy} {}; true; }}",
                canary.path().display()
            );
            let done = run().shell(&script).ok();
            assert!(done.stdout().contains("works"), "{copy}: the control read nothing: {done:?}");
            assert!(
                !done.stdout().contains("sentinel") && !done.stdout().contains(canary.secret()),
                "{copy} reads it"
            );
            run().shell("rm -f ok mycat plain link").ok();
        }
        canary.assert_unchanged();
    });
}
