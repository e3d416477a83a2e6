//! Wrong and unusual use: a clear answer with a code and a hint, never a half-made sandbox.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use pinfold_conformance::live::Live;
use pinfold_conformance::{Place, case, each, skip};

#[test]
fn no_command() {
    each(case!("no-command"), |place| {
        let output = place.pinfold(&["run"]).output().expect("run pinfold");
        assert_eq!(output.status.code(), Some(125));
        assert!(String::from_utf8_lossy(&output.stderr).contains("COMMAND"), "{output:?}");
        let output = place.pinfold(&["run", "--"]).output().expect("run pinfold");
        assert_eq!(output.status.code(), Some(125));
    });
}

#[test]
fn a_zone_that_is_not_there() {
    each(case!("missing-zone"), |place| {
        for zone in ["input=./absent:ro", "input=./control/x:rw", "input=:ro"] {
            let done = place.run().options(["--zone", zone]).shell("true");
            let said = done.refused();
            assert!(!said.trim().is_empty(), "{zone}: {said}");
        }
        assert!(
            place.run().options(["--zone", "input=./absent:ro"]).shell("true").refused().contains("absent")
        );
        assert!(place.run().options(["--zone", "input=/dev/null:ro"]).shell("true").status == Some(125));
    });
}

#[test]
fn a_zone_under_another() {
    each(case!("nested-zone"), |place| {
        place.write("workspace/data/file", "x");
        let done = place
            .run()
            .options(["--zone", "data=./data:ro"])
            .shell("cat /data/file && ! ( echo y >/data/file ) 2>/dev/null");
        done.ok();
        // The same directory is writable under its other name, and read-only under this one.
        place.run().options(["--zone", "data=./data:ro"]).shell("echo z >data/file && cat /data/file").ok();
        assert_eq!(place.read("workspace/data/file"), "z\n");
        // Twice under one name.
        let done =
            place.run().options(["--zone", "data=./data:ro", "--zone", "data=./data:rw"]).shell("true");
        assert!(done.refused().contains("data"), "{done:?}");
    });
}

#[test]
fn relative_and_linked_paths() {
    each(case!("paths"), |place| {
        place.write("other/file", "x");
        place.symlink(place.path("other"), "linked");
        place.symlink(place.path("workspace"), "entrance");
        for zone in ["input=../other:ro", "input=../linked:ro", "input=./../workspace/../other:ro"] {
            let done = place.run().options(["--zone", zone]).shell("cat /input/file").ok();
            assert_eq!(done.stdout(), "x", "{zone}");
        }
        let done = place
            .run()
            .options([OsStr::new("--workspace"), place.path("entrance").as_os_str()])
            .shell("cat control")
            .ok();
        assert_eq!(done.stdout(), "control");
        let done = place.run().directory(place.path("entrance")).shell("pwd; cat control").ok();
        assert_eq!(done.stdout(), "/workspace\ncontrol");
        place.mkdir("workspace/sub");
        let top = place.path("workspace");
        let done = place
            .run()
            .options([OsStr::new("--workspace"), top.as_os_str()])
            .directory(place.workspace("sub"))
            .shell("pwd")
            .ok();
        assert_eq!(done.stdout(), "/workspace/sub\n");
    });
}

