//! Pinfold's own files (class 22): state, configuration, sockets and records are out of reach whatever is
//! allowed; and a policy that the workspace brings along can only narrow.

use pinfold_conformance::{Off, Place, Vars, case, denials, each};

const HELD: &[&str] = &["EACCES", "ENOENT", "EROFS"];

/// Everything that Pinfold keeps, in the workspace itself.
fn state_in_the_workspace(place: &Place) -> Vars {
    place.write("workspace/state/pinfold/secret", "token\n");
    Vars::new()
}

denials! {
    state_is_not_shown {
        attempt: &["list", "{place}state/pinfold"], refused: HELD,
        off: Off::Succeeds(&["mounts", "landlock", "masks"]),
    }
    state_is_not_written {
        attempt: &["create", "{place}state/pinfold/planted", "x"], refused: HELD,
        off: Off::Succeeds(&["mounts", "landlock", "masks"]),
    }
}

#[test]
fn state_that_lies_in_the_workspace_is_masked() {
    each(case!("masked"), |place| {
        state_in_the_workspace(place);
        let state = place.workspace("state");
        let run = || place.run().variable("XDG_STATE_HOME", &state);
        let attempts: &[&[&str]] = &[
            &["list", "/workspace/state/pinfold"],
            &["read", "/workspace/state/pinfold/secret"],
            &["create", "/workspace/state/pinfold/planted", "x"],
            &["rename", "/workspace/state/pinfold", "/workspace/state/moved"],
            &["rename", "/workspace/state", "/workspace/moved"],
            &["write", "/workspace/control", "written"],
        ];
        let (answers, _) = run().attempt(attempts);
        for (answer, attempt) in answers[..5].iter().zip(attempts) {
            assert!(!answer.is_ok(), "{attempt:?} was {answer}");
        }
        assert!(answers[5].is_ok(), "{}", answers[5]);
        assert_eq!(place.read("workspace/state/pinfold/secret"), "token\n");
        let open = run().without(&["masks"]).probe(&["read", "/workspace/state/pinfold/secret"]);
        assert!(open.is_ok(), "the mask is not what holds it: {open}");
    });
}

/// Not even when a policy of the owner's asks for it by name.
#[test]
fn state_cannot_be_asked_for() {
    each(case!("asked"), |place| {
        for name in ["state", "config", "run", "etc"] {
            let path = place.path(name);
            // The first run makes what is not there yet.
            place.run().shell("true").ok();
            place.mkdir(format!("{name}/pinfold"));
            let zone = format!("asked={}:rw", path.display());
            let done = place.run().options(["--zone", &zone]).command(["ls", "/asked/pinfold"]);
            assert_ne!(done.status, Some(0), "{name} can be read: {done:?}");
            let own = format!("asked={}:rw", path.join("pinfold").display());
            let done = place.run().options(["--zone", &own]).command(["ls", "/asked"]);
            assert_ne!(done.status, Some(0), "{name}/pinfold can be read: {done:?}");
        }
    });
}

/// A policy in the workspace that asks for more than is in force.
#[test]
fn a_policy_of_the_workspace_cannot_widen() {
    each(case!("widen"), |place| {
        let canary = place.canary("outside/canary");
        let outside = place.path("outside").display().to_string();
        let policies = [
            format!("version: 1\nfs:\n  allowedReadPaths: [\"{outside}\"]\n"),
            format!("version: 1\nfs:\n  allowedWritePaths: [\"{outside}\"]\n"),
            format!(
                "version: 1\nsandbox:\n  zones:\n    - {{name: out, mode: rw, hostPath: \"{outside}\"}}\n"
            ),
            "version: 1\nfs:\n  workspace: rw\n".to_owned(),
            "version: 1\nnet:\n  enabled: true\n".to_owned(),
            "version: 1\nsecurity:\n  noNewPrivileges: false\n  dropCapabilities: false\n".to_owned(),
            "version: 1\nsecurity:\n  seccompProfile: debug\n".to_owned(),
            "version: 1\nproc:\n  maxProcesses: 100000\n".to_owned(),
            "version: 1\nrequirements:\n  files.outside: best_effort\n".to_owned(),
            "version: 1\nenv:\n  pass: [SECRET]\n".to_owned(),
        ];
        for policy in policies {
            place.write("workspace/sandbox.policy.yaml", &policy);
            let run = place.run().variable("SECRET", "of the caller");
            let script = format!(
                "cat {outside}/canary /out/canary; echo x >{outside}/canary; echo x >/out/canary; env; \
                    ulimit -u"
            );
            let done = run.shell(&script);
            if done.status == Some(125) {
                assert!(!done.refused().is_empty());
                continue;
            }
            assert!(!done.stdout().contains(canary.secret()), "{policy} shows the outside");
            assert!(!done.stdout().contains("of the caller"), "{policy} passes a variable");
            assert!(!done.stdout().contains("100000"), "{policy} raises a limit");
            let privileges = run.probe(&["privileges"]);
            let text = privileges.to_string();
            assert!(
                !text.contains("\"NoNewPrivs\":\"0\"") && !text.contains("\"Seccomp\":\"0\""),
                "{policy}: {text}"
            );
            assert!(!run.probe(&["trace-child"]).is_ok(), "{policy} allows tracing");
            canary.assert_unchanged();
        }
        // And the workspace's own policy is heeded where it narrows.
        place.write("workspace/sandbox.policy.yaml", "version: 1\nfs:\n  deny: [control]\n");
        assert!(place.run().probe(&["read", "/workspace/control"]).is_refused(&["EACCES"]));
    });
}
