//! Ways around the look at the end: a repository hidden from it, one that stops it, and files that are no hooks and
//! no configuration and are obeyed all the same.

use std::fs;
use std::os::unix::fs::MetadataExt;

use pinfold_core::path::AbsPath;
use pinfold_linux::survey::{EndReport, With};

use super::inside::{Workspace, with};
use super::placeholders::crasher_of as crasher;

/// `mk directory`: a git directory that runs a program at every `git status`.
const MK: &str = r#"mk() { mkdir -p "$1/objects" "$1/refs" "$1/hooks"; echo 'ref: refs/heads/main' > "$1/HEAD"
    printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = "echo PWNED >&2; false"\n' > "$1/config"; }
"#;

/// Runs `made` inside a workspace that is a repository; then git on the host, in `at`, must run the program before
/// the look at the end, and must not after it.
fn judged(made: &str, at: &str) -> (Workspace, EndReport) {
    let workspace = Workspace::new();
    workspace.host("git init -q .");
    workspace.settle();
    let survey = workspace.take();
    let out = workspace.inside(&survey.covers, &format!("{MK}{made}"));
    let git = format!("cd {at} && git status 2>&1");
    let seen = workspace.host(&git);
    assert!(seen.contains("PWNED"), "the attack does not work: {made}: {out} {seen}");
    let report = survey.finish().unwrap();
    let seen = workspace.host(&git);
    assert!(!seen.contains("PWNED"), "{made}: {seen}\n{report:#?}");
    (workspace, report)
}

#[test]
fn a_git_file_of_any_size_and_spelling_is_followed() {
    for made in [
        "mk .git/objects/e; mkdir s; (echo 'gitdir: ../.git/objects/e'; yes '' | head -5000) > s/.git",
        "mk .git/objects/e; mkdir s; echo 'gitdir: ../.git/objects/e' > s/foo; ln -s foo s/.git",
        "mk '.git/objects/e '; mkdir s; printf 'gitdir: ../.git/objects/e \\n' > s/.git",
        "mk .git/objects/e; mkdir s; printf 'gitdir: ../.git/objects/e\\0 more' > s/.git",
        "mk .git/objects/e; mkdir s; printf 'gitdir: ../.git/objects/e' > s/.git",
        "mk .git/objects/aa/e; mkdir s; ln -s ../.git/objects/aa/e s/.git",
        "mk .git/refs/heads/s/.git; ln -s .git/refs/heads/s s",
        "mk .git/logs/s/.git; ln -s .git/logs/s s",
    ] {
        judged(made, "s");
    }
}

#[test]
fn a_git_file_that_cannot_be_read_or_understood_is_taken() {
    let workspace = Workspace::new();
    let survey = workspace.take();
    workspace.inside(
        &survey.covers,
        "mkdir a b c; echo 'what: x' > a/.git; head -c 2000000 /dev/zero > b/.git; echo 'gitdir: x' > c/.git; chmod 0 c/.git",
    );
    let report = survey.finish().unwrap();
    let closed = if rustix::process::geteuid().is_root() { 0 } else { 1 };
    assert_eq!(report.quarantined.len(), 2 + closed, "{report:#?}");
}

#[test]
fn a_link_on_the_way_that_is_changed_counts_as_a_change() {
    let workspace = Workspace::new();
    workspace.host(&format!("{MK}mkdir -p a/b/c/d; mk a/b/c/d/x; mkdir a/b/c/s; ln -s ../y a/b/c/s/.git"));
    workspace.settle();
    let survey = workspace.take();
    workspace.inside(&survey.covers, "ln -s d/x a/b/c/y");
    let git = "cd a/b/c/s && git status 2>&1";
    // In a copy: git itself changes the directory it works with.
    assert!(workspace.host(&format!("cp -a . ../copy && cd ../copy && {git}")).contains("PWNED"));
    let report = survey.finish().unwrap();
    assert!(!workspace.host(git).contains("PWNED"), "{report:#?}");
}

