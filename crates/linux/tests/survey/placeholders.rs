//! Protected names that are absent: they cannot be made inside, the host hardly notices, and nothing stays behind.

use std::fs;
use std::io::{BufRead, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use pinfold_core::path::AbsPath;
use pinfold_core::zone::Access;
use pinfold_linux::survey::{self, StateDir, SurveyError, With, Zone};

use super::inside::{NAMES, Workspace, path_fd, with};

fn names(workspace: &Workspace) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(workspace.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn an_absent_name_cannot_be_made_in_any_way() {
    for attack in [
        "echo CANARY > .bashrc",
        "mkdir .vscode && echo CANARY > .vscode/x",
        "ln -s x .bashrc && echo CANARY > x",
        "echo CANARY > x; mv x .bashrc",
        "echo CANARY > x; ln x .bashrc",
        "mkfifo .envrc; echo CANARY > .config",
        "mkdir -p .config/fish && echo CANARY > .config/fish/config.fish",
        "rm -f .bashrc; echo CANARY > .bashrc",
        "mv .bashrc y; echo CANARY > .bashrc",
    ] {
        let open = Workspace::new();
        open.inside(&[], attack);
        assert!(!open.host("grep -r CANARY .").is_empty(), "no attack: {attack}");
        let workspace = Workspace::new();
        let survey = workspace.take();
        workspace.inside(&survey.covers, attack);
        workspace.host("rm -f x");
        let report = survey.finish().unwrap();
        assert!(report.placeholders_kept.is_empty() && report.changed.is_empty(), "{report:?}");
        assert_eq!(names(&workspace), Vec::<String>::new(), "{attack}");
    }
}

#[test]
fn inside_the_names_look_absent_and_git_sees_nothing() {
    let workspace = Workspace::new();
    workspace.host("git init -q . && git config user.name a && git config user.email a@b && touch f");
    let survey = workspace.take();
    let out = workspace.inside(
        &survey.covers,
        "cat .bashrc .vscode/settings.json; git add -A && git commit -qm one && git status --porcelain; git ls-files",
    );
    assert!(out.contains(".bashrc: No such file") && out.contains("settings.json: No such file"), "{out}");
    assert!(out.starts_with("f\n"), "{out}");
    assert_eq!(workspace.host("git status --porcelain; git log --format=%s"), "one\n");
    survey.finish().unwrap();
    assert_eq!(names(&workspace), [".git", "f"]);
    assert_eq!(
        workspace.host("git status --porcelain; ls .git/commondir .git/gitdir 2>/dev/null; git fsck"),
        ""
    );
}

#[test]
fn the_last_of_several_removes_them() {
    let workspace = Workspace::new();
    let (first, mut second) = (workspace.take(), Workspace::new());
    second.files.protect.names.push("only-second".to_owned());
    let other = survey::take(
        &pinfold_core::plan::Files { protect: second.files.protect.clone(), ..workspace.files.clone() },
        &[workspace.zone(Access::ReadWrite)],
        &workspace.state(),
    )
    .unwrap();
    assert_eq!(other.covers.len(), NAMES.len() + 1);
    other.finish().unwrap();
    // One has ended: what the other needs is still there.
    assert!(fs::symlink_metadata(workspace.path(".bashrc")).unwrap().file_type().is_socket());
    let out = workspace.inside(&first.covers, "echo CANARY > .bashrc; echo done");
    assert!(out.starts_with("done"), "{out}");
    first.finish().unwrap();
    assert_eq!(names(&workspace), Vec::<String>::new());
}

#[test]
fn after_a_crash_the_next_run_adopts_and_removes_them() {
    let workspace = Workspace::new();
    workspace.host("git init -q .");
    // A process that holds them is killed before it can do anything about it.
    let mut child = crasher_of(&workspace);
    let inode = fs::symlink_metadata(workspace.path(".bashrc")).unwrap().ino();
    // While it lives, they are its own.
    workspace.take().finish().unwrap();
    assert_eq!(fs::symlink_metadata(workspace.path(".bashrc")).unwrap().ino(), inode);
    child.kill().unwrap();
    child.wait().unwrap();

    let mut next = workspace;
    next.files.protect.names.retain(|name| name != ".envrc");
    let survey = next.take();
    assert_eq!(fs::symlink_metadata(next.path(".bashrc")).unwrap().ino(), inode);
    assert!(fs::symlink_metadata(next.path(".envrc")).is_err(), "left over, and wanted by nobody");
    let out = next.inside(&survey.covers, "cat .git/commondir; echo x > .git/commondir");
    assert!(out.starts_with(".\n") && out.contains("Read-only"), "{out}");
    assert!(survey.finish().unwrap().changed.is_empty());
    assert_eq!(names(&next), [".git"]);
    assert_eq!(
        next.host("ls .git/commondir .git/config.worktree .git/info/attributes 2>/dev/null; git status -s"),
        ""
    );
}

/// A process that has taken `workspace` and waits to be killed.
pub(crate) fn crasher_of(workspace: &Workspace) -> std::process::Child {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "placeholders::crasher", "--nocapture", "--test-threads=1"])
        .env("SURVEY_CRASH", workspace.temp.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("taken")));
    child
}

