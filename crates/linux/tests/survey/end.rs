//! The look at the end: what was made inside cannot make the host run anything, and stays usable.

use std::fs;
use std::os::unix::fs::symlink;

use pinfold_linux::survey::{EndReport, How, With};

use super::inside::{Workspace, with};

const PAYLOAD: &str = "'echo PWNED >&2; true'";
const USE: &str = "for i in $(find . -name .git -prune -o -type d -print); do (cd $i; git status; git diff; git commit --allow-empty -qm x); done 2>&1";

/// Runs `made` inside, and looks at the end. The host must see PWNED before the look, and never after.
fn judged(workspace: &Workspace, made: &str) -> EndReport {
    let survey = workspace.take();
    let out = workspace.inside(&survey.covers, made);
    let seen = workspace.host(USE);
    assert!(seen.contains("PWNED"), "the attack does not work: {made}: {out} {seen}");
    let report = survey.finish().unwrap();
    let seen = workspace.host(USE);
    assert!(!seen.contains("PWNED"), "{made}: {seen}\n{report:#?}");
    assert!(!report.quarantined.is_empty());
    for moved in &report.quarantined {
        assert!(moved.to.starts_with(workspace.temp.path().join("state/quarantine")), "{moved:?}");
        assert!(moved.from.starts_with(workspace.root()) && moved.to.exists(), "{moved:?}");
    }
    report
}

#[test]
fn a_repository_made_inside_is_usable_and_left_alone() {
    let workspace = Workspace::new();
    let survey = workspace.take();
    workspace.inside(
        &survey.covers,
        "git init -q . && git config user.name a && git config user.email a@b && echo x > f && git add f && git commit -qm 1
         git clone -q . copy && git worktree add -q tree -b t && rm tree/.git",
    );
    let report = survey.finish().unwrap();
    assert!(report.quarantined.is_empty() && report.changed.is_empty(), "{report:#?}");
    let status = workspace.host("git status --porcelain; git log --format=%s; cd copy; git status --porcelain; git remote -v | wc -l; ls ../.git/hooks | grep -vc sample");
    assert_eq!(status, "?? copy/\n?? tree/\n1\n2\n0\n");
}

#[test]
fn what_the_host_would_run_is_taken_away() {
    let init = "git init -q n && cd n && git config user.name a && git config user.email a@b";
    for made in [
        format!("{init}; git config core.fsmonitor {PAYLOAD}"),
        format!("{init}; printf '#!/bin/sh\\necho PWNED' > .git/hooks/pre-commit; chmod +x .git/hooks/*"),
        format!(
            "{init}; mkdir h; printf '#!/bin/sh\\necho PWNED' > h/pre-commit; chmod +x h/*; git config core.hooksPath h"
        ),
        format!(
            "{init}; mkdir h; printf '#!/bin/sh\\necho PWNED' > h/pre-commit; chmod +x h/*; rm -rf .git/hooks; ln -s ../h .git/hooks"
        ),
        format!("{init}; git config -f ../x core.fsmonitor {PAYLOAD}; git config include.path ../../x"),
        format!(
            "{init}; git config extensions.worktreeConfig true; git config --worktree core.fsmonitor {PAYLOAD}"
        ),
        format!(
            "{init}; git config -f c core.fsmonitor {PAYLOAD}; cat .git/config >> c; rm .git/config; ln -s ../c .git/config"
        ),
        format!("{init}; mv .git g; echo gitdir: g > .git; git config core.fsmonitor {PAYLOAD}"),
        format!("{init}; mv .git ../g; ln -s ../g .git; git config core.fsmonitor {PAYLOAD}"),
        format!(
            "{init}; cp -r .git ../o; git --git-dir ../o config core.fsmonitor {PAYLOAD}; echo ../../o > .git/commondir"
        ),
        format!(
            "mkdir -p a/b/c/d/e/f/node_modules/g; cd a/b/c/d/e/f/node_modules/g; {init}; git config core.fsmonitor {PAYLOAD}"
        ),
        format!(
            "git init -q --bare b && cd b && git config core.bare false && git config core.worktree . && git config core.fsmonitor {PAYLOAD}"
        ),
    ] {
        judged(&Workspace::new(), &made);
    }
}

#[test]
fn the_harmless_part_of_a_configuration_stays() {
    let workspace = Workspace::new();
    let report = judged(
        &workspace,
        &format!(
            "git init -q n && cd n && git config user.name ann && git remote add origin https://example.org/x && git config core.fsmonitor {PAYLOAD}"
        ),
    );
    assert_eq!(report.quarantined.len(), 1);
    assert_eq!(report.quarantined[0].why, "git configuration: core.fsmonitor");
    assert_eq!(
        workspace.host("cd n; git config user.name; git remote get-url origin"),
        "ann\nhttps://example.org/x\n"
    );
}