#[test]
fn spaces_and_bytes_that_are_no_text() {
    each(case!("names"), |place| {
        let odd = OsStr::from_bytes(b"od\xffd n\nme \"'$(x)");
        let directory = place.path("workspace").join(odd);
        place.mkdir(std::path::Path::new("workspace").join(odd));
        place.write(std::path::Path::new("workspace").join(odd).join("file"), "x");
        let done = place.run().directory(&directory).shell("cat file && echo y >new").ok();
        assert_eq!(done.stdout(), "x");
        assert!(directory.join("new").exists());
        // As workspace, as a zone, and with something to deny and to protect in it.
        place.write(std::path::Path::new("workspace").join(odd).join(".env"), "s");
        place.write(std::path::Path::new("workspace").join(odd).join(".envrc"), "s");
        let run = place.run().options([
            OsStr::new("--workspace"),
            directory.as_os_str(),
            OsStr::new("--deny"),
            OsStr::new("**/.env"),
        ]);
        let done = run.directory(&directory).shell("cat .env; echo evil >.envrc; cat file");
        assert!(done.stdout().ends_with('x') && !done.stdout().contains("s\n"), "{done:?}");
        assert_eq!(place.read(std::path::Path::new("workspace").join(odd).join(".envrc")), "s");
        // A word of the command that is no text.
        let output =
            place.run().plain([OsStr::new("printf"), OsStr::new("%s"), OsStr::from_bytes(b"\xff\x80")]);
        assert_eq!(output.stdout, b"\xff\x80");
    });
}

/// What the names of [`fill`] are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Each is a file.
    OfFiles,
    /// All of a directory are names of one file: made more quickly, and as good for whoever only looks at names.
    OfOneFile,
}

/// Makes `count` names in directories of 500.
fn fill(place: &Place, count: usize, ending: &str, names: Names) {
    let mut first = std::path::PathBuf::new();
    for index in 0..count {
        let path = place.workspace(format!("many/{}/{index}.{ending}", index / 500));
        let new = index % 500 == 0;
        if new {
            fs::create_dir_all(path.parent().expect("a directory")).expect("make a directory");
            first.clone_from(&path);
        }
        if new || names == Names::OfFiles {
            fs::File::create(&path).expect("make a file");
        } else {
            fs::hard_link(&first, &path).expect("give a file another name");
        }
    }
}

#[test]
fn ten_thousand_matches_of_a_deny_glob() {
    each(case!("many-matches"), |place| {
        fill(place, 10_000, "secret", Names::OfFiles);
        let run = place.run().options(["--deny", "**/*.secret"]);
        let (answers, _) = run.attempt(&[
            &["read", "/workspace/many/0/0.secret"],
            &["read", "/workspace/many/19/9999.secret"],
            &["read", "/workspace/control"],
        ]);
        assert!(answers[..2].iter().all(|answer| answer.is_refused(&["EACCES"])), "{answers:?}");
        assert!(answers[2].is_ok(), "{answers:?}");
    });
}

/// Whoever has been inside can give a denied file as many names as it likes; the next start still comes in time.
#[test]
fn ten_thousand_names_of_denied_files() {
    each(case!("many-names"), |place| {
        fill(place, 10_000, "secret", Names::OfOneFile);
        let run = place.run().options(["--deny", "**/*.secret"]);
        let mut live = Live::start(run.prepare(&[], ["sh", "-c", "cat many/0/1.secret || echo refused"]));
        assert_eq!(live.line(), "refused");
        live.hang_up();
        live.wait();
    });
}