/// Not a test: the process that is killed above.
#[test]
fn crasher() {
    let Some(base) = std::env::var_os("SURVEY_CRASH").map(std::path::PathBuf::from) else { return };
    let mut other = Workspace::new();
    other.files.zones[0].source = pinfold_core::plan::ZoneSource::Host {
        path: AbsPath::new(base.join("ws")).unwrap(),
        access: Access::ReadWrite,
    };
    let zone = Zone {
        root: path_fd(&base.join("ws")),
        host: AbsPath::new(base.join("ws")).unwrap(),
        inside: AbsPath::new("/workspace").unwrap(),
        access: Access::ReadWrite,
    };
    let survey = survey::take(&other.files, &[zone], &StateDir::open(&base.join("state")).unwrap()).unwrap();
    drop(other);
    writeln!(std::io::stdout(), "taken").unwrap();
    std::io::stdin().read_to_string(&mut String::new()).unwrap();
    loop {
        std::thread::park();
        assert!(!survey.covers.is_empty());
    }
}

#[test]
fn what_the_host_put_there_meanwhile_is_not_removed() {
    let workspace = Workspace::new();
    let survey = workspace.take();
    workspace.host("rm .envrc; echo mine > .envrc");
    let report = survey.finish().unwrap();
    assert_eq!(report.placeholders_kept, [workspace.path(".envrc")]);
    assert_eq!(workspace.host("cat .envrc"), "mine\n");
    assert_eq!(names(&workspace), [".envrc"]);
}

#[test]
fn an_existing_name_is_never_written_to() {
    let workspace = Workspace::new();
    std::os::unix::fs::symlink("/etc/passwd", workspace.path(".bashrc")).unwrap();
    workspace.write(".envrc", "mine");
    let survey = workspace.take();
    assert_eq!(with(&survey.covers, ".bashrc"), Some(With::Itself));
    survey.finish().unwrap();
    assert_eq!(workspace.host("cat .envrc; readlink .bashrc"), "mine/etc/passwd\n");
}

#[test]
fn a_start_that_fails_leaves_nothing() {
    let workspace = Workspace::new();
    drop(workspace.take());
    assert_eq!(names(&workspace), Vec::<String>::new());
}

#[test]
fn a_directory_that_only_its_owner_could_open_is_refused_not_trusted() {
    if rustix::process::geteuid().is_root() {
        return; // nothing is closed to root
    }
    let workspace = Workspace::new();
    workspace.host("chmod 555 .");
    let taken = workspace.try_take();
    workspace.host("chmod 755 .");
    assert!(matches!(taken, Err(SurveyError::Placeholder { .. })), "{taken:?}");
}

#[test]
fn a_state_directory_that_others_can_write_is_not_used() {
    let workspace = Workspace::new();
    let path = workspace.temp.path().join("open");
    fs::create_dir(&path).unwrap();
    rustix::fs::chmod(&path, rustix::fs::Mode::from_raw_mode(0o777)).unwrap();
    assert!(matches!(StateDir::open(&path), Err(SurveyError::State { .. })));
}
