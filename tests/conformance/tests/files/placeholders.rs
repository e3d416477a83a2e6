//! Placeholders (class 9): names that are absent stay so whoever else uses the workspace, whatever the host
//! does meanwhile, and however the supervisor ends; and nothing of them is left.

use std::fs;
use std::os::unix::fs::FileTypeExt;

use pinfold_conformance::host::{SOON, processes, until};
use pinfold_conformance::live::Live;
use pinfold_conformance::{Place, case, each};
use rustix::process::Signal;

/// The names in the workspace's root that are no file of the test's.
fn left(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.path("workspace")).expect("read the workspace").flatten();
    entries
        .filter(|entry| {
            entry.file_type().is_ok_and(|kind| kind.is_socket()) || entry.file_name() == ".bashrc"
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// A sandbox that does what it is told, line by line.
fn shell(place: &Place) -> Live {
    let mut live = Live::start(place.run().prepare(&[], ["sh"]));
    live.say("echo ready");
    assert_eq!(live.line(), "ready");
    live
}

/// Whether the sandbox can make a file under this name, in its own words.
fn makes(live: &mut Live, name: &str) -> String {
    live.say(&format!("if ( echo x >{name} ) 2>/dev/null; then echo made; else echo refused; fi"));
    live.line()
}

#[test]
fn with_two_sandboxes_and_one_gone_names_are_still_held() {
    each(case!("two"), |place| {
        let (mut first, mut second) = (shell(place), shell(place));
        assert_eq!(makes(&mut first, ".bashrc"), "refused");
        first.hang_up();
        assert!(first.wait().0.success());
        assert_eq!(makes(&mut second, ".bashrc"), "refused");
        assert_eq!(makes(&mut second, ".mcp.json"), "refused");
        assert_eq!(makes(&mut second, "ordinary"), "made");
        // A third one that comes and goes changes nothing either.
        place.run().shell("true").ok();
        assert_eq!(makes(&mut second, ".vscode"), "refused");
        second.hang_up();
        assert!(second.wait().0.success());
        assert_eq!(left(place), Vec::<String>::new());
    });
}

#[test]
fn a_supervisor_that_is_killed_leaves_what_the_next_run_removes() {
    each(case!("killed"), |place| {
        let mut live = shell(place);
        assert_eq!(makes(&mut live, ".bashrc"), "refused");
        live.signal(Signal::KILL);
        let (status, _) = live.wait();
        assert!(!status.success());
        let mark = format!("{}/bin/pinfold", place.name());
        assert!(until(SOON, || processes(&mark).is_empty()), "the sandbox lives on: {:?}", processes(&mark));
        place.run().shell("true").ok();
        assert_eq!(left(place), Vec::<String>::new());
        let answer = place.run().probe(&["create", "/workspace/.bashrc", "x"]);
        assert!(!answer.is_ok(), "{answer}");
    });
}

/// While a sandbox runs, the owner makes a protected file, and with that takes the cover away for a moment.
/// What may have been written in that moment is not left for the host to obey: it is moved to quarantine, and
/// that is said.
#[test]
fn what_the_host_makes_meanwhile_is_not_obeyed_changed() {
    each(case!("host-makes"), |place| {
        let mut command = place.run().prepare(&[], ["sh"]);
        let words = fs::File::create(place.path("words")).expect("make a file");
        command.stderr(words);
        let mut live = Live::start(command);
        live.say("echo ready");
        assert_eq!(live.line(), "ready");
        place.write("outside/replacement", "of the host\n");
        fs::rename(place.path("outside/replacement"), place.workspace(".bashrc"))
            .expect("make a protected file");
        live.say("i=0; while [ $i -lt 100 ]; do ( echo evil >.bashrc ) 2>/dev/null; i=$((i+1)); done");
        live.hang_up();
        live.wait();
        let words = place.read("words");
        match fs::read_to_string(place.workspace(".bashrc")) {
            Ok(text) => {
                assert_eq!(text, "of the host\n", "changed from inside, and left for the host: {words}");
            }
            Err(_) => assert!(
                words.contains(".bashrc") && words.contains("quarantine"),
                "moved and nobody told: {words}"
            ),
        }
    });
}

/// The host replaces a protected file in one step, as editors and git do; a mount on the old one is lost by
/// that.
#[test]
fn a_protected_file_that_the_host_replaces_is_still_held() {
    each(case!("host-replaces"), |place| {
        place.write("workspace/.envrc", "first\n");
        let mut live = shell(place);
        assert_eq!(makes(&mut live, ".envrc"), "refused");
        place.write("workspace/replacement", "second\n");
        fs::rename(place.workspace("replacement"), place.workspace(".envrc")).expect("replace");
        // Tried again and again, as an attacker would: the wall has to notice, not the test.
        live.say(
            "i=0; while [ $i -lt 300 ]; do ( echo evil >.envrc ) 2>/dev/null; i=$((i+1)); done; echo tried",
        );
        live.hang_up();
        let (_, said) = live.wait();
        // The run may have been ended, or the cover restored; the host must not find what was written inside.
        let now = fs::read_to_string(place.workspace(".envrc")).unwrap_or_default();
        assert_ne!(now, "evil\n", "written from inside, and left for the host (inside said {said:?})");
    });
}

#[test]
fn git_on_the_host_sees_no_placeholder() {
    each(case!("git-status"), |place| {
        place.host_output("git", &["init", "-q", "."]);
        place.host_output("git", &["add", "control"]);
        let mut live = shell(place);
        let status = place.host_output("git", &["status", "--porcelain"]);
        assert_eq!(status.trim(), "A  control", "git on the host sees more during a run");
        live.say("git status --porcelain");
        assert_eq!(live.line(), "A  control", "git inside sees more");
        live.hang_up();
        live.wait();
        assert_eq!(left(place), Vec::<String>::new());
    });
}
