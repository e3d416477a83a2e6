//! The command line itself: help, completions, man pages, wrong use.

mod place;

use std::os::unix::ffi::OsStrExt;

use place::{Place, stderr, stdout};

#[test]
fn every_command_has_help_and_wrong_use_exits_125() {
    let place = Place::new();
    for command in
        [&[][..], &["explain"], &["policy"], &["policy", "init"], &["policy", "check"], &["policy", "show"]]
    {
        let mut args = command.to_vec();
        args.push("--help");
        let help = place.run(&args);
        assert!(help.status.success() && stdout(&help).contains("Usage: pinfold"), "{args:?}");
    }
    for wrong in [
        &["nonsense"][..],
        &["explain"],
        &["explain", "--"],
        &["explain", "ls"],
        &["explain", "--memory", "many", "--", "ls"],
        &["explain", "--timeout", "30", "--", "ls"],
        &["explain", "--zone", "a", "--", "ls"],
        &["explain", "--zone", "usr=/srv:ro", "--", "ls"],
        &["explain", "--set", "proc.maxMemoryMB", "--", "ls"],
        &["explain", "--set", "proc.maxMemory=1", "--", "ls"],
        &["explain", "--env", "A-B=1", "--", "ls"],
        &["explain", "--backend", "magic", "--", "ls"],
        &["explain", "--isolation", "total", "--", "ls"],
        &["explain", "--profile", "lax", "--", "ls"],
        &["explain", "--workspace", "/nowhere/at/all", "--", "ls"],
        &["explain", "-p", "/nowhere.yaml", "--", "ls"],
        &["explain", "--workspace", "/", "--", "ls"],
        &["explain", "--read", "/", "--", "ls"],
        &["explain", "--read", "/proc/1", "--", "ls"],
        &["explain", "--net", "https://example.com/", "--", "ls"],
    ] {
        let output = place.run(wrong);
        assert_eq!(output.status.code(), Some(125), "{wrong:?}: {}", stdout(&output));
        assert!(output.stdout.is_empty(), "words go to standard error: {wrong:?}");
        assert!(stderr(&output).starts_with("error"), "{wrong:?}: {}", stderr(&output));
    }
}

#[test]
fn explain_says_where_each_number_came_from() {
    let place = Place::new();
    let output = place.run(&["explain", "--timeout", "90s", "--", "sh", "-c", "cd x && cargo build"]);
    let text = stdout(&output);
    let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
    assert!(line("memory").contains("1024 MB") && line("memory").contains("cargo build"), "{text}");
    assert!(line("wall time").contains("90 s") && line("wall time").contains("option --timeout"), "{text}");
    let fixed = place.run(&["explain", "--limits", "policy", "--", "cargo", "build"]);
    assert!(stdout(&fixed).contains("256 MB"), "{}", stdout(&fixed));
    let strict = place.run(&["explain", "--profile", "strict", "--", "cargo", "build"]);
    assert!(stdout(&strict).contains("64 MB"), "{}", stdout(&strict));
}

#[test]
fn completions_and_man_pages_are_written() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(stdout(&place.run(&["completions", shell])).contains("pinfold"), "{shell}");
    }
    assert!(stdout(&place.run(&["man"])).contains(".TH"));
    std::fs::create_dir(place.path("project/pages")).unwrap();
    assert!(place.run(&["man", "pages"]).status.success());
    assert!(place.path("project/pages/pinfold-policy-check.1").is_file());
    assert_eq!(place.run(&["man", "/nowhere"]).status.code(), Some(125));
}

#[test]
fn names_that_are_no_text_work() {
    let place = Place::new();
    let odd = place.path("project").join(std::ffi::OsStr::from_bytes(b"a b\xff\n"));
    std::fs::create_dir(&odd).unwrap();
    let output = place.command(&["explain", "--json", "--", "true"]).current_dir(&odd).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(place::json(&output)["plan"]["files"]["zones"][0]["host"]["path"]["hex"].is_string());
    let shown = place.command(&["explain", "--", "printf", "\u{1b}[31m"]).current_dir(&odd).output().unwrap();
    assert!(stdout(&shown).chars().all(|c| c == '\n' || !c.is_control()), "{}", stdout(&shown));
}

#[test]
fn a_directory_that_is_gone_is_said() {
    let place = Place::new();
    let script = "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" explain -- true";
    let mut command = place.command(&[]);
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", script]).arg(command.get_program()).current_dir(place.path("project"));
    for (name, value) in command.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    let output = shell.output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("PF-CLI-002"), "{}", stderr(&output));
    command.env_remove("HOME");
    assert!(stderr(&command.arg("policy").arg("show").output().unwrap()).contains("HOME"));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let place = Place::new();
    let script = format!("\"{}\" policy schema | true", env!("CARGO_BIN_EXE_pinfold"));
    let output =
        std::process::Command::new("/bin/sh").args(["-c", &script]).env("HOME", place.path("home")).output();
    let output = output.unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
