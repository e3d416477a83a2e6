//! Files outside every zone (classes 1, 2, 18): whatever the way, they are neither read nor written. Mounts
//! hold it, and Landlock holds it again; each row shows both, and each alone.
//!
//! Landlock does not see metadata (landlock(7)): modes, times, attributes and owners rest on mounts. Names
//! too: the right to list `/` is one to list whatever is below it.

use pinfold_conformance::{Off, Place, Vars, case, denials, each};

/// Not there, not writable, not allowed.
const REFUSED: &[&str] = &["ENOENT", "EROFS", "EACCES"];
/// What holds files outside.
const BOTH: &[&str] = &["mounts", "landlock"];

denials! {
    read { attempt: &["read", "{canary}"], refused: REFUSED, off: Off::Succeeds(BOTH), alone: BOTH }
    read_by_descriptor_of_the_directory {
        attempt: &["read-at", "{place}outside", "canary"], refused: REFUSED, off: Off::Succeeds(BOTH),
        alone: BOTH,
    }
    read_by_reopening {
        attempt: &["read-path", "{canary}"], refused: REFUSED, off: Off::Succeeds(BOTH), alone: BOTH,
    }
    read_mapped {
        attempt: &["read-mapped", "{canary}"], refused: REFUSED, off: Off::Succeeds(BOTH), alone: BOTH,
    }
    read_through_own_root {
        attempt: &["read", "/proc/self/root{canary}"], refused: REFUSED, off: Off::Succeeds(BOTH),
        alone: BOTH,
    }
    read_through_dots {
        attempt: &["read", "/workspace/../../../../..{canary}"], refused: REFUSED, off: Off::Succeeds(BOTH),
        alone: BOTH,
    }
    read_through_the_root_of_process_1 {
        attempt: &["read", "/proc/1/root{canary}"], refused: REFUSED, alone: BOTH,
        off: Off::Never("process 1 cannot be looked into: it is not dumpable"),
    }
    read_by_handle {
        attempt: &["by-handle", "{canary}", "/workspace"], refused: &["ENOENT", "EPERM"],
        alone: &["landlock", "seccomp"],
        off: Off::Never("the kernel asks for CAP_DAC_READ_SEARCH on the host"),
    }
    list {
        attempt: &["list", "{place}outside"], refused: REFUSED, off: Off::Succeeds(&["mounts"]),
        alone: &["landlock"],
    }
    write { attempt: &["write", "{canary}", "x"], refused: REFUSED, off: Off::Succeeds(BOTH), alone: BOTH }
    write_by_reopening {
        attempt: &["write-path", "{canary}", "x"], refused: REFUSED, off: Off::Succeeds(BOTH), alone: BOTH,
    }
    append { attempt: &["append", "{canary}", "x"], refused: REFUSED, off: Off::Succeeds(BOTH), alone: BOTH }
    truncate { attempt: &["truncate", "{canary}"], refused: REFUSED, off: Off::Succeeds(BOTH), alone: BOTH }
    unlink { attempt: &["unlink", "{canary}"], refused: REFUSED, off: Off::Succeeds(BOTH), alone: BOTH }
    rename {
        attempt: &["rename", "{canary}", "{canary}.moved"], refused: REFUSED, off: Off::Succeeds(BOTH),
        alone: BOTH,
    }
    replace {
        attempt: &["replace", "{canary}", "{place}outside/own", "x"], refused: REFUSED,
        off: Off::Succeeds(BOTH), alone: BOTH,
    }
    hard_link_beside {
        attempt: &["link", "{canary}", "{canary}.second"], refused: REFUSED, off: Off::Succeeds(BOTH),
        alone: BOTH,
    }
    hard_link_into_the_workspace {
        attempt: &["link", "{canary}", "/workspace/stolen"], refused: REFUSED,
        off: Off::Reaches(BOTH), alone: &["landlock"],
    }
    hard_link_by_descriptor {
        attempt: &["link-path", "{canary}", "/workspace/stolen"], refused: REFUSED,
        off: Off::Reaches(BOTH), alone: &["landlock"],
    }
    move_into_the_workspace {
        attempt: &["rename", "{canary}", "/workspace/stolen"], refused: REFUSED,
        off: Off::Reaches(BOTH), alone: &["landlock"],
    }
    move_out_of_the_workspace {
        attempt: &["rename", "/workspace/control", "{canary}"], refused: REFUSED,
        control: &["create", "/workspace/other", "x"], off: Off::Reaches(BOTH), alone: &["landlock"],
    }
    create {
        attempt: &["create", "{place}outside/new", "x"], refused: REFUSED, off: Off::Succeeds(BOTH),
        alone: BOTH,
    }
    create_without_a_name {
        attempt: &["tmpfile-link", "{place}outside", "{place}outside/new", "x"], refused: REFUSED,
        off: Off::Succeeds(BOTH), alone: BOTH,
    }
    make_directory {
        attempt: &["mkdir", "{place}outside/new"], refused: REFUSED, off: Off::Succeeds(BOTH), alone: BOTH,
    }
    make_link {
        attempt: &["symlink", "/", "{place}outside/new"], refused: REFUSED, off: Off::Succeeds(BOTH),
        alone: BOTH,
    }
    make_fifo {
        attempt: &["fifo", "{place}outside/new"], refused: REFUSED, off: Off::Succeeds(BOTH), alone: BOTH,
    }
    change_mode {
        attempt: &["chmod", "{canary}", "777"], refused: REFUSED, off: Off::Succeeds(&["mounts"]),
        alone: &["landlock"],
    }
    change_times {
        attempt: &["set-times", "{canary}"], refused: REFUSED, off: Off::Succeeds(&["mounts"]),
        alone: &["landlock"],
    }
    change_attributes {
        attempt: &["set-attribute", "{canary}"], refused: REFUSED, off: Off::Reaches(&["mounts"]),
        alone: &["landlock"],
    }
    change_flags {
        attempt: &["set-flags", "{canary}"], refused: REFUSED, off: Off::Reaches(BOTH), alone: BOTH,
    }
    execute {
        attempt: &["run", "{place}outside/script"], refused: REFUSED, off: Off::Succeeds(BOTH), alone: BOTH,
        setup: |place| {
            place.script("outside/script", "#!/bin/sh\necho ran\n");
            Vars::new()
        },
    }
    sibling_with_the_same_beginning {
        attempt: &["write", "{place}workspace-evil/canary", "x"], refused: REFUSED,
        off: Off::Succeeds(BOTH), alone: BOTH,
        setup: |place| {
            place.write("workspace-evil/canary", "x");
            Vars::new()
        },
    }
    sibling_of_the_place_inside {
        attempt: &["list", "/workspace-evil"], refused: REFUSED, off: Off::Never("it is not there"),
    }
}

