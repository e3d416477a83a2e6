//! Deny globs: what they match cannot be read, whatever was prepared.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use pinfold_core::path::AbsPath;
use pinfold_core::zone::Access;
use pinfold_linux::survey::{self, Left, SurveyError, With, Zone};

use super::inside::{Workspace, path_fd, with};

/// Runs `script` without and with covers: the canary must come out of the first alone.
fn hides(workspace: &Workspace, script: &str) {
    let survey = workspace.take();
    assert!(workspace.inside(&[], script).contains("CANARY"), "the attack does not work: {script}");
    let out = workspace.inside(&survey.covers, script);
    assert!(!out.contains("CANARY"), "{script}: {out}\n{:?}", survey.covers);
    survey.finish().unwrap();
}

#[test]
fn literal_and_wildcard_and_deep_globs_hide_files_and_directories() {
    let workspace = Workspace::new().deny(&[".env", "keys/*.pem", "**/secret", "{a,b/c}/x*"]);
    for file in [".env", "keys/a.pem", "deep/er/secret/in", "deep/secret", "a/x1", "b/c/x2"] {
        workspace.write(file, "CANARY");
    }
    workspace.write("keys/a.pub", "public");
    for file in [".env", "keys/a.pem", "deep/er/secret/in", "deep/secret", "a/x1", "b/c/x2"] {
        hides(
            &workspace,
            &format!("cat {file}; cp {file} copy; cat copy; rm -f copy; ln {file} l; cat l; rm -f l"),
        );
    }
    assert_eq!(workspace.inside(&workspace.take().covers, "cat keys/a.pub"), "public");
}

#[test]
fn without_a_deep_glob_nothing_is_walked_and_with_one_its_cost_is_said() {
    let workspace = Workspace::new().deny(&[".env"]);
    assert_eq!(workspace.take().walked, None);
    let workspace = Workspace::new().deny(&["**/.env"]);
    workspace.write("a/b/c", "");
    assert_eq!(workspace.take().walked.unwrap().entries, 3);
}

#[test]
fn a_match_through_a_link_hides_the_target() {
    for globs in [&[".env"][..], &["**/.env"]] {
        let workspace = Workspace::new().deny(globs);
        workspace.write("real/settings", "CANARY");
        symlink("middle", workspace.path(".env")).unwrap();
        // Absolute, in the host's terms: inside the way leads nowhere, but the file can be named directly.
        symlink(workspace.path("real/settings"), workspace.path("middle")).unwrap();
        hides(&workspace, "cat real/settings");
    }
}

#[test]
fn a_glob_is_followed_through_a_linked_directory() {
    for globs in [&["keys/*.pem"][..], &["**/keys/*.pem"], &["keys/a.pem"]] {
        let workspace = Workspace::new().deny(globs);
        workspace.write("elsewhere/a.pem", "CANARY");
        symlink("elsewhere", workspace.path("keys")).unwrap();
        hides(&workspace, "cat elsewhere/a.pem keys/a.pem");
    }
}

#[test]
fn a_link_out_of_the_zone_hides_nothing_and_breaks_nothing() {
    let workspace = Workspace::new().deny(&["**/.env", "loop"]);
    symlink("/etc/hostname", workspace.path(".env")).unwrap();
    symlink("loop", workspace.path("loop")).unwrap();
    symlink("../../../../..", workspace.path("up")).unwrap();
    assert_eq!(with(&workspace.take().covers, ".env"), Some(With::Itself));
}

#[test]
fn one_run_cannot_prepare_the_next() {
    for (globs, prepare, read) in [
        (&["secrets/*.key"][..], "mv secrets other", "cat other/a.key"),
        (&["**/secrets/*.key"], "mv secrets other", "cat other/a.key"),
        (&["secrets/a.key"], "mv secrets other", "cat other/a.key"),
        (&["secrets/a.key"], "mv secrets/a.key k", "cat k"),
        (&["link"], "rm link", "cat secrets/a.key"),
        (&["link"], "mv link x; ln -s nowhere link", "cat secrets/a.key"),
        (&["link"], "mv secrets s2; mkdir secrets; touch secrets/a.key", "cat s2/a.key"),
    ] {
        let fresh = || {
            let workspace = Workspace::new().deny(globs);
            workspace.write("secrets/a.key", "CANARY");
            symlink("secrets/a.key", workspace.path("link")).unwrap();
            workspace
        };
        let open = fresh();
        open.inside(&[], prepare);
        assert!(open.inside(&open.take().covers, read).contains("CANARY"), "no attack: {globs:?} {prepare}");
        let workspace = fresh();
        let survey = workspace.take();
        workspace.inside(&survey.covers, prepare);
        survey.finish().unwrap();
        let out = workspace.inside(&workspace.take().covers, &format!("{read}; cat secrets/a.key"));
        assert!(!out.contains("CANARY"), "{globs:?} {prepare}: {out}");
    }
}

