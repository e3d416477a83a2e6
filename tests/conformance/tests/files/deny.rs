//! Deny globs (classes 12, 13, 21): what they match is neither read nor written, by no name and no
//! descriptor.

use pinfold_conformance::{Answer, Off, Place, Vars, case, denials, each};

const GLOB: &[&str] = &["--deny", "**/.env"];
const MASKS: Off = Off::Succeeds(&["masks"]);
const HELD: &[&str] = &["EACCES", "EROFS", "EBUSY", "EPERM", "EXDEV"];

/// Secrets at several depths.
fn secrets(place: &Place) -> Vars {
    place.write("workspace/.env", "TOKEN=1\n");
    place.write("workspace/a/b/.env", "TOKEN=2\n");
    place.write("workspace/secrets/one.key", "KEY\n");
    Vars::new()
}

denials! {
    read {
        attempt: &["read", "/workspace/.env"], refused: HELD, options: GLOB, setup: secrets, off: MASKS,
        alone: &["landlock"],
    }
    read_deep {
        attempt: &["read", "/workspace/a/b/.env"], refused: HELD, options: GLOB, setup: secrets, off: MASKS,
    }
    read_at_a_descriptor {
        attempt: &["read-at", "/workspace/a/b", ".env"], refused: HELD, options: GLOB, setup: secrets,
        off: MASKS,
    }
    read_by_reopening {
        attempt: &["read-path", "/workspace/.env"], refused: HELD, options: GLOB, setup: secrets, off: MASKS,
    }
    read_mapped {
        attempt: &["read-mapped", "/workspace/.env"], refused: HELD, options: GLOB, setup: secrets,
        off: MASKS,
    }
    read_through_the_root {
        attempt: &["read", "/proc/self/root/workspace/.env"], refused: HELD, options: GLOB, setup: secrets,
        off: MASKS,
    }
    read_through_the_directory {
        attempt: &["read", "/proc/self/cwd/.env"], refused: HELD, options: GLOB, setup: secrets, off: MASKS,
    }
    write {
        attempt: &["write", "/workspace/.env", "x"], refused: HELD, options: GLOB, setup: secrets, off: MASKS,
    }
    append {
        attempt: &["append", "/workspace/.env", "x"], refused: HELD, options: GLOB, setup: secrets,
        off: MASKS,
    }
    truncate {
        attempt: &["truncate", "/workspace/.env"], refused: HELD, options: GLOB, setup: secrets, off: MASKS,
    }
    unlink {
        attempt: &["unlink", "/workspace/.env"], refused: HELD, options: GLOB, setup: secrets, off: MASKS,
    }
    rename_away {
        attempt: &["rename", "/workspace/.env", "/workspace/x"], refused: HELD, options: GLOB, setup: secrets,
        off: MASKS,
    }
    rename_over {
        attempt: &["replace", "/workspace/.env", "/workspace/own", "x"], refused: HELD, options: GLOB,
        setup: secrets, off: MASKS,
    }
    exchange {
        attempt: &["exchange", "/workspace/.env", "/workspace/a"], refused: HELD, options: GLOB,
        setup: secrets, off: MASKS,
    }
    hard_link {
        attempt: &["link", "/workspace/.env", "/workspace/x"], refused: HELD, options: GLOB, setup: secrets,
        off: MASKS,
    }
    hard_link_by_descriptor {
        attempt: &["link-path", "/workspace/.env", "/workspace/x"], refused: HELD, options: GLOB,
        setup: secrets, off: MASKS,
    }
    mode {
        attempt: &["chmod", "/workspace/.env", "777"], refused: HELD, options: GLOB, setup: secrets,
        off: MASKS,
    }
    times {
        attempt: &["set-times", "/workspace/.env"], refused: HELD, options: GLOB, setup: secrets, off: MASKS,
    }
    flags {
        attempt: &["set-flags", "/workspace/.env"], refused: HELD, options: GLOB, setup: secrets, off: MASKS,
    }
    a_directory {
        attempt: &["list", "/workspace/secrets"], refused: HELD, options: &["--deny", "secrets"],
        setup: secrets, off: MASKS,
    }
    in_a_directory {
        attempt: &["read", "/workspace/secrets/one.key"], refused: HELD, options: &["--deny", "secrets/"],
        setup: secrets, off: MASKS,
    }
    by_an_absolute_path {
        attempt: &["read", "/workspace/secrets/one.key"], refused: HELD, setup: secrets, off: MASKS,
        options: &["--deny", "{place}workspace/secrets/*.key"],
    }
    renaming_a_directory_that_a_glob_names {
        attempt: &["rename", "/workspace/secrets", "/workspace/moved"], refused: HELD,
        options: &["--deny", "secrets/*.key"], setup: secrets, off: MASKS,
    }
    making_an_absent_literal_name {
        attempt: &["replace", "/workspace/.env.local", "/workspace/own", "x"], refused: HELD,
        options: &["--deny", ".env.local"], setup: secrets, off: Off::Succeeds(&["masks", "protect"]),
    }
    seen_through_two_zones {
        attempt: &["read", "/data/.env"], refused: HELD,
        options: &["--deny", "data/.env", "--zone", "data={place}workspace/data:ro"],
        setup: |place| {
            place.write("workspace/data/.env", "TOKEN=6\n");
            Vars::new()
        },
        off: MASKS,
    }
    in_another_zone {
        attempt: &["read", "/input/.env"], refused: HELD,
        options: &["--deny", "**/.env", "--zone", "input={place}data:ro"],
        setup: |place| {
            place.write("data/.env", "TOKEN=3\n");
            Vars::new()
        },
        off: MASKS,
    }
}

