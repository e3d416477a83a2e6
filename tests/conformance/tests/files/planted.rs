//! Repositories in disguise (classes 6, 7): whatever inside looks like a git directory to git on the host is
//! judged, by whatever name it is reached and however its configuration is spelt.

use pinfold_conformance::{Place, case, each};

use crate::payload::{everyday, payload};

/// What is planted, in `sh` with `$payload` set; and the directory, below the workspace, that a person then
/// uses.
const PLANTED: &[(&str, &str, &str)] = &[
    ("a bare repository among files", "bare dir/evil; set_payload dir/evil/config", "dir/evil"),
    ("a bare repository in the workspace's root", "bare .; set_payload config", "."),
    (
        "a git file that leads to a store",
        "bare store; mkdir x; echo 'gitdir: ../store' >x/.git; set_payload store/config",
        "x",
    ),
    (
        "a git file with an absolute path",
        "bare store; mkdir x; echo \"gitdir: $host/store\" >x/.git; set_payload store/config",
        "x",
    ),
    (
        "a link that leads to a store",
        "bare store; mkdir x; ln -s ../store x/.git; set_payload store/config",
        "x",
    ),
    (
        "a link to a link",
        "bare store; ln -s store one; mkdir x; ln -s ../one x/.git; set_payload store/config",
        "x",
    ),
    (
        "a common directory elsewhere",
        "bare store; set_payload store/config; git init -q x; echo ../../store >x/.git/commondir",
        "x",
    ),
    (
        "settings of a work tree",
        "git init -q x; git -C x config extensions.worktreeConfig true; set_payload x/.git/config.worktree",
        "x",
    ),
    (
        "an included file",
        "git init -q x; set_payload inc; printf '[include]\\n\\tpath = ../../inc\\n' >>x/.git/config",
        "x",
    ),
    (
        "an included file by a condition",
        "git init -q x; set_payload inc; printf '[includeIf \"onbranch:**\"]\\n\\tpath = ../../inc\\n' \
            >>x/.git/config",
        "x",
    ),
    (
        "capital letters",
        "git init -q x; printf '[CORE]\\n\\tFsMonitor = %s\\n' $payload >>x/.git/config",
        "x",
    ),
    ("one line", "git init -q x; printf '[core] fsmonitor = %s\\n' $payload >>x/.git/config", "x"),
    (
        "a continued line",
        "git init -q x; printf '[core]\\n\\tfsmonitor = \\\\\\n%s\\n' $payload >>x/.git/config",
        "x",
    ),
    ("quotes", "git init -q x; printf '[core]\\n\\tfsmonitor = \"%s\"\\n' $payload >>x/.git/config", "x"),
    (
        "carriage returns",
        "git init -q x; printf '[core]\\r\\n\\tfsmonitor = %s\\r\\n' $payload >>x/.git/config",
        "x",
    ),
    (
        "a byte-order mark",
        "git init -q x; { printf '\\357\\273\\277'; cat x/.git/config; } >c; set_payload c; mv c \
            x/.git/config",
        "x",
    ),
    (
        "a comment before it",
        "git init -q x; printf '[core] ; [user]\\n# [user]\\n\\tfsmonitor = %s # end\\n' $payload \
            >>x/.git/config",
        "x",
    ),
    (
        "a configuration that is a link",
        "git init -q x; cp x/.git/config c; set_payload c; ln -sf ../../c x/.git/config",
        "x",
    ),
    ("hooks that are a link", "git init -q x; rm -rf x/.git/hooks; ln -s ../../hooks x/.git/hooks", "x"),
    ("a hook that is a link", "git init -q x; ln -s ../../../payload x/.git/hooks/post-index-change", "x"),
    (
        "a hook that is a second name",
        "git init -q x; mkdir -p x/.git/hooks; ln hooks/pre-commit x/.git/hooks/pre-commit",
        "x",
    ),
    (
        "a submodule of a new repository",
        "git init -q x; bare x/.git/modules/sub; set_payload x/.git/modules/sub/config; mkdir x/sub; echo \
            'gitdir: ../.git/modules/sub' >x/sub/.git",
        "x/sub",
    ),
    (
        "a repository moved after it was made",
        "git init -q a; set_payload a/.git/config; mkdir -p deep/er; mv a deep/er/x",
        "deep/er/x",
    ),
    (
        "a repository renamed to its place",
        "git init -q a; set_payload a/.git/config; mkdir x; mv a/.git x/.tmp; mv x/.tmp x/.git",
        "x",
    ),
    (
        "far down",
        "d=$(printf 'd/%.0s' $(seq 60)); mkdir -p $d; git init -q $d/x; set_payload $d/x/.git/config; ln -s \
            $d/x near",
        "near",
    ),
];