/// How many of the directories of [`fill`] were read since their times of last access were set back.
fn read_directories(place: &Place, run: impl FnOnce()) -> usize {
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let directories = || {
        let below = fs::read_dir(place.workspace("many")).expect("read a directory").flatten();
        below.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let all = directories();
    for path in &all {
        let times = fs::FileTimes::new().set_accessed(long_ago);
        fs::File::open(path).and_then(|directory| directory.set_times(times)).expect("set a time");
    }
    run();
    let accessed =
        |path: &std::path::PathBuf| fs::metadata(path).and_then(|found| found.accessed()).expect("a time");
    all.iter().filter(|path| accessed(path) != long_ago).count()
}

/// A workspace of 100,000 files is not walked at start, unless a glob asks for a look at every name. Seen by
/// the times of last access, which reading a directory sets where the file system keeps them.
#[test]
fn a_large_workspace_is_not_walked() {
    let case = case!("large");
    each(case, |place| {
        fill(place, 100_000, "txt", Names::OfOneFile);
        let explained = |glob: &[&str]| {
            let mut command = place.pinfold(&["explain"]);
            command.args(glob).args(["--", "true"]);
            String::from_utf8_lossy(&command.output().expect("explain").stdout).into_owned()
        };
        assert!(explained(&["--deny", "**/*.key"]).contains("walked"), "a walk is not announced");
        assert!(!explained(&["--deny", "*.key"]).contains("walked"), "a walk is announced without need");
        // Up to the moment when the command runs: what comes after it is another promise.
        let start = |options: &[&str]| {
            let mut live =
                Live::start(place.run().options(options).prepare(&[], ["sh", "-c", "echo started; read x"]));
            live.line();
            live
        };
        let end = |mut live: Live| {
            live.hang_up();
            live.wait();
        };
        let mut running = Vec::new();
        let walked = read_directories(place, || running.push(start(&["--deny", "**/*.key"])));
        running.drain(..).for_each(end);
        if walked == 0 {
            return skip::skip(case, "the file system keeps no times of last access");
        }
        assert_eq!(walked, 200, "a glob asks for all of them");
        let looked = read_directories(place, || running.push(start(&[])));
        running.drain(..).for_each(end);
        assert!(looked <= 50, "{looked} directories of 200 were read at start");
    });
}

#[test]
fn a_directory_that_cannot_be_read_stops_only_a_walk() {
    each(case!("unreadable"), |place| {
        if place.caller.is_root() {
            return;
        }
        place.write("workspace/closed/file", "x");
        fs::set_permissions(place.workspace("closed"), fs::Permissions::from_mode(0o000))
            .expect("close a directory");
        let plain = place.run().shell("true");
        let walked = place.run().options(["--deny", "**/.env"]).shell("true");
        fs::set_permissions(place.workspace("closed"), fs::Permissions::from_mode(0o755))
            .expect("open a directory");
        assert_eq!(plain.status, Some(0), "{plain:?}");
        assert!(walked.refused().contains("closed"), "{walked:?}");
    });
}

#[test]
fn a_workspace_that_cannot_be_written() {
    each(case!("read-only"), |place| {
        place.write("workspace/.envrc", "was");
        fs::set_permissions(place.path("workspace"), fs::Permissions::from_mode(0o555))
            .expect("close the workspace");
        let done = place
            .run()
            .shell("cat control; ( echo x >new ) 2>/dev/null; ( echo x >.bashrc ) 2>/dev/null; true");
        fs::set_permissions(place.path("workspace"), fs::Permissions::from_mode(0o755))
            .expect("open the workspace");
        if done.status == Some(125) {
            // Root's placeholders can be made all the same; a user's cannot, and the directory is the user's
            // own.
            assert!(done.refused().contains("protected"), "{done:?}");
        } else {
            assert_eq!(done.ok().stdout(), "control");
        }
        assert!(!place.exists("workspace/.bashrc") && !place.exists("workspace/new"));
    });
}

#[test]
fn a_current_directory_that_is_gone() {
    each(case!("gone"), |place| {
        place.mkdir("gone");
        let prepared = place.run().prepare(&["--json"], ["true"]);
        let mut command = std::process::Command::new("sh");
        command.current_dir(place.path("gone")).args(["-c", "rmdir ../gone; exec \"$@\"", "sh"]);
        command.arg(prepared.get_program()).args(prepared.get_args());
        for (name, value) in prepared.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let output = command.output().expect("run a shell");
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("directory") && said.contains("--workspace"), "{said}");
    });
}

#[test]
fn too_much_to_show_is_refused() {
    each(case!("too-much"), |place| {
        let home = place.path("home").display().to_string();
        let above = place.path("").display().to_string();
        for path in ["/", &home, &above, "/proc", "/sys", "/dev", "/proc/1/root"] {
            let done = place.run().options(["--workspace", path]).shell("true");
            assert_eq!(done.status, Some(125), "{path} is shown");
            let done = place.run().options(["--write", path]).shell("true");
            assert_eq!(done.status, Some(125), "{path} is shown, writable");
        }
    });
}