#[test]
fn what_one_run_prepares_another_cannot_complete() {
    // No repository yet in the first run, and nothing written in the second: only a name is changed.
    let workspace = Workspace::new();
    let survey = workspace.take();
    workspace.inside(
        &survey.covers,
        &format!("git init -q n && cd n && git config user.name a && git config user.email a@b && git config core.fsmonitor {PAYLOAD} && mv .git/HEAD .git/H && mv .git x"),
    );
    assert!(survey.finish().unwrap().quarantined.is_empty());
    judged(&workspace, "cd n && mv x/H x/HEAD && mv x .git");
}

#[test]
fn a_repository_too_deep_to_be_covered_is_judged_only_if_touched_and_known_next_time() {
    let deep = "a/b/c/d/e/r";
    let build = || {
        let workspace = Workspace::new();
        workspace.host(&format!(
            "mkdir -p {deep}; cd {deep}; git init -q .; git config user.name a; git config user.email a@b
             printf '#!/bin/sh\\n' > .git/hooks/pre-push; chmod +x .git/hooks/pre-push"
        ));
        workspace.settle();
        workspace
    };
    let config = format!("{deep}/.git/config");
    let hook = format!("{deep}/.git/hooks/pre-push");

    let workspace = build();
    let survey = workspace.take();
    assert_eq!(with(&survey.covers, &config), None);
    assert!(survey.finish().unwrap().quarantined.is_empty());
    let survey = workspace.take();
    assert_eq!(with(&survey.covers, &config), Some(With::Itself), "known from the last look");
    assert!(survey.finish().unwrap().quarantined.is_empty() && workspace.path(&hook).exists());

    // Rewritten in place: neither its directory nor the git directory notices.
    let workspace = build();
    let survey = workspace.take();
    workspace.inside(&survey.covers, &format!("echo 'echo PWNED' >> {hook}"));
    let report = survey.finish().unwrap();
    assert_eq!(report.quarantined.len(), 1, "{report:?}");
    assert!(!workspace.path(&hook).exists());
}

#[test]
fn a_changed_name_is_reported_and_distrusted_only_when_its_cover_was_gone() {
    let workspace = Workspace::new();
    workspace.host("git init -q . && echo old > .envrc");
    let survey = workspace.take();
    workspace.host("echo new > .envrc; git config alias.x '!true'");
    let report = survey.finish().unwrap();
    assert_eq!(report.changed.len(), 2);
    assert!(report.changed.iter().all(|changed| changed.how == How::OnTheHost), "{report:?}");
    assert!(report.quarantined.is_empty());

    let mut survey = workspace.take();
    workspace.host(&format!(
        "echo evil > .envrc; git config core.fsmonitor {PAYLOAD}; echo x > .git/hooks/pre-commit"
    ));
    let all = 0..survey.covers.len();
    survey.lost(all);
    let report = survey.finish().unwrap();
    assert!(report.changed.iter().all(|changed| changed.how == How::Uncovered), "{report:?}");
    assert_eq!(report.quarantined.len(), 3, "{report:?}");
    assert!(!workspace.path(".envrc").exists() && !workspace.path(".git/hooks/pre-commit").exists());
    assert_eq!(workspace.host("git config core.fsmonitor; git config core.bare"), "false\n");
}

#[test]
fn a_change_within_the_clocks_grain_is_seen() {
    let workspace = Workspace::new();
    workspace.write(".envrc", "aaaa");
    let survey = workspace.take();
    // Written in place, same size, and the modification time put back.
    workspace.host("touch -r .envrc ../stamp; printf bbbb > .envrc; touch -r ../stamp .envrc");
    assert_eq!(survey.finish().unwrap().changed.len(), 1);
}

#[test]
fn strange_things_in_hooks_and_configuration_do_not_stop_the_look() {
    let workspace = Workspace::new();
    let survey = workspace.take();
    workspace.inside(
        &survey.covers,
        "git init -q n; cd n/.git; rm -rf hooks config; mkdir hooks hooks/d; mkfifo hooks/pre-commit config; ln -s /etc/passwd hooks/x
         printf 'x' > \"hooks/$(printf 'a\\nb\\377')\"; git init -q ../../m; cd ../../m/.git; rm config; mkdir config; head -c 3000000 /dev/zero > hooks/big",
    );
    symlink("loop", workspace.path("loop")).unwrap();
    let report = survey.finish().unwrap();
    assert_eq!(report.quarantined.len(), 6, "{report:#?}");
    assert_eq!(
        fs::read_to_string("/etc/passwd").unwrap().lines().next().map(|line| line.starts_with("root")),
        Some(true)
    );
    assert!(!workspace.path("n/.git/hooks/pre-commit").exists());
}

#[test]
fn what_is_too_deep_to_be_named_is_taken() {
    let workspace = Workspace::new();
    let survey = workspace.take();
    let name = "d".repeat(200);
    workspace.inside(&survey.covers, &format!("for i in $(seq 25); do mkdir {name}; cd {name}; done"));
    let report = survey.finish().unwrap();
    assert!(report.unchecked.is_empty() && report.failures.is_empty(), "{report:?}");
    assert_eq!(report.quarantined.len(), 1);
}