/// Functions for the scripts above: a bare repository without a call of git, and the setting in its plainest
/// form.
const FUNCTIONS: &str = r#"
bare() { mkdir -p $1/objects $1/refs/heads; echo 'ref: refs/heads/main' >$1/HEAD; printf '[core]\n\tbare = false\n' >$1/config; }
set_payload() { printf '[core]\n\tfsmonitor = %s\n' "$payload" >>$1; }
set -e
"#;

fn plant(place: &Place, script: &str) -> String {
    let (payload, host) = (place.workspace("payload"), place.path("workspace"));
    format!("payload={} host={}\n{FUNCTIONS}\n{script}", payload.display(), host.display())
}

#[test]
fn nothing_that_was_planted_runs_on_the_host() {
    each(case!("planted"), |like| {
        let mut ran = Vec::new();
        for (what, script, used) in PLANTED {
            let place = Place::new(like.backend, like.caller);
            payload(&place);
            let done =
                place.run().options(["--processes", "32"]).command(["bash", "-c", &plant(&place, script)]);
            assert_eq!(done.status, Some(0), "{what} could not be planted: {done:?}");
            everyday(&place, &format!("workspace/{used}"));
            if place.exists("outside/ran") {
                ran.push(*what);
            }
        }
        assert!(ran.is_empty(), "ran on the host: {ran:?}");
    });
}

/// Planted on the host itself, where nobody judges, most of them do run: or the case above would prove
/// nothing.
#[test]
fn most_of_it_would_run() {
    each(case!("control"), |like| {
        let mut idle = Vec::new();
        for (what, script, used) in PLANTED {
            let place = Place::new(like.backend, like.caller);
            payload(&place);
            place.host_output("bash", &["-c", &plant(&place, script)]);
            everyday(&place, &format!("workspace/{used}"));
            if !place.exists("outside/ran") {
                idle.push(*what);
            }
        }
        assert!(idle.len() * 4 < PLANTED.len(), "hardly anything is a payload: {idle:?} are not");
    });
}

/// The same within a repository that was there from the start, whose own names are held.
#[test]
fn within_an_existing_repository() {
    each(case!("within"), |place| {
        payload(place);
        place.host_output("git", &["init", "-q", "."]);
        let script =
            "bare .git/modules/evil; set_payload .git/modules/evil/config; mkdir evil; echo x >evil/file
            echo 'gitdir: ../.git/modules/evil' >evil/.git";
        let done = place.run().options(["--processes", "32"]).command(["bash", "-c", &plant(place, script)]);
        everyday(place, "workspace/evil");
        everyday(place, "workspace");
        assert!(!place.exists("outside/ran"), "ran on the host: {done:?}");
    });
}

/// A repository in a writable zone that is not the workspace, under both of its names.
#[test]
fn in_another_zone() {
    each(case!("zone"), |place| {
        place.mkdir("store/project");
        let project = place.path("store/project").display().to_string();
        place.host_output("git", &["-C", &project, "init", "-q", "."]);
        let zone = format!("output={}:rw", place.path("store").display());
        let inner = format!("inner={project}:rw");
        let run = || place.run().options(["--zone", &zone, "--zone", &inner]);
        let (answers, _) = run().attempt(&[
            &["append", "/output/project/.git/config", "[core]\n\tfsmonitor = x\n"],
            &["create", "/output/project/.git/hooks/pre-commit", "x"],
            &["append", "/inner/.git/config", "[core]\n\tfsmonitor = x\n"],
            &["create", "/inner/.git/hooks/pre-commit", "x"],
            &["replace", "/inner/.git/config", "/inner/own", "x"],
            &["create", "/inner/new", "x"],
        ]);
        assert!(!answers[..5].iter().any(pinfold_conformance::Answer::is_ok), "{answers:?}");
        assert!(answers[5].is_ok(), "{answers:?}");
    });
}
