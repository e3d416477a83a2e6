//! A workspace made to trouble whoever looks at it: the look on the host, before and after a run, neither
//! waits nor fails open nor falls.

use std::process::Stdio;

use pinfold_conformance::live::Live;
use pinfold_conformance::{Place, case, each};

/// What is left in the workspace, in `bash`.
const TRAPS: &[(&str, &str)] = &[
    ("a configuration that never ends", "git init -q x; rm x/.git/config; mkfifo x/.git/config"),
    ("hooks that are a pipe", "git init -q x; rm -rf x/.git/hooks; mkfifo x/.git/hooks"),
    ("a hook that is a pipe", "git init -q x; mkfifo x/.git/hooks/pre-commit"),
    ("a head that is a pipe", "git init -q x; rm x/.git/HEAD; mkfifo x/.git/HEAD"),
    ("a pointer that is a pipe", "mkdir x; mkfifo x/.git"),
    ("a common directory that is a pipe", "git init -q x; mkfifo x/.git/commondir"),
    ("a configuration that is endless", "git init -q x; ln -sf /dev/zero x/.git/config"),
    ("a configuration of a gigabyte", "git init -q x; truncate -s 1G x/.git/config"),
    ("a pointer of a gigabyte", "mkdir x; truncate -s 1G x/.git"),
    ("a pointer to itself", "mkdir x; echo 'gitdir: .git' >x/.git"),
    ("pointers in a circle", "mkdir x y; echo 'gitdir: ../y/.git' >x/.git; echo 'gitdir: ../x/.git' >y/.git"),
    ("links in a circle", "mkdir x; ln -s b x/a; ln -s a x/b; ln -s a x/.git"),
    ("a common directory in a circle", "git init -q x; echo . >x/.git/commondir; echo .. >x/.git/commondir"),
    ("modules in a circle", "git init -q x; mkdir -p x/.git/modules; ln -s ../.. x/.git/modules/m"),
    (
        "names beyond what one call takes",
        "n=$(printf 'n%.0s' $(seq 200)); for i in $(seq 30); do mkdir $n && cd $n; done; mkdir -p \
            .git/hooks; : >.git/hooks/pre-commit",
    ),
    ("five thousand hooks", "git init -q x; cd x/.git/hooks; for i in $(seq 5000); do : >h$i; done"),
    ("a directory that nobody may read", "mkdir x; git init -q x/y; chmod 000 x"),
    ("a configuration that nobody may read", "git init -q x; chmod 000 x/.git/config"),
    ("hooks that nobody may read", "git init -q x; : >x/.git/hooks/pre-commit; chmod 000 x/.git/hooks"),
    (
        "names that are no text",
        "git init -q $'x\\xff\\n\\e[31m'; : >$'x\\xff\\n\\e[31m/.git/hooks/pre-commit'",
    ),
    (
        "sockets under such names",
        "mkdir -p x/.git; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('x/.git/config')\"",
    ),
    ("three hundred levels", "for i in $(seq 300); do mkdir d && cd d; done; git init -q x"),
];

/// Runs to the end of pinfold, with a deadline; gives its words, or what is wrong.
fn end(place: &Place, command: &[&str]) -> Result<String, String> {
    let mut prepared = place.run().options(["--profile", "build"]).prepare(&[], command);
    let words = place.path("words");
    prepared.stderr(Stdio::from(std::fs::File::create(&words).expect("make a file")));
    let mut live = Live::start(prepared);
    live.hang_up();
    let ended = live.wait_for_end();
    let words = place.read("words");
    match ended.map(|status| status.code()) {
        None => Err("does not end".to_owned()),
        // Refused with a reason is an answer too.
        Some(Some(125)) if words.contains("PF-") => Ok(words),
        Some(Some(0)) if !words.contains('\u{1b}') => Ok(words),
        Some(code) => Err(format!("{code:?}: {words:?}")),
    }
}

#[test]
fn traps_do_not_catch_the_host() {
    each(case!("traps"), |like| {
        let mut caught = Vec::new();
        for (what, script) in TRAPS {
            let place = Place::new(like.backend, like.caller);
            let ends = end(&place, &["bash", "-c", script]).and_then(|_| end(&place, &["true"]));
            caught.extend(ends.err().map(|wrong| format!("{what}: {wrong}")));
            // What nobody may read must not keep the place from being removed.
            place.host("chmod").args(["-R", "u+rwx", "."]).output().map(drop).unwrap_or_default();
        }
        assert!(caught.is_empty(), "{}", caught.join("\n"));
    });
}

/// A policy in the workspace that is no file, or one without an end.
#[test]
fn a_policy_that_is_a_trap() {
    each(case!("policy"), |like| {
        for (what, script) in [
            ("a pipe", "mkfifo sandbox.policy.yaml"),
            ("a directory", "mkdir sandbox.policy.yaml"),
            ("endless", "ln -s /dev/zero sandbox.policy.yaml"),
            ("a gigabyte", "truncate -s 1G sandbox.policy.yaml"),
            ("a link to itself", "ln -s sandbox.policy.yaml sandbox.policy.yaml"),
            ("a link to a secret", "ln -s ../outside/canary sandbox.policy.yaml"),
            (
                "nested without end",
                "printf 'version: 1\\nfs: '; head -c 100000 /dev/zero | tr '\\0' '[' >sandbox.policy.yaml",
            ),
        ] {
            let place = Place::new(like.backend, like.caller);
            let canary = place.canary("outside/canary");
            place.host_output("bash", &["-c", script]);
            let words = end(&place, &["true"]).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
            assert!(!words.contains(canary.secret()), "{what}: the secret is told: {words}");
        }
    });
}