#[test]
fn a_closed_directory_is_opened_and_looked_into() {
    if rustix::process::geteuid().is_root() {
        return; // nothing is closed to root
    }
    for made in [
        "mkdir s; mk s/in/.git; chmod 0311 s",
        "mkdir s; mk s/in/.git; chmod 0311 s s/in",
        "mkdir s; mk s/in/.git; chmod 0111 s/in/.git/hooks s/in/.git",
    ] {
        let (workspace, report) = judged(made, "s/in");
        assert!(report.failures.is_empty(), "{report:#?}");
        assert!(report.opened.iter().any(|path| path.starts_with(workspace.path("s"))), "{report:#?}");
    }
    // Closed to everyone for now: the host's owner would open it again.
    let workspace = Workspace::new();
    let survey = workspace.take();
    workspace.inside(
        &survey.covers,
        &format!("{MK}mkdir s; mk s/in/.git; chmod 0 s/in/.git/config; chmod 0444 s/in; chmod 0 s"),
    );
    let report = survey.finish().unwrap();
    let seen = workspace.host("chmod -R u+rwX s; cd s/in && git status 2>&1");
    assert!(!seen.contains("PWNED"), "{report:#?}");
}

#[test]
fn a_directory_the_host_closed_is_closed_again() {
    if rustix::process::geteuid().is_root() {
        return; // nothing is closed to root
    }
    let workspace = Workspace::new();
    workspace.host("mkdir -p a/closed; chmod 0311 a/closed");
    workspace.settle();
    let report = workspace.take().finish().unwrap();
    assert_eq!(fs::metadata(workspace.path("a/closed")).unwrap().mode() & 0o777, 0o311);
    assert!(report.opened.is_empty() && report.unchecked.is_empty(), "{report:#?}");
}

#[test]
fn why_something_could_not_be_read_is_told() {
    if rustix::process::geteuid().is_root() {
        return; // nothing is closed to root
    }
    let workspace = Workspace::new();
    let survey = workspace.take();
    workspace.inside(
        &survey.covers,
        &format!("{MK}mk r/.git; mkdir r/.git/rebase-merge; cd r/.git; echo pick > rebase-merge/git-rebase-todo; chmod 0 config rebase-merge/*"),
    );
    let report = survey.finish().unwrap();
    for name in ["config", "git-rebase-todo"] {
        let told =
            report.findings().find(|line| line.split(' ').next().is_some_and(|path| path.ends_with(name)));
        assert!(told.as_ref().is_some_and(|line| line.contains("ermission denied")), "{name}: {told:?}");
    }
}

#[test]
fn one_bad_repository_does_not_save_the_others() {
    let workspace = Workspace::new();
    let survey = workspace.take();
    workspace.inside(
        &survey.covers,
        &format!(
            "{MK}for i in 1 2 3; do mk v$i/.git; done; for i in 1 2 3; do mk z$i/.git; chmod 0111 z$i/.git/hooks; done
             mk y1/.git; chmod 0 y1/.git/config; mk y2/.git; chmod 0 y2/.git; mk y3/.git; chmod 0555 y3/.git"
        ),
    );
    let report = survey.finish().unwrap();
    let seen = workspace.host("chmod -R u+rwX .; for i in v? z? y?; do (cd $i; git status); done 2>&1");
    assert!(!seen.contains("PWNED"), "{seen} {report:#?}");
    assert!(report.quarantined.len() >= 9, "{report:#?}");
}

