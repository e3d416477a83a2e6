//! Set-id files (class 17): a mode with these bits is refused by every call that takes one, so the host finds
//! none; and a set-id program in a zone changes no id.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use pinfold_conformance::{Off, case, denials, each};

const SECCOMP: Off = Off::Succeeds(&["seccomp"]);
const REFUSED: &[&str] = &["EPERM", "ENOSYS"];

denials! {
    chmod {
        attempt: &["chmod", "/workspace/control", "4755"], refused: REFUSED, off: SECCOMP, control: PLAIN,
    }
    chmod_group {
        attempt: &["chmod", "/workspace/control", "2755"], refused: REFUSED, off: SECCOMP, control: PLAIN,
    }
    chmod_both {
        attempt: &["chmod", "/workspace/control", "6711"], refused: REFUSED, off: SECCOMP, control: PLAIN,
    }
    fchmod {
        attempt: &["fchmod", "/workspace/control", "4755"], refused: REFUSED, off: SECCOMP, control: PLAIN,
    }
    fchmodat {
        attempt: &["fchmodat", "/workspace/control", "4755"], refused: REFUSED, off: SECCOMP, control: PLAIN,
    }
    fchmodat2 {
        attempt: &["fchmodat2", "/workspace/control", "4755"], refused: REFUSED, off: SECCOMP, control: PLAIN,
    }
    openat { attempt: &["openat-mode", "/workspace/new", "4755"], refused: REFUSED, off: SECCOMP }
    openat2 { attempt: &["openat2-mode", "/workspace/new", "4755"], refused: REFUSED, off: SECCOMP }
    mknod { attempt: &["mknod-mode", "/workspace/new", "4755"], refused: REFUSED, off: SECCOMP }
    mknodat { attempt: &["mknodat-mode", "/workspace/new", "2755"], refused: REFUSED, off: SECCOMP }
    in_memory { attempt: &["openat-mode", "/tmp/new", "4755"], refused: REFUSED, off: SECCOMP }
}

#[cfg(target_arch = "x86_64")]
denials! {
    chmod_with_high_bits {
        attempt: &["chmod-high", "/workspace/control", "4755"], refused: REFUSED, off: SECCOMP,
        control: PLAIN,
    }
    open { attempt: &["open-mode", "/workspace/new", "4755"], refused: REFUSED, off: SECCOMP }
    creat { attempt: &["creat-mode", "/workspace/new", "4755"], refused: REFUSED, off: SECCOMP }
    open_without_a_name { attempt: &["tmpfile-mode", "/workspace", "4755"], refused: REFUSED, off: SECCOMP }
}

/// The same call without such bits works.
const PLAIN: &[&str] = &["chmod", "/workspace/control", "755"];

#[test]
fn directories_lose_the_bits_and_the_host_finds_no_set_id_file() {
    each(case!("none-left"), |place| {
        let script = r"umask 0
            mkdir -m 0755 d
            cp /bin/sh sh
            chmod u+s sh
            chmod g+s sh d
            install -m 4755 /bin/sh in
            true";
        place.run().shell(script).ok();
        let (answers, _) = place.run().attempt(&[&["mkdir-mode", "/workspace/f", "6777"]]);
        assert!(answers[0].is_ok(), "{}", answers[0]);
        for entry in std::fs::read_dir(place.path("workspace")).expect("read the workspace").flatten() {
            let mode = entry.metadata().expect("look at a file").mode();
            assert_eq!(mode & 0o6000, 0, "{} has mode {mode:o}", entry.path().display());
        }
        assert!(place.exists("workspace/sh") && place.exists("workspace/f"), "the controls made nothing");
    });
}

/// A set-id program that belongs to root, or to whoever runs the tests, lies in the workspace.
#[test]
fn a_set_id_program_in_a_zone_changes_no_id() {
    each(case!("run"), |place| {
        let program = place.workspace("probe");
        place.copy(&place.probe(), "workspace/probe");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o6755)).expect("set the bits");
        let answer = place.run().probe(&["run", "/workspace/probe", "ids"]);
        let said: serde_json::Value = serde_json::from_str(answer.text()).expect("an answer");
        let ids = &said["ok"];
        assert!(ids["real"].as_u64().is_some_and(|id| id != 0), "root inside: {ids}");
        assert!(ids["effective"] == ids["real"] && ids["saved"] == ids["real"], "ids changed: {ids}");
    });
}

#[test]
fn programs_of_the_system_change_no_id() {
    each(case!("system"), |place| {
        let found: Vec<&str> = ["/usr/bin/su", "/usr/bin/passwd", "/usr/bin/newgrp", "/usr/bin/mount"]
            .into_iter()
            .filter(|path| std::fs::metadata(path).is_ok_and(|found| found.mode() & 0o4000 != 0))
            .collect();
        for path in found {
            // Looked at while it runs: a program that waits for input stays long enough.
            let script =
                format!("{path} --help >/dev/null 2>&1; grep -h ^Uid: /proc/[0-9]*/status | sort -u");
            let done = place.run().shell(&script).ok();
            assert_eq!(done.stdout().lines().count(), 1, "more than one id inside: {}", done.stdout());
        }
    });
}