#[test]
fn a_tree_too_deep_to_name_is_refused_when_it_would_have_to_be_searched() {
    let workspace = Workspace::new().deny(&["**/.env"]);
    let name = "d".repeat(200);
    workspace.host(&format!("for i in $(seq 25); do mkdir {name}; cd {name}; done; echo CANARY > .env"));
    assert!(matches!(workspace.try_take(), Err(SurveyError::TooDeep { .. })));
    let workspace = Workspace { files: Workspace::new().deny(&[".env"]).files, ..workspace };
    // The globs name this workspace's root again, so only the walk is gone.
    assert!(workspace.try_take().is_ok());
}

#[test]
fn names_of_any_bytes_are_hidden() {
    let workspace = Workspace::new().deny(&["**/*.pem"]);
    let name = std::ffi::OsStr::from_bytes(b"a\n\xff b\\.pem");
    fs::write(workspace.path(name), "CANARY").unwrap();
    hides(&workspace, "cat ./*.pem");
}

#[test]
fn a_closed_directory_of_ones_own_is_not_skipped() {
    if rustix::process::geteuid().is_root() {
        return; // nothing is closed to root
    }
    let workspace = Workspace::new().deny(&["**/.env"]);
    workspace.write("closed/.env", "CANARY");
    fs::set_permissions(workspace.path("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    assert!(matches!(workspace.try_take(), Err(SurveyError::Unreadable { .. })));
    fs::set_permissions(workspace.path("closed"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn second_names_of_a_denied_file_are_reported() {
    let workspace = Workspace::new().deny(&["**/.env"]);
    workspace.write(".env", "CANARY");
    fs::hard_link(workspace.path(".env"), workspace.path("other")).unwrap();
    assert_eq!(workspace.take().left, [Left::HardLinks(workspace.path(".env"))]);
}

#[test]
fn what_was_not_looked_at_is_said_in_words() {
    // Named plainly, so nothing is walked; a FIFO could lie in the git directory.
    let workspace = Workspace::new().deny(&[".env"]);
    workspace.write(".env", "CANARY");
    workspace.write(".git/HEAD", "ref: refs/heads/main");
    fs::hard_link(workspace.path(".env"), workspace.path("other")).unwrap();
    let left = workspace.take().left;
    assert!(left.contains(&Left::HardLinks(workspace.path(".env"))), "{left:?}");
    assert!(left.contains(&Left::NotWalked(workspace.root())), "{left:?}");
    let shown = workspace.root().display().to_string();
    assert!(left.iter().all(|item| item.to_string().contains(&shown)), "{left:?}");
    // Everything there is was seen.
    let workspace = Workspace::new();
    workspace.write("a/b", "");
    assert_eq!(workspace.take().left, []);
}

#[test]
fn an_absolute_glob_and_pinfolds_own_state_hold_in_every_zone() {
    let mut workspace = Workspace::new();
    workspace.write("sub/state/token", "CANARY");
    workspace.write("sub/denied", "CANARY");
    let glob = format!("{}/**/denied", workspace.root().display());
    workspace = workspace.deny(&[]);
    workspace.files.deny = vec![pinfold_core::glob::Glob::parse(&glob).unwrap()];
    workspace.files.own = vec![AbsPath::new(workspace.path("sub/state")).unwrap()];
    let sub = Zone {
        root: path_fd(&workspace.path("sub")),
        host: AbsPath::new(workspace.path("sub")).unwrap(),
        inside: AbsPath::new("/sub").unwrap(),
        access: Access::ReadOnly,
    };
    let zones = [workspace.zone(Access::ReadWrite), sub];
    let survey = survey::take(&workspace.files, &zones, &workspace.state()).unwrap();
    let covered = |zone: usize, path: &str| {
        survey
            .covers
            .iter()
            .find(|cover| cover.zone == zone && cover.path == Path::new(path))
            .map(|cover| cover.with)
    };
    assert_eq!(covered(0, "sub/state"), Some(With::EmptyDir));
    assert_eq!(covered(0, "sub/denied"), Some(With::EmptyFile));
    assert_eq!(covered(1, "state"), Some(With::EmptyDir));
    assert_eq!(covered(1, "denied"), Some(With::EmptyFile));
    assert_eq!(covered(0, "sub"), Some(With::Pinned));
}

#[test]
fn ten_thousand_matches_are_found_and_more_than_the_kernel_mounts_are_refused() {
    let workspace = Workspace::new().deny(&["**/*.pem"]);
    workspace.host("for d in $(seq 100); do mkdir d$d; for f in $(seq 100); do : > d$d/$f.pem; done; done");
    let survey = workspace.take();
    assert_eq!(survey.covers.iter().filter(|cover| cover.with == With::EmptyFile).count(), 10_000);
    drop(survey);
    workspace.host("for d in $(seq 100); do (cd d$d; for f in $(seq 101 1000); do : > $f.pem; done) done");
    assert!(matches!(workspace.try_take(), Err(SurveyError::TooMany { .. })));
}
