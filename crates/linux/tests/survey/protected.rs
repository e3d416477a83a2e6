//! Protected names that exist: they cannot be changed, replaced, moved or bypassed, and repositories stay usable.

use std::fs;
use std::os::unix::fs::symlink;

use pinfold_core::glob::Glob;
use pinfold_linux::survey::With;

use super::inside::{Workspace, with};

/// Runs `attack` inside, without and with covers; then `on_the_host` must print PWNED in the first case alone.
fn holds(build: impl Fn() -> Workspace, attack: &str, on_the_host: &str) {
    let open = build();
    open.inside(&[], attack);
    let seen = open.host(on_the_host);
    assert!(seen.contains("PWNED"), "the attack does not work: {attack}: {seen}");
    let workspace = build();
    let survey = workspace.take();
    let out = workspace.inside(&survey.covers, attack);
    let seen = workspace.host(on_the_host);
    assert!(!seen.contains("PWNED"), "{attack}: {out} {seen}\n{:#?}", survey.covers);
    let report = survey.finish().unwrap();
    assert!(!workspace.host(on_the_host).contains("PWNED"));
    assert!(report.changed.is_empty(), "{report:?}");
}

fn repository() -> Workspace {
    let workspace = Workspace::new();
    workspace.host(
        "git init -q . && git config user.name a && git config user.email a@b && echo x > f && git add f && git commit -qm 1
         mkdir .vscode && echo {} > .vscode/settings.json && echo true > .bashrc",
    );
    workspace
}

const PAYLOAD: &str = "'echo PWNED >&2; true'";
const USE: &str = "for i in . $(find . -name .git -prune -o -type d -print); do (cd $i; git status; git diff; git commit --allow-empty -qm x); done 2>&1";

#[test]
fn git_hooks_and_configuration_cannot_be_changed() {
    for attack in [
        format!("git config core.fsmonitor {PAYLOAD}"),
        "printf '[core]\\nfsmonitor = \"echo PWNED >&2; true\"\\n' >> .git/config".to_owned(),
        "printf '#!/bin/sh\\necho PWNED' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit".to_owned(),
        format!("mv .git g; cp -r g .git; git config core.fsmonitor {PAYLOAD}"),
        format!("mv .git/config c; cp c .git/config; git config core.fsmonitor {PAYLOAD}"),
        "mv .git/hooks h; mkdir .git/hooks; printf '#!/bin/sh\\necho PWNED' > .git/hooks/pre-commit; chmod +x .git/hooks/*".to_owned(),
        format!("cp -r .git other; git --git-dir other config core.fsmonitor {PAYLOAD}; echo ../other > .git/commondir"),
        format!("cp -r .git other; git --git-dir other config core.fsmonitor {PAYLOAD}; echo $PWD/../ws/other > .git/commondir"),
        format!("cp -r .git other; git --git-dir other config core.fsmonitor {PAYLOAD}; rm -rf .git; echo gitdir: other > .git"),
    ] {
        holds(repository, &attack, USE);
    }
}

#[test]
fn committing_branching_and_cloning_work_inside() {
    let workspace = repository();
    let survey = workspace.take();
    let out = workspace.inside(
        &survey.covers,
        "set -e; echo y > g; git add -A; git commit -qm two; git checkout -q -b b; git stash -u; git gc -q; git worktree add -q ../wt 2>/dev/null || true
         git clone -q . /tmp/$$ && rm -rf /tmp/$$; git log --format=%s; git status --porcelain; git fsck; echo fine",
    );
    assert!(out.starts_with("No local changes to save\ntwo\n1\nfine\n"), "{out}");
    survey.finish().unwrap();
    assert_eq!(workspace.host("git log --format=%s; git status --porcelain; git fsck"), "two\n1\n");
}

#[test]
fn nested_repositories_submodules_and_worktrees_are_held_too() {
    let build = || {
        let workspace = repository();
        workspace.host(
            "mkdir -p sub/nested && cd sub/nested && git init -q . && git config user.name a && git config user.email a@b
             cd ../.. && git -c protocol.file.allow=always submodule add -q ./sub/nested module 2>/dev/null
             git init -q --bare bare.git; git worktree add -q tree -b tree",
        );
        workspace
    };
    let evil = |directory: &str| format!("git --git-dir {directory} config core.fsmonitor {PAYLOAD}");
    for attack in [
        evil("sub/nested/.git"),
        "printf '#!/bin/sh\\necho PWNED' > sub/nested/.git/hooks/pre-commit; chmod +x sub/nested/.git/hooks/*".to_owned(),
        format!("mv sub s2; cp -r s2 sub; {}", evil("sub/nested/.git")),
        format!("cp -r .git o; {}; echo gitdir: $PWD/../ws/o > tree/.git", evil("o")),
        format!("cp -r .git o; {}; echo $PWD/../ws/o > .git/worktrees/tree/commondir", evil("o")),
    ] {
        holds(build, &attack, USE);
    }
    let survey = build().take();
    for path in [
        "bare.git/config",
        "bare.git/hooks",
        ".git/worktrees/tree/commondir",
        "tree/.git",
        "sub/nested/.git/config",
    ] {
        assert_eq!(with(&survey.covers, path), Some(With::Itself), "{path}");
    }
}

