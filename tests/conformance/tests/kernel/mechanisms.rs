//! Missing mechanisms (class 47): each one pretended missing in turn stops the run, by exit 125 and the name
//! of the control that would not hold; and what pretends can only narrow.

use pinfold_conformance::{Place, case, each};

/// What is missing, and a control that then cannot be held.
const MISSING: &[(&str, &str)] =
    &[("userns", ""), ("landlock", "files.outside"), ("seccomp", "kernel.seccomp")];

/// Runs with a mechanism missing; what ran would leave a file.
fn refused_without(place: &Place, variable: &str, value: &str) -> String {
    let done = place.run().variable(variable, value).shell("echo ran >/workspace/ran");
    assert!(!place.exists("workspace/ran"), "something ran without {value}");
    done.refused()
}

#[test]
fn each_stops_the_run_by_the_name_of_a_control() {
    each(case!("missing"), |place| {
        for (mechanism, control) in MISSING {
            let said = refused_without(place, "PINFOLD_PRETEND_MISSING", mechanism);
            assert!(said.contains(mechanism), "{mechanism} is not named: {said}");
            assert!(said.contains(control), "{control} is not named: {said}");
            assert!(said.contains("requirements.") || said.contains("doctor"), "no hint: {said}");
        }
    });
}

#[test]
fn no_landlock_abi_is_no_landlock() {
    each(case!("abi-0"), |place| {
        let said = refused_without(place, "PINFOLD_PRETEND_LANDLOCK_ABI", "0");
        assert!(said.contains("files.outside"), "{said}");
    });
}

/// Where owners cannot be mapped, root's command becomes the owner of the workspace, or the run stops with a
/// hint.
#[test]
fn without_owner_mapping_root_does_not_run_as_root() {
    each(case!("idmap"), |place| {
        if !place.caller.is_root() {
            return;
        }
        let run = || place.run().variable("PINFOLD_PRETEND_MISSING", "idmap");
        let said = run().shell("true").refused();
        assert!(said.contains("root"), "not for root's workspace: {said}");
        for name in ["workspace", "workspace/control"] {
            std::os::unix::fs::chown(place.path(name), Some(12345), Some(12345)).expect("give it away");
        }
        let answer = run().probe(&["write", "/workspace/control", "written"]);
        assert!(answer.is_ok(), "{answer}");
        use std::os::unix::fs::MetadataExt;
        assert_eq!(std::fs::metadata(place.workspace("control")).expect("the file").uid(), 12345);
    });
}

/// Older Landlocks hold less, and the receipt says so; what they do not hold is never called enforced.
#[test]
fn older_landlocks_are_told_apart() {
    each(case!("abi"), |place| {
        for abi in ["1", "2", "3", "4", "5", "6"] {
            let run = place.run().variable("PINFOLD_PRETEND_LANDLOCK_ABI", abi);
            let done = run.shell("true");
            let said = done.json.to_string();
            match done.status {
                Some(0) => assert!(said.contains(&format!("ABI {abi}")), "{abi}: {said}"),
                Some(125) => assert!(said.contains("files."), "{abi}: {said}"),
                _ => panic!("{abi}: {done:?}"),
            }
        }
        // More than the kernel has cannot be pretended.
        let done = place.run().variable("PINFOLD_PRETEND_LANDLOCK_ABI", "99").shell("true").ok();
        assert!(!done.json.to_string().contains("ABI 99"), "{done:?}");
    });
}

/// The control may be given up by name, and only by name; the receipt then says that it does not hold.
#[test]
fn what_is_given_up_is_told() {
    each(case!("given-up"), |place| {
        let run = place.run().variable("PINFOLD_PRETEND_MISSING", "seccomp").options([
            "--set",
            "requirements.kernel.seccomp=best_effort",
            "--set",
            "requirements.kernel.abi=best_effort",
            "--set",
            "requirements.privileges.setid=best_effort",
        ]);
        let done = run.shell("true").ok();
        assert_eq!(done.receipt("kernel.seccomp")["status"], "missing", "{done:?}");
    });
}

/// A limit that this host cannot hold stops the run where it is required.
#[test]
fn the_strict_profile_insists_on_every_limit() {
    each(case!("strict"), |place| {
        let done = place.run().options(["--profile", "strict"]).command(["true"]);
        let receipt_or_error = done.json.to_string();
        match done.status {
            Some(0) => {
                for control in ["limit.cpu", "limit.memory", "limit.disk", "limit.processes"] {
                    assert_eq!(
                        done.receipt(control)["status"],
                        "enforced",
                        "{control} is required and not held"
                    );
                }
            }
            _ => assert!(done.refused().contains("limit."), "{receipt_or_error}"),
        }
    });
}
