//! A payload that must never run on the host, and what a person does on the host that would run it.

use pinfold_conformance::Place;

/// What a person does in a repository without thinking.
const EVERYDAY: &[&[&str]] = &[
    &["status"],
    &["diff"],
    &["add", "-A"],
    &["diff", "--cached"],
    &["-c", "commit.gpgSign=false", "commit", "-qm", "everyday"],
    &["log", "-p"],
    &["checkout", "-q", "-b", "other"],
    &["stash", "list"],
    &["gc", "-q"],
];

/// The script that must never run on the host, in the workspace as on the host.
pub(crate) fn payload(place: &Place) -> String {
    let mark = place.path("outside/ran");
    place.script("workspace/payload", &format!("#!/bin/sh\necho ran >>{}\ncat\n", mark.display()));
    for hook in ["pre-commit", "post-checkout", "post-index-change", "commit-msg"] {
        place.script(
            format!("workspace/hooks/{hook}"),
            &format!("#!/bin/sh\necho ran >>{}\n", mark.display()),
        );
    }
    let path = place.workspace("payload").display().to_string();
    place.write("workspace/include", format!("[core]\n\tfsmonitor = {path}\n"));
    path
}

/// Uses the repository on the host as a person would. What git says of it is of no interest here.
pub(crate) fn everyday(place: &Place, repository: &str) {
    place.write(format!("{repository}/file"), "changed\n");
    for arguments in EVERYDAY {
        let output = place
            .host("git")
            .args(["-C", &place.path(repository).display().to_string()])
            .args(*arguments)
            .env("GIT_AUTHOR_NAME", "A")
            .env("GIT_AUTHOR_EMAIL", "a@example.org")
            .env("GIT_COMMITTER_NAME", "A")
            .env("GIT_COMMITTER_EMAIL", "a@example.org")
            .output();
        assert!(output.is_ok(), "git cannot be started");
    }
}
