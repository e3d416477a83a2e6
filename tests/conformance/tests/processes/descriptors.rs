//! Descriptors (class 27): whatever the caller has open, inside there are the standard three, at every exec;
//! and a directory among them is refused (CVE-2024-21626).

use std::process::{Command, Stdio};

use pinfold_conformance::{Place, Run, case, each};
use rustix::net::{AddressFamily, SocketType};

/// A shell on the host that opens a good many things and then becomes `pinfold`.
const OPEN: &str = r#"exec 3</ 4<"$1" 5>>"$1" 6<&0 7</proc/self/ns/mnt 8</etc/passwd 9</proc/self/mem 19</ \
    20<"$2"; shift 2; exec "$@""#;

/// Runs the probe from such a shell; gives what it finds open.
fn open_inside(place: &Place, run: &Run<'_>, attempt: &str) -> Vec<String> {
    let prepared = run.prepare(&["--json"], [pinfold_conformance::place::PROBE, attempt]);
    let canary = place.path("outside/canary");
    let mut command = Command::new("bash");
    command.args(["-c", OPEN, "bash"]).arg(&canary).arg(place.path("outside"));
    command.arg(prepared.get_program()).args(prepared.get_args());
    for (name, value) in prepared.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.current_dir(place.path("workspace"));
    let output = command.stdin(Stdio::null()).output().expect("run a shell");
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let said: serde_json::Value = serde_json::from_str(json["stdout"].as_str().unwrap_or_default())
        .unwrap_or_else(|_| panic!("{output:?}"));
    let mut open: Vec<String> = said["ok"].as_object().expect("descriptors").keys().cloned().collect();
    open.sort();
    open
}

#[test]
fn nothing_of_the_caller_s_is_open_inside() {
    each(case!("inherited"), |place| {
        let canary = place.canary("outside/canary");
        for attempt in ["descriptors", "descriptors-of-child"] {
            assert_eq!(open_inside(place, &place.run(), attempt), ["0", "1", "2"], "{attempt}");
        }
        let open = open_inside(place, &place.run().without(&["descriptors"]), "descriptors");
        assert!(open.len() > 3, "without the defence too: {open:?}");
        canary.assert_unchanged();
    });
}

#[test]
fn descriptors_are_pipes_and_nothing_that_leads_anywhere() {
    each(case!("kinds"), |place| {
        let answer = place.run().probe(&["descriptors"]);
        for (number, target) in answer.value().as_object().expect("descriptors") {
            let target = target.as_str().unwrap_or_default();
            assert!(target.starts_with("pipe:") || target == "/dev/null", "{number} is {target}");
        }
    });
}

#[test]
fn a_directory_as_a_standard_descriptor_is_refused() {
    each(case!("directory"), |place| {
        place.canary("outside/canary");
        for redirection in ["<\"$0\"", "<\"$0\" 2>&0"] {
            let prepared = place.run().prepare(&["--json"], ["cat", "/proc/self/fd/0/canary"]);
            let mut command = Command::new("bash");
            command.current_dir(place.path("workspace"));
            command.env("HOME", place.path("home")).env("XDG_STATE_HOME", place.path("state"));
            command.args(["-c", &format!("exec \"$@\" {redirection}")]).arg(place.path("outside"));
            command.arg(prepared.get_program()).args(prepared.get_args());
            let output = command.output().expect("run a shell");
            assert_eq!(output.status.code(), Some(125), "{output:?}");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains("directory"), "{said}");
        }
    });
}

/// A file may be read as input; opening it again by its descriptor gives no more than was given, which
/// Landlock holds.
#[test]
fn a_file_as_input_is_that_file_alone() {
    each(case!("file"), |place| {
        let canary = place.canary("outside/canary");
        let feed = |without: &[&str]| {
            let script = "cat; ls /proc/self/fd/0/.. ; ( echo x >/proc/self/fd/0 ) && echo written";
            let mut command = place.run().without(without).prepare(&[], ["sh", "-c", script]);
            command.stdin(std::fs::File::open(canary.path()).expect("open the canary"));
            String::from_utf8_lossy(&command.output().expect("run pinfold").stdout).into_owned()
        };
        let said = feed(&[]);
        assert!(said.contains(canary.secret()), "input is not read: {said}");
        assert!(!said.contains("written"), "{said}");
        canary.assert_unchanged();
        // Root's command is another user than the file's owner, and held by that as well.
        if !place.caller.is_root() {
            assert!(feed(&["landlock"]).contains("written"), "something else holds it too");
        }
    });
}

/// Things that a shell cannot open: memory, sockets, and a directory without rights, all meant to be
/// inherited.
#[test]
fn memory_sockets_and_bare_directories_are_not_inherited() {
    each(case!("kinds-inherited"), |place| {
        let memory =
            rustix::fs::memfd_create("pinfold-canary", rustix::fs::MemfdFlags::empty()).expect("make memory");
        let socket =
            rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("make a socket");
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
        let directory = rustix::fs::open("/", flags, rustix::fs::Mode::empty()).expect("open the root");
        let count =
            |run: &Run<'_>| run.probe(&["descriptors"]).value().as_object().expect("descriptors").len();
        assert_eq!(count(&place.run()), 3);
        assert!(count(&place.run().without(&["descriptors"])) >= 6, "they were not inherited to begin with");
        drop((memory, socket, directory));
    });
}