#[test]
fn what_a_killed_run_left_is_judged_before_it_is_trusted() {
    let workspace = Workspace::new();
    workspace.host("git init -q . && git config alias.x '!true'");
    workspace.settle();
    let mut child = crasher(&workspace);
    workspace.host(&format!("{MK}mk n/.git; git commit -q --allow-empty -m x"));
    child.kill().unwrap();
    child.wait().unwrap();
    let git = "cd n && git status 2>&1";
    assert!(workspace.host(git).contains("PWNED"));
    let survey = workspace.take();
    let seen = workspace.host(git);
    assert!(!seen.contains("PWNED"), "{seen}");
    let report = survey.finish().unwrap();
    assert_eq!(report.quarantined.len(), 1, "said by the run that found it: {report:#?}");
    assert_eq!(workspace.host("git config alias.x"), "!true\n", "what was covered stays");
    // Looked at once is enough.
    assert!(workspace.take().finish().unwrap().quarantined.is_empty());
}

#[test]
fn two_runs_at_once_are_no_sign_of_a_killed_one() {
    let workspace = Workspace::new();
    let first = workspace.take();
    let second = workspace.take();
    workspace.host("git init -q n && cd n && git config alias.x '!true'");
    assert!(second.recovered.quarantined.is_empty());
    second.finish().unwrap();
    first.finish().unwrap();
    workspace.host("cd n && git config alias.x '!true'");
    workspace.take().finish().unwrap();
    assert_eq!(workspace.host("cd n; git config alias.x"), "!true\n");
}

#[test]
fn pinfolds_own_directories_cannot_be_made_inside() {
    for own in ["own", "deep/er/own"] {
        let attack = format!("mkdir -p {own} && echo CANARY > {own}/record");
        let open = Workspace::new();
        open.inside(&[], &attack);
        assert!(open.path(own).join("record").exists(), "no attack");
        let mut workspace = Workspace::new();
        workspace.files.own = vec![AbsPath::new(workspace.path(own)).unwrap()];
        let survey = workspace.take();
        assert_eq!(with(&survey.covers, own.split('/').next().unwrap()), Some(With::Absent));
        workspace.inside(&survey.covers, &attack);
        survey.finish().unwrap();
        assert!(fs::symlink_metadata(workspace.path(own.split('/').next().unwrap())).is_err());
    }
    // A file in the way cannot be replaced by a directory.
    let mut workspace = Workspace::new();
    workspace.write("deep", "file");
    workspace.files.own = vec![AbsPath::new(workspace.path("deep/own")).unwrap()];
    let survey = workspace.take();
    workspace.inside(&survey.covers, "rm -f deep; mkdir -p deep/own");
    survey.finish().unwrap();
    assert_eq!(fs::read_to_string(workspace.path("deep")).unwrap(), "file");
}

#[test]
fn placeholders_are_removed_whatever_mode_the_root_has() {
    if rustix::process::geteuid().is_root() {
        return; // nothing is closed to root
    }
    for mode in ["0555", "0000", "0111"] {
        let workspace = Workspace::new();
        workspace.host("git init -q . && mkdir -p a/.git");
        let survey = workspace.take();
        workspace.inside(&survey.covers, &format!("chmod {mode} .git/info a . "));
        let report = survey.finish().unwrap();
        assert!(report.failures.is_empty(), "{mode} {report:#?}");
        assert!(report.opened.contains(&workspace.root()), "{mode} {report:#?}");
        assert_eq!(workspace.host("find . -type s; find . -name attributes"), "", "{mode} {report:#?}");
    }
}

#[test]
fn protected_names_of_a_repository_made_inside_are_taken() {
    let workspace = Workspace::new();
    workspace.host("git init -q old; cd old; echo mine > .envrc; mkdir .vscode; echo mine > .vscode/x");
    workspace.settle();
    let survey = workspace.take();
    workspace.inside(
        &survey.covers,
        "git init -q n; cd n; echo CANARY > .envrc; mkdir -p .config/fish; echo CANARY > .config/fish/x; echo fine > file",
    );
    let report = survey.finish().unwrap();
    assert_eq!(report.quarantined.len(), 2, "{report:#?}");
    assert_eq!(
        workspace.host("cat n/.envrc n/.config/fish/x 2>/dev/null; cat n/file old/.envrc"),
        "fine\nmine\n"
    );
}

