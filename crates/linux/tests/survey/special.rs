//! Sockets and FIFOs in a zone: what listens on them outside cannot be reached.

use std::fs;
use std::io::Write;
use std::os::unix::net::{UnixDatagram, UnixListener};

use pinfold_core::zone::Access;
use pinfold_linux::survey::{self, Left, With};

use super::inside::{Workspace, with};

const CONNECT: &str = "python3 -c \"import socket,sys
s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print('CONNECTED')\"";

#[test]
fn a_socket_near_the_root_cannot_be_reached() {
    let workspace = Workspace::new();
    fs::create_dir(workspace.path("run")).unwrap();
    let _listener = UnixListener::bind(workspace.path("run/s")).unwrap();
    let script = format!("{CONNECT} run/s");
    assert!(workspace.inside(&[], &script).contains("CONNECTED"));
    let survey = workspace.take();
    assert!(!workspace.inside(&survey.covers, &script).contains("CONNECTED"), "{:?}", survey.covers);
}

#[test]
fn a_bound_socket_is_found_however_deep_without_walking() {
    let workspace = Workspace::new();
    fs::create_dir_all(workspace.path("a/b/c/d/e")).unwrap();
    fs::create_dir_all(workspace.path(".git/x")).unwrap();
    std::os::unix::fs::symlink("a/b/c", workspace.path("short")).unwrap();
    let _stream = UnixListener::bind(workspace.path("a/b/c/d/e/s")).unwrap();
    let _datagram = UnixDatagram::bind(workspace.path("short/d/dg")).unwrap();
    let _monitor = UnixListener::bind(workspace.path(".git/fsmonitor--daemon.ipc")).unwrap();
    let survey = workspace.take();
    assert_eq!(survey.walked, None);
    for path in ["a/b/c/d/e/s", "a/b/c/d/dg", ".git/fsmonitor--daemon.ipc"] {
        assert_eq!(with(&survey.covers, path), Some(With::EmptyFile), "{path}");
    }
    assert_eq!(survey.left, [Left::NotWalked(workspace.root())]);
}

#[test]
fn a_read_only_zone_is_no_wall_for_a_socket_and_gets_covers_too() {
    let workspace = Workspace::new();
    let _listener = UnixListener::bind(workspace.path("s")).unwrap();
    let survey =
        survey::take(&workspace.files, &[workspace.zone(Access::ReadOnly)], &workspace.state()).unwrap();
    assert_eq!(survey.covers.len(), 1);
    assert_eq!(survey.covers[0].with, With::EmptyFile);
}

#[test]
fn a_fifo_cannot_be_written_and_never_blocks_the_survey() {
    let workspace = Workspace::new().deny(&["pipe", "**/x"]);
    workspace.host("mkfifo pipe sub-pipe .envrc .git; mkdir -p d; mkfifo d/x d/y");
    let survey = workspace.take();
    for path in ["pipe", "sub-pipe", ".envrc", "d/x", "d/y", ".git"] {
        assert_eq!(with(&survey.covers, path), Some(With::EmptyFile), "{path}");
    }
    survey.finish().unwrap();
}

#[test]
fn a_socket_bound_by_a_relative_name_is_found_at_the_root_and_admitted_elsewhere() {
    let workspace = Workspace::new();
    fs::create_dir_all(workspace.path("a/b/c/d")).unwrap();
    let bind = |directory: &str, name: &str| {
        let script = "import socket,sys,os
os.chdir(sys.argv[1]); s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[2]); s.listen()
print('bound',flush=True); sys.stdin.read()";
        let mut child = std::process::Command::new("python3")
            .args(["-c", script])
            .args([workspace.path(directory).as_os_str(), name.as_ref()])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
            .unwrap();
        child
    };
    let mut near = bind(".", "near.sock");
    let survey = workspace.take();
    assert_eq!(with(&survey.covers, "near.sock"), Some(With::EmptyFile));
    assert!(!survey.left.contains(&Left::UnplacedSocket("near.sock".into())));
    drop(survey);
    let mut far = bind("a/b/c/d", "far.sock");
    assert!(workspace.take().left.contains(&Left::UnplacedSocket("far.sock".into())));
    for child in [&mut near, &mut far] {
        child.stdin.take().unwrap().flush().unwrap();
        child.wait().unwrap();
    }
}