// Through a link, the target is what is hidden, under its own name too.
denials! {
    the_target_of_a_link {
        attempt: &["read", "/workspace/plain"], refused: HELD, options: GLOB, off: MASKS,
        setup: |place| {
            place.write("workspace/plain", "TOKEN=4\n");
            place.symlink("plain", "workspace/.env");
            Vars::new()
        },
    }
    the_target_of_a_chain {
        attempt: &["read", "/workspace/x/plain"], refused: HELD, options: GLOB, off: MASKS,
        setup: |place| {
            place.write("workspace/x/plain", "TOKEN=5\n");
            place.symlink("x/plain", "workspace/second");
            place.symlink("second", "workspace/.env");
            Vars::new()
        },
    }
    below_a_linked_directory {
        attempt: &["read", "/workspace/real/one.key"], refused: HELD, options: &["--deny", "secrets/*.key"],
        off: MASKS,
        setup: |place| {
            place.write("workspace/real/one.key", "KEY\n");
            place.symlink("real", "workspace/secrets");
            Vars::new()
        },
    }
    the_link_itself_replaced {
        attempt: &["replace", "/workspace/.env", "/workspace/own", "x"], refused: HELD, options: GLOB,
        off: MASKS,
        setup: |place| {
            place.write("workspace/plain", "TOKEN=4\n");
            place.symlink("plain", "workspace/.env");
            Vars::new()
        },
    }
}

#[test]
fn case_and_odd_spellings_of_the_glob() {
    each(case!("spellings"), |place| {
        secrets(place);
        place.write("workspace/with space/x.pem", "KEY\n");
        place.write("workspace/a/[odd].pem", "KEY\n");
        let run =
            place.run().options(["--deny", "**/*.pem", "--deny", "./secrets/**", "--deny", "a/{b,c}/.env"]);
        let (answers, _) = run.attempt(&[
            &["read", "/workspace/with space/x.pem"],
            &["read", "/workspace/a/[odd].pem"],
            &["read", "/workspace/secrets/one.key"],
            &["read", "/workspace/a/b/.env"],
            &["read", "/workspace/.env"],
        ]);
        for answer in &answers[..4] {
            assert!(answer.is_refused(HELD), "{answers:?}");
        }
        assert!(answers[4].is_ok(), "not named by any glob: {}", answers[4]);
    });
}

/// What the inside makes under such a name is its own, and what it says is no secret of the host's.
#[test]
fn what_is_made_inside_is_its_own_and_hidden_from_the_next_run() {
    each(case!("own"), |place| {
        let run = || place.run().options(GLOB);
        place.mkdir("workspace/sub");
        let (answers, _) =
            run().attempt(&[&["create", "/workspace/sub/.env", "own"], &["read", "/workspace/sub/.env"]]);
        assert!(answers.iter().all(Answer::is_ok), "{answers:?}");
        assert!(run().probe(&["read", "/workspace/sub/.env"]).is_refused(HELD));
    });
}

/// A second name of a denied file, made before the run, is either hidden too or admitted by name.
#[test]
fn a_second_name_of_a_denied_file_is_hidden_or_told() {
    each(case!("second-name"), |place| {
        secrets(place);
        std::fs::hard_link(place.workspace(".env"), place.workspace("copy")).expect("a second name");
        let (answers, done) = place.run().options(GLOB).attempt(&[&["read", "/workspace/copy"]]);
        let line = done.receipt("files.deny");
        let told =
            line["status"] != "enforced" || line["detail"].as_str().is_some_and(|text| text.contains(".env"));
        assert!(
            !answers[0].is_ok() || told,
            "read by its second name, and the receipt calls it enforced: {line}"
        );
    });
}

#[test]
fn the_strict_profile_hides_the_usual_secrets() {
    each(case!("strict"), |place| {
        for name in [".env", ".env.production", "tls/server.key", "tls/server.pem"] {
            place.write(format!("workspace/{name}"), "secret\n");
        }
        let explained = place
            .pinfold(&["explain", "--profile", "strict", "--json", "--", "true"])
            .output()
            .expect("explain");
        let text = String::from_utf8_lossy(&explained.stdout).into_owned();
        for glob in ["**/.env", "**/*.pem", "**/*.key"] {
            assert!(text.contains(glob), "{glob} is not denied: {text}");
        }
    });
}