#[test]
fn a_command_planted_in_an_unfinished_rebase_is_taken() {
    let todo = ".git/rebase-merge/git-rebase-todo";
    for made in [
        format!("mkdir .git/rebase-merge; echo 'exec touch PWNED' > {todo}"),
        format!("mkdir .git/rebase-merge; printf 'pick 123 x\\n \\tx\\ttouch PWNED' > {todo}"),
        format!("mkdir .git/rebase-merge; echo 'exec touch PWNED' > f; ln -s ../../f {todo}"),
        "mkdir .git/sequencer; echo 'exec touch PWNED' > .git/sequencer/todo".to_owned(),
    ] {
        let workspace = Workspace::new();
        workspace.host("git init -q .");
        let survey = workspace.take();
        workspace.inside(&survey.covers, &made);
        let report = survey.finish().unwrap();
        assert_eq!(report.quarantined.len(), 1, "{made} {report:#?}");
    }
    let workspace = Workspace::new();
    workspace.host("git init -q .");
    let survey = workspace.take();
    workspace.inside(&survey.covers, &format!("mkdir .git/rebase-merge; echo 'pick 123 exec x' > {todo}"));
    assert!(survey.finish().unwrap().quarantined.is_empty());
}

/// A repository at the end of a long chain of directories, as an earlier run could have left it.
fn deep_repository(levels: usize) -> (Workspace, String) {
    let workspace = Workspace::new();
    let deep = vec!["d"; levels].join("/");
    workspace.host(&format!("mkdir -p {deep}; cd {deep}; git init -q ."));
    workspace.settle();
    // Far from the root it is known from the second start on.
    workspace.take().finish().unwrap();
    (workspace, deep)
}

#[test]
fn a_repository_hundreds_of_levels_deep_does_not_hold_the_next_start_up() {
    let (workspace, deep) = deep_repository(400);
    let began = std::time::Instant::now();
    let survey = workspace.take();
    let took = began.elapsed();
    assert_eq!(with(&survey.covers, format!("{deep}/.git/config")), Some(With::Itself), "not known");
    let pinned = survey.covers.iter().filter(|cover| cover.with == With::Pinned).count();
    assert!(pinned < 60, "{pinned} directories are pinned");
    // Some 20 ms; without a bound, 5 s.
    assert!(took < std::time::Duration::from_secs(1), "{took:?}");
    let said = survey.left_open();
    assert!(said.iter().any(|(_, text)| text.contains("levels")), "{said:?}");
    survey.finish().unwrap();
}

#[test]
fn what_takes_the_place_of_a_repository_too_deep_to_be_pinned_is_judged() {
    let (workspace, deep) = deep_repository(60);
    let above = deep.strip_suffix("/d").unwrap();
    let survey = workspace.take();
    let out = workspace.inside(
        &survey.covers,
        &format!(
            "cd {above} && mv d away && git init -q d && cd d && git config core.fsmonitor 'echo PWNED >&2; true' && echo made"
        ),
    );
    assert!(out.contains("made"), "the attack does not work: {out}");
    let report = survey.finish().unwrap();
    let seen = workspace.host(&format!("cd {deep}; git status 2>&1"));
    assert!(!seen.contains("PWNED"), "{seen} {report:#?}");
    assert!(!report.quarantined.is_empty());
}

#[test]
fn a_repository_within_the_bound_cannot_be_moved() {
    let (workspace, deep) = deep_repository(20);
    let survey = workspace.take();
    assert!(survey.left.iter().all(|left| !left.to_string().contains("levels")), "{:?}", survey.left);
    // Across mounts mv(1) copies, and then cannot remove: what counts is what is left in place.
    let out = workspace.inside(&survey.covers, "mv d e; mv d/d/d/d d/x; mv d/d/d/d/d/d/d d/d/d/d/d/d/x");
    assert!(workspace.path(format!("{deep}/.git/config")).exists(), "{out}");
    assert!(!workspace.path("e").exists(), "{out}");
    survey.finish().unwrap();
}
