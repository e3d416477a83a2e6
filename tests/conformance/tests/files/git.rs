//! Repositories made inside and used on the host (classes 7, 9): they work, and nothing that was put into
//! them runs.

use pinfold_conformance::live::Live;
use pinfold_conformance::{Place, case, each};

use crate::payload::{everyday, payload};

/// Settings by which git runs a program, and what else it takes to make it do so. The value `{payload}` is a
/// script.
const SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "{payload}"),
    ("core.hooksPath", "{hooks}"),
    ("core.pager", "{payload}"),
    ("core.editor", "{payload}"),
    ("core.sshCommand", "{payload}"),
    ("core.askPass", "{payload}"),
    ("core.gitProxy", "{payload}"),
    ("core.alternateRefsCommand", "{payload}"),
    ("pager.status", "{payload}"),
    ("pager.log", "{payload}"),
    ("diff.external", "{payload}"),
    ("diff.all.textconv", "{payload}"),
    ("diff.all.command", "{payload}"),
    ("merge.all.driver", "{payload}"),
    ("filter.all.clean", "{payload}"),
    ("filter.all.smudge", "{payload}"),
    ("filter.all.process", "{payload}"),
    ("gpg.program", "{payload}"),
    ("credential.helper", "{payload}"),
    ("alias.status", "!{payload}"),
    ("include.path", "{include}"),
    ("includeIf.gitdir:/.path", "{include}"),
    ("remote.origin.uploadpack", "{payload}"),
    ("uploadpack.packObjectsHook", "{payload}"),
    ("interactive.diffFilter", "{payload}"),
    ("trailer.x.command", "{payload}"),
    ("sendemail.smtpServer", "{payload}"),
    ("core.worktree", "{evil}"),
];

fn value(place: &Place, pattern: &str) -> String {
    let at = |name: &str| place.workspace(name).display().to_string();
    let filled = pattern.replace("{payload}", &at("payload")).replace("{hooks}", &at("hooks"));
    filled.replace("{include}", &at("include")).replace("{evil}", &at("evil"))
}

/// A script that makes a repository with such a setting, in `sh`.
fn plant(repository: &str, key: &str, value: &str) -> String {
    format!(
        r"set -e
        git init -q {repository}
        cd {repository}
        echo text >file
        echo '* filter=all diff=all merge=all' >.gitattributes
        git add -A
        git -c user.name=A -c user.email=a@example.org commit -qm first
        git config '{key}' '{value}'"
    )
}

#[test]
fn settings_that_run_programs_are_taken_out() {
    each(case!("settings"), |place| {
        payload(place);
        for (index, (key, pattern)) in SETTINGS.iter().enumerate() {
            let name = format!("made-{index}");
            let done = place.run().shell(&plant(&name, key, &value(place, pattern)));
            assert_eq!(done.status, Some(0), "{key}: the repository could not be made: {done:?}");
            everyday(place, &format!("workspace/{name}"));
            assert!(!place.exists("outside/ran"), "{key} = {pattern} ran on the host");
            let dangerous = place.read(format!("workspace/{name}/.git/config")).contains("payload");
            assert!(!dangerous, "{key} is still set");
            assert!(!done.violations("files.protected").is_empty(), "{key} was taken out and nobody told");
        }
    });
}

/// The same payloads do run where nothing keeps them from it; or the case above would prove nothing.
#[test]
fn the_payloads_work() {
    each(case!("payload"), |place| {
        payload(place);
        for (index, key) in
            ["core.fsmonitor", "core.hooksPath", "filter.all.clean", "include.path"].iter().enumerate()
        {
            let pattern = SETTINGS.iter().find(|(known, _)| known == key).expect("a known setting").1;
            let name = format!("made-{index}");
            place.host_output("sh", &["-c", &plant(&name, key, &value(place, pattern))]);
            everyday(place, &format!("workspace/{name}"));
            assert!(place.exists("outside/ran"), "{key} does not run anything");
            std::fs::remove_file(place.path("outside/ran")).expect("remove the mark");
        }
    });
}

#[test]
fn hooks_are_taken_out_and_samples_stay() {
    each(case!("hooks"), |place| {
        payload(place);
        let script = r"set -e
            git init -q made
            cp hooks/pre-commit made/.git/hooks/
            ln -s /workspace/payload made/.git/hooks/post-commit
            touch made/.git/hooks/own.sample
            git clone -q made copy 2>/dev/null
            cp payload copy/.git/hooks/post-checkout";
        let done = place.run().shell(script).ok();
        for hook in
            ["made/.git/hooks/pre-commit", "made/.git/hooks/post-commit", "copy/.git/hooks/post-checkout"]
        {
            assert!(!place.exists(format!("workspace/{hook}")), "{hook} is left for the host");
        }
        assert!(place.exists("workspace/made/.git/hooks/own.sample"), "a sample was taken");
        assert!(!done.violations("files.protected").is_empty(), "taken out and nobody told: {done:?}");
        everyday(place, "workspace/made");
        assert!(!place.exists("outside/ran"));
    });
}

#[test]
fn a_repository_made_inside_works_on_the_host() {
    each(case!("usable"), |place| {
        let script = r"set -e
            git init -q made
            cd made
            echo text >file
            git add file
            git -c user.name=A -c user.email=a@example.org commit -qm first
            cd ..
            git clone -q made copy";
        let done = place.run().shell(script).ok();
        assert_eq!(
            done.violations("files.protected"),
            Vec::<&str>::new(),
            "an ordinary repository was found fault with"
        );
        for name in ["made", "copy"] {
            let path = place.workspace(name).display().to_string();
            assert_eq!(place.host_output("git", &["-C", &path, "status", "--porcelain"]), "");
            assert!(place.host_output("git", &["-C", &path, "log", "--oneline"]).contains("first"));
        }
    });
}

/// The root of the workspace becomes a repository inside: its names are held from the next run on, and judged
/// before.
#[test]
fn init_of_the_workspace_itself() {
    each(case!("init-root"), |place| {
        let path = payload(place);
        let done = place.run().shell(&format!("git init -q . && git config core.fsmonitor {path}")).ok();
        assert!(!done.violations("files.protected").is_empty(), "{done:?}");
        everyday(place, "workspace");
        assert!(!place.exists("outside/ran"));
        let answer = place.run().probe(&["append", "/workspace/.git/config", "[core]\n\tfsmonitor = x\n"]);
        assert!(!answer.is_ok(), "the next run does not hold it: {answer}");
    });
}

/// `git config` on the host replaces the file, and with it the mount inside is gone (mount_namespaces(7)).
#[test]
fn git_config_on_the_host_does_not_open_it_inside() {
    each(case!("host-config"), |place| {
        let path = payload(place);
        place.host_output("git", &["init", "-q", "."]);
        let mut live = Live::start(place.run().prepare(&[], ["sh"]));
        live.say("echo ready");
        assert_eq!(live.line(), "ready");
        place.host_output("git", &["config", "user.name", "A"]);
        live.say(&format!(
            "i=0; while [ $i -lt 200 ]; do ( printf '[core]\\n\\tfsmonitor = {path}\\n' >>.git/config ) \
                2>/dev/null; i=$((i+1)); done"
        ));
        live.hang_up();
        live.wait();
        let config = place.read("workspace/.git/config");
        assert!(!config.contains("fsmonitor"), "written from inside, and left for the host: {config}");
        assert!(config.contains("name = A"), "what the host wrote is lost: {config}");
        everyday(place, "workspace");
        assert!(!place.exists("outside/ran"), "ran on the host");
    });
}