#[test]
fn a_submodules_git_directory_is_protected_wherever_its_name_puts_it() {
    let workspace = repository();
    workspace.host("mkdir -p .git/modules/a/b/modules/c && cp -r .git/HEAD .git/refs .git/objects .git/config .git/modules/a/b && cp -r .git/modules/a/b/HEAD .git/config .git/modules/a/b/modules/c");
    let survey = workspace.take();
    for path in [".git/modules/a/b/config", ".git/modules/a/b/modules/c/config"] {
        assert_eq!(with(&survey.covers, path), Some(With::Itself), "{path}");
    }
    assert_eq!(with(&survey.covers, ".git/modules/a"), Some(With::Pinned));
}

#[test]
fn hooks_kept_in_the_tree_and_included_files_are_protected() {
    let build = || {
        let workspace = repository();
        workspace.write("tools/hooks/pre-commit", "#!/bin/sh\ntrue\n");
        workspace.write("tools/extra.cfg", "[user]\n\tname = b\n");
        workspace.host("chmod +x tools/hooks/*; git config core.hooksPath tools/hooks; git config include.path ../tools/extra.cfg");
        workspace
    };
    holds(build, "printf '#!/bin/sh\\necho PWNED' > tools/hooks/pre-commit", USE);
    holds(
        build,
        "mv tools t2; mkdir -p tools/hooks; printf '#!/bin/sh\\necho PWNED' > tools/hooks/pre-commit; chmod +x tools/hooks/*",
        USE,
    );
    holds(build, &format!("git config -f tools/extra.cfg core.fsmonitor {PAYLOAD}"), USE);
}

#[test]
fn a_protected_name_that_is_a_link_stays_what_it_is_and_so_does_its_target() {
    for (link, attack) in [
        ("conf/rc", "echo 'echo PWNED' > conf/rc"),
        ("conf/rc", "rm .bashrc; echo 'echo PWNED' > .bashrc"),
        ("conf/rc", "mv .bashrc x; echo 'echo PWNED' > .bashrc"),
        ("conf/rc", "mv conf c2; mkdir conf; echo 'echo PWNED' > conf/rc"),
        ("conf/rc", "echo 'echo PWNED' > x; mv x conf/rc"),
        ("conf/absent", "echo 'echo PWNED' > conf/absent"),
        ("absent/dir/rc", "mkdir -p absent/dir; echo 'echo PWNED' > absent/dir/rc"),
        ("hop", "rm hop; ln -s evil hop; echo 'echo PWNED' > evil"),
        ("HOST/conf/rc", "echo 'echo PWNED' > conf/rc"),
    ] {
        let build = || {
            let workspace = Workspace::new();
            workspace.write("conf/rc", "true");
            symlink("conf/rc", workspace.path("hop")).unwrap();
            let target = link.replace("HOST", workspace.root().to_str().unwrap());
            symlink(target, workspace.path(".bashrc")).unwrap();
            workspace
        };
        holds(build, attack, "test -e .bashrc && . ./.bashrc");
    }
}

#[test]
fn a_linked_git_directory_is_followed() {
    let build = || {
        let workspace = repository();
        workspace.host("mkdir store && mv .git store/git && ln -s store/git .git");
        workspace
    };
    holds(build, &format!("git --git-dir store/git config core.fsmonitor {PAYLOAD}"), USE);
    holds(build, &format!("rm .git; cp -r store/git .git; git config core.fsmonitor {PAYLOAD}"), USE);
    holds(build, &format!("mv store s2; cp -r s2 store; git config core.fsmonitor {PAYLOAD}"), USE);
}

#[test]
fn what_the_policy_adds_is_protected() {
    let mut workspace = Workspace::new();
    workspace.write("ci/deploy.sh", "true");
    workspace.write("deep/down/deploy.sh", "true");
    workspace.write("Makefile", "all:");
    let globs = ["Makefile", "**/deploy.sh", "absent"];
    workspace.files.protect.extra = globs.iter().map(|glob| Glob::parse(glob).unwrap()).collect();
    let survey = workspace.take();
    for path in ["ci/deploy.sh", "deep/down/deploy.sh", "Makefile"] {
        assert_eq!(with(&survey.covers, path), Some(With::Itself), "{path}");
    }
    assert_eq!(with(&survey.covers, "absent"), Some(With::Absent));
}

#[test]
fn parents_come_before_what_they_contain() {
    let workspace = repository();
    let survey = workspace.take();
    for (at, cover) in survey.covers.iter().enumerate() {
        let after = &survey.covers[at + 1..];
        assert!(
            !after.iter().any(|other| cover.path != other.path && cover.path.starts_with(&other.path)),
            "{cover:?}"
        );
    }
    drop(survey);
    assert_eq!(fs::read_dir(workspace.root()).unwrap().count(), 4);
}
