//! Links that a run plants for the next one: what lies where the inside can write decides nothing about what
//! is shown.

use std::fs;
use std::os::unix::fs::symlink;

use crate::harness::{Place, Ran, callers};

const OFF: &[(&str, &str)] = &[("PINFOLD_WITHOUT", "links")];

/// Run 1 replaces `workspace/out` by a link to what lies outside.
fn planted(place: &Place) -> String {
    let out = place.workspace("out");
    fs::create_dir(&out).unwrap();
    place.give(&out);
    place.sh(&format!("rmdir out && ln -s {} out", place.path("outside").display())).ok();
    out.to_str().unwrap().to_owned()
}

#[track_caller]
fn refused(ran: &Ran, link: &str) {
    assert_eq!(ran.code, 125, "{ran:?}");
    assert!(ran.stderr.contains("leads through the link") && ran.stderr.contains(link), "{ran:?}");
    assert!(ran.stdout.is_empty(), "{ran:?}");
}

#[test]
fn a_zone_in_the_workspace_is_not_opened_through_a_planted_link() {
    for caller in callers() {
        let place = Place::new(*caller);
        let (canary, text) = place.canary();
        let out = planted(&place);
        for (option, inside) in [("--zone", "/out"), ("--write", out.as_str()), ("--read", out.as_str())] {
            let value = if option == "--zone" { format!("/out={out}") } else { out.clone() };
            let attack = format!("cat {inside}/canary; echo broken > {inside}/canary");
            refused(&place.run(&[option, &value], &attack, &[]), &out);
            assert_eq!(fs::read_to_string(&canary).unwrap(), text, "{option}");
            let ran = place.run(&[option, &value], &attack, OFF);
            assert!(ran.stdout.contains(&text), "the attack works without the check: {ran:?}");
            fs::write(&canary, &text).unwrap();
        }
    }
}

#[test]
fn a_link_higher_up_or_reached_by_the_hosts_own_link_is_found_too() {
    for caller in callers() {
        let place = Place::new(*caller);
        place.canary();
        let out = planted(&place);
        fs::create_dir(place.path("outside/deep")).unwrap();
        let deep = format!("/out={out}/deep");
        refused(&place.run(&["--zone", &deep], "ls /out", &[]), &out);
        place.run(&["--zone", &deep], "ls /out", OFF).ok();
        // The host's own link to the workspace is followed, the planted one behind it is not.
        symlink(place.path("workspace"), place.path("alias")).unwrap();
        let alias = format!("/out={}", place.path("alias/out").display());
        refused(&place.run(&["--zone", &alias], "ls /out", &[]), &out);
        place.run(&["--zone", &alias], "ls /out", OFF).ok();
        // A link of the host that leads to the planted one.
        symlink(&out, place.path("second")).unwrap();
        let second = format!("/out={}", place.path("second").display());
        refused(&place.run(&["--zone", &second], "ls /out", &[]), &out);
    }
}

#[test]
fn a_link_planted_while_the_workspace_was_writable_is_refused_when_it_no_longer_is() {
    let place = Place::new(callers()[0]);
    let out = planted(&place);
    let workspace = place.path("workspace");
    let zone = format!("/out={out}");
    let ran = place.run(&["--workspace-ro", workspace.to_str().unwrap(), "--zone", &zone], "ls /out", &[]);
    refused(&ran, &out);
}

#[test]
fn a_link_planted_in_another_writable_zone_is_refused() {
    let place = Place::new(callers()[0]);
    fs::create_dir(place.path("shared")).unwrap();
    symlink("/etc", place.path("shared/in")).unwrap();
    let shared = place.path("shared");
    let link = shared.join("in");
    let options = ["--write", shared.to_str().unwrap(), "--read", link.to_str().unwrap()];
    refused(&place.run(&options, "echo ran", &[]), link.to_str().unwrap());
    // One that is only read cannot have been changed from inside.
    let options = ["--read", shared.to_str().unwrap(), "--read", link.to_str().unwrap()];
    let ran = place.run(&options, "echo ran", &[]);
    assert!(!ran.stderr.contains("leads through the link"), "{ran:?}");
}

#[test]
fn a_real_directory_in_the_workspace_can_be_a_zone() {
    for caller in callers() {
        let place = Place::new(*caller);
        fs::create_dir_all(place.workspace("a/out")).unwrap();
        for path in [place.workspace("a"), place.workspace("a/out")] {
            place.give(&path);
        }
        symlink(place.path("workspace"), place.path("alias")).unwrap();
        for path in [place.workspace("a/out"), place.path("alias/a/out")] {
            let zone = format!("/out={}", path.display());
            place.run(&["--zone", &zone], "echo x > /out/new && rm a/out/new", &[]).ok();
        }
    }
}

#[test]
fn the_hosts_own_link_does_not_lead_to_what_is_never_shown() {
    let place = Place::new(callers()[0]);
    let home = place.path("outside");
    fs::create_dir(home.join("keys")).unwrap();
    symlink("keys", home.join("to-keys")).unwrap();
    let state = place.path("state");
    let elsewhere = tempfile::TempDir::new_in("/var/tmp").unwrap();
    for (target, why) in [
        ("/", "the whole file system"),
        ("/proc/sys", "the kernel's own files"),
        ("/sys", "the kernel's own files"),
        ("/dev", "the kernel's own files"),
        (home.to_str().unwrap(), "home directory"),
        (home.parent().unwrap().to_str().unwrap(), "home directory"),
        (state.to_str().unwrap(), "Pinfold's own state"),
    ] {
        let link = elsewhere.path().join("link");
        symlink(target, &link).unwrap();
        let zone = format!("/out={}", link.display());
        let options = ["--own", state.to_str().unwrap(), "--zone", &zone];
        let ran = place.run(&options, "echo ran", &[("HOME", home.to_str().unwrap())]);
        assert!(ran.code == 125 && ran.stderr.contains(why) && ran.stdout.is_empty(), "{target}: {ran:?}");
        fs::remove_file(link).unwrap();
    }
    let zone = format!("/out={}", home.join("to-keys").display());
    place.run(&["--zone", &zone], "ls /out", &[("HOME", home.to_str().unwrap())]).ok();
}

/// A minimal root shows the files that its program consists of; a program that lies where the inside can
/// write has no say in what they are.
#[test]
fn a_planted_program_shows_nothing_more() {
    for caller in callers() {
        let place = Place::new(*caller);
        let (canary, text) = place.canary();
        let script = format!("#!/usr/bin/env -S/workspace/reader {}\n", canary.display());
        place
            .sh(&format!(
                "cp /usr/bin/cat reader; printf '%s' '{script}' > tool; chmod +x tool; ln -s tool link"
            ))
            .ok();
        for name in ["tool", "link"] {
            let tool = place.workspace(name);
            let run = |off: &[(&str, &str)]| {
                let mut launch = place.launch(&["--minimal"], &[tool.to_str().unwrap()]);
                Ran::from(launch.envs(off.iter().copied()).output().unwrap())
            };
            let ran = run(&[]);
            assert!(ran.code == 127 && !ran.stdout.contains(&text), "{name}: {ran:?}");
            let ran = run(OFF);
            assert!(ran.stdout.contains(&text), "the attack works without the check: {ran:?}");
        }
    }
}
