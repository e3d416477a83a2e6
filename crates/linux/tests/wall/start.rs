//! A command runs, its exit comes through, and every failure on the way there leaves nothing behind.

use std::fs;
use std::process::Stdio;

use crate::harness::{Place, Ran, callers, processes_with};

#[test]
fn a_command_runs_and_its_output_comes_through() {
    for caller in callers() {
        let ran = Place::new(*caller).sh("echo hello; echo words >&2; cat").ok();
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("hello\n", "words\n"));
    }
}

#[test]
fn exit_codes_and_signals_come_through() {
    for caller in callers() {
        let place = Place::new(*caller);
        for (script, code) in
            [("exit 0", 0), ("exit 1", 1), ("exit 42", 42), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
        {
            assert_eq!(place.sh(script).code, code, "{script}");
        }
    }
}

#[test]
fn a_program_that_cannot_run_is_126_or_127_as_in_a_shell() {
    for caller in callers() {
        let place = Place::new(*caller);
        let run = |program: &str| Ran::from(place.launch(&[], &[program]).output().unwrap());
        for (program, code) in
            [("no-such-program", 127), ("/no/such/program", 127), ("/etc/passwd", 126), ("/usr", 126)]
        {
            let ran = run(program);
            assert_eq!(ran.code, code, "{ran:?}");
            assert!(ran.stderr.contains(program), "{ran:?}");
        }
    }
}

#[test]
fn input_comes_through_and_output_can_be_captured() {
    let place = Place::new(callers()[0]);
    let mut child = place
        .launch(&["--capture"], &["sh", "-c", "read line; echo got $line; echo err >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"input\n").unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap()).ok();
    assert!(ran.stdout.contains("got input\n") && ran.stdout.contains("err\n"), "{ran:?}");
}

#[test]
fn a_failure_at_any_step_runs_nothing_and_leaves_nothing() {
    let place = Place::new(callers()[0]);
    let marker = place.path("").display().to_string();
    for (step, _) in pinfold_linux::steps::all() {
        let ran = place.run(&["--protect", ".envrc"], "touch ran; echo ran", &[("PINFOLD_FAIL_AT", step)]);
        assert_eq!(ran.code, 125, "{step}: {ran:?}");
        assert!(ran.stderr.contains(&format!("step `{step}`")), "{step}: {ran:?}");
        assert!(ran.stdout.is_empty() && !place.workspace("ran").exists(), "{step}");
        let left: Vec<_> = fs::read_dir(place.path("workspace")).unwrap().flatten().collect();
        assert!(left.is_empty(), "{step} left {left:?}");
        assert_eq!(processes_with(&marker), 0, "{step}");
    }
    place.run(&["--protect", ".envrc"], "touch ran", &[]).ok();
    assert!(place.workspace("ran").exists());
}

#[test]
fn steps_have_one_name_each() {
    let mut names: Vec<_> = pinfold_linux::steps::all().map(|(name, _)| name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn a_directory_as_standard_input_is_refused() {
    let place = Place::new(callers()[0]);
    let directory = fs::File::open("/").unwrap();
    let ran = Ran::from(place.launch(&[], &["true"]).stdin(directory).output().unwrap());
    assert_eq!(ran.code, 125, "{ran:?}");
    assert!(ran.stderr.contains("standard input is a directory"), "{ran:?}");
}

#[test]
fn mistakes_in_paths_are_named() {
    let place = Place::new(callers()[0]);
    let missing = place.path("missing");
    for (options, words) in [
        (["--read", missing.to_str().unwrap()], "missing"),
        (["--read", "/proc/1"], "belongs to the sandbox"),
        (["--directory", "/nowhere"], "/nowhere"),
        (["--tmpfs", "/tmp=1"], "asked for twice"),
        (["--tmpfs", "/workspace/inner=1"], "no such directory exists"),
    ] {
        let ran = place.run(&options, "echo ran", &[]);
        assert_eq!(ran.code, 125, "{options:?}: {ran:?}");
        assert!(ran.stderr.contains(words) && ran.stdout.is_empty(), "{options:?}: {ran:?}");
    }
}

#[test]
fn names_with_spaces_and_bytes_that_are_no_utf8_work() {
    use std::os::unix::ffi::OsStrExt;
    for caller in callers() {
        let place = Place::new(*caller);
        let odd = place.path("outside").join(std::ffi::OsStr::from_bytes(b"a \xff b"));
        fs::create_dir(&odd).unwrap();
        fs::write(odd.join("file"), "text").unwrap();
        let mut launch = place.launch(&["--env", "X=1"], &["sh", "-c", "cat \"$0\"/file"]);
        launch.arg(&odd);
        // Options come before the command, so the path is given as one that is shown.
        let mut with_read = std::process::Command::new(place.program());
        with_read
            .arg("--state")
            .arg(place.path("state"))
            .arg("--read")
            .arg(&odd)
            .args(["--", "sh", "-c", "cat \"$0\"/file"])
            .arg(&odd);
        place.as_caller(&mut with_read);
        assert_eq!(Ran::from(with_read.output().unwrap()).ok().stdout, "text");
        assert_ne!(Ran::from(launch.output().unwrap()).code, 0, "it is not shown unless asked for");
    }
}