denials! {
    system_programs {
        attempt: &["create", "/usr/bin/planted", "x"], refused: REFUSED, off: NEVER, alone: BOTH,
    }
    system_libraries { attempt: &["create", "/lib/planted", "x"], refused: REFUSED, off: NEVER, alone: BOTH }
    system_settings {
        attempt: &["create", "/etc/planted", "x"], refused: REFUSED, off: NEVER, alone: &["landlock"],
    }
    accounts { attempt: &["write", "/etc/passwd", "x"], refused: REFUSED, off: NEVER, alone: &["landlock"] }
    the_root_itself { attempt: &["create", "/planted", "x"], refused: REFUSED, off: NEVER, alone: BOTH }
    the_empty_var {
        attempt: &["create", "/var/planted", "x"], refused: REFUSED, off: NEVER, alone: &["landlock"],
    }
    the_wall_s_own_directory {
        attempt: &["create", "/.pinfold/planted", "x"], refused: REFUSED, off: NEVER, alone: BOTH,
    }
    a_mode_of_the_system {
        attempt: &["chmod", "/usr/bin", "777"], refused: &["EROFS", "EPERM"], off: NEVER, alone: BOTH,
    }
}

/// To see these succeed, the host's own system would have to be written to.
const NEVER: Off = Off::Never("would change the host's system");

#[test]
fn home_and_keys_of_the_caller_are_not_there() {
    each(case!("home"), |place: &Place| {
        place.write("home/.ssh/id_ed25519", "key");
        let home = place.path("home").display().to_string();
        let key = format!("{home}/.ssh/id_ed25519");
        let (answers, _) = place.run().attempt(&[
            &["read", &key],
            &["list", &home],
            &["list", "/root"],
            &["list", "/home"],
            &["read", "/etc/shadow"],
            &["list", "/run"],
            &["list", "/var/lib"],
            &["list", "/scratch/home"],
        ]);
        for answer in &answers[..7] {
            assert!(answer.is_refused(REFUSED), "{answer}");
        }
        assert!(answers[7].is_ok(), "HOME inside: {}", answers[7]);
    });
}

#[test]
fn what_is_shown_of_the_system_tells_nothing_of_its_owner() {
    each(case!("shown"), |place: &Place| {
        let hidden = [
            "/root", "/home", "/srv", "/opt", "/mnt", "/media", "/boot", "/run", "/sys", "/var/lib",
            "/var/log",
        ];
        let attempts: Vec<[&str; 2]> = hidden.iter().map(|path| ["stat", path]).collect();
        let attempts: Vec<&[&str]> = attempts.iter().map(|attempt| attempt.as_slice()).collect();
        let (answers, _) = place.run().attempt(&attempts);
        for (answer, path) in answers.iter().zip(hidden) {
            assert!(answer.is_refused(&["ENOENT"]), "{path} is shown: {answer}");
        }
        let (answers, _) = place.run().attempt(&[&["read", "/etc/passwd"], &["list", "/etc"]]);
        assert!(!answers[0].text().contains("/root"), "{}", answers[0]);
        let etc = answers[1].to_string();
        for name in ["shadow", "ssh\"", "machine-id", "fstab", "sudoers", "hostname"] {
            assert!(!etc.contains(name), "/etc/{name} is shown: {etc}");
        }
    });
}
