//! Files: what is outside cannot be reached, by mounts and by Landlock, each alone; what is inside is what
//! was asked.

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;

use crate::harness::{Caller, Place, callers};

#[test]
fn files_outside_can_be_neither_read_nor_written() {
    for caller in callers() {
        let place = Place::new(*caller);
        let (canary, text) = place.canary();
        let attack =
            format!("echo inside > /workspace/control; cat {0}; echo broken > {0}", canary.display());
        for defence in ["none", "landlock", "mounts"] {
            let ran = place.sh_without(defence, &attack);
            assert_ne!(ran.code, 0, "without {defence}: {ran:?}");
            assert!(!ran.stdout.contains(&text), "without {defence}: {ran:?}");
            assert_eq!(fs::read_to_string(&canary).unwrap(), text, "without {defence}");
            assert_eq!(
                fs::read_to_string(place.workspace("control")).unwrap(),
                "inside\n",
                "without {defence}"
            );
        }
        // Written by root's own sandbox, the file would be an unprivileged id's that is not its owner.
        fs::set_permissions(&canary, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        let ran = place.sh_without("landlock,mounts", &attack).ok();
        assert!(ran.stdout.contains(&text), "the attack works without both: {ran:?}");
        assert_eq!(fs::read_to_string(&canary).unwrap(), "broken\n");
    }
}

#[test]
fn the_system_is_there_and_read_only() {
    for caller in callers() {
        let place = Place::new(*caller);
        place.sh("test -x /usr/bin/env && test -r /etc/passwd && test -d /scratch/home && test -w /tmp").ok();
        for path in ["/x", "/usr/x", "/etc/x", "/dev/x", "/bin/x", "/proc/x", "/.pinfold/x"] {
            let ran = place.sh(&format!("touch {path}"));
            assert_ne!(ran.code, 0, "{path}: {ran:?}");
        }
        assert_eq!(place.sh("cat /etc/shadow /etc/machine-id /etc/hostname").stdout, "");
        assert_eq!(place.sh("cat /etc/passwd | head -n1 | cut -d: -f6").stdout, "/scratch/home\n");
    }
}

#[test]
fn a_read_only_root_has_no_writable_memory_but_declared_zones() {
    let place = Place::new(callers()[0]);
    place.run(&["--readonly-root"], "echo x > /tmp/x && echo x > /scratch/x", &[]).ok();
    assert_ne!(place.run(&["--readonly-root"], "echo x > /dev/shm/x", &[]).code, 0);
    place.sh("echo x > /dev/shm/x").ok();
}

#[test]
fn shown_paths_have_the_access_that_was_asked_for() {
    for caller in callers() {
        let place = Place::new(*caller);
        let (canary, text) = place.canary();
        let outside = place.path("outside");
        let (outside, canary) = (outside.to_str().unwrap(), canary.display());
        let ran = place.run(&["--read", outside], &format!("cat {canary}; echo x > {canary}"), &[]);
        assert!(ran.stdout == text && ran.code != 0, "{ran:?}");
        place.run(&["--write", outside], &format!("echo x > {outside}/new && cat {canary}"), &[]).ok();
        assert_eq!(fs::read_to_string(place.path("outside/new")).unwrap(), "x\n");
    }
}

#[test]
fn a_zone_in_a_zone_works_where_it_has_a_place() {
    for caller in callers() {
        let place = Place::new(*caller);
        let inner = place.workspace("inner");
        fs::create_dir(&inner).unwrap();
        place.give(&inner);
        let zone = format!("/workspace/inner={}", place.path("outside").display());
        place.run(&["--zone", &zone], "echo x > inner/new; echo y > beside", &[]).ok();
        assert!(place.path("outside/new").exists() && place.workspace("beside").exists());
        assert!(!inner.join("new").exists());
        place.run(&["--tmpfs", "/scratch/deep/zone=1"], "echo x > /scratch/deep/zone/x", &[]).ok();
    }
}

#[test]
fn a_mount_point_below_a_link_is_refused() {
    let place = Place::new(callers()[0]);
    std::os::unix::fs::symlink("/", place.workspace("link")).unwrap();
    let zone = format!("/workspace/link/etc={}", place.path("outside").display());
    let ran = place.run(&["--zone", &zone], "echo ran", &[]);
    assert!(ran.code == 125 && ran.stderr.contains("without following a link"), "{ran:?}");
}

#[test]
fn a_zone_given_as_a_link_is_what_it_leads_to() {
    for caller in callers() {
        let place = Place::new(*caller);
        let (_, text) = place.canary();
        std::os::unix::fs::symlink(place.path("outside"), place.path("link")).unwrap();
        let link = place.path("link");
        let link = link.to_str().unwrap();
        assert_eq!(place.run(&["--read", link], &format!("cat {link}/canary"), &[]).ok().stdout, text);
    }
}

#[test]
fn dangerous_entries_of_proc_are_covered() {
    for caller in callers() {
        let place = Place::new(*caller);
        for entry in ["keys", "key-users", "timer_list", "kcore", "sched_debug"] {
            let ran = place.sh(&format!("head -c1 /proc/{entry}"));
            assert_ne!(ran.code, 0, "{entry}: {ran:?}");
        }
        place.sh_without("masks", "test ! -e /proc/keys || head -c1 /proc/key-users").ok();
        for setting in ["kernel/core_pattern", "kernel/hostname", "vm/overcommit_memory"] {
            let ran = place.sh(&format!("echo x > /proc/sys/{setting}"));
            assert_ne!(ran.code, 0, "{setting}: {ran:?}");
            place.sh(&format!("cat /proc/sys/{setting}")).ok();
        }
        assert_eq!(place.sh("ls /sys").stdout, "");
    }
}

#[test]
fn the_hosts_mount_table_is_unchanged() {
    for caller in callers() {
        let place = Place::new(*caller);
        let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
        let before = mounts();
        let mut launch = place.launch(&["--protect", ".envrc"], &["sh", "-c", "echo ready; cat"]);
        let mut child = launch.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let during = mounts();
        child.stdin.take().unwrap().write_all(b"").unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(before, during);
        assert_eq!(before, mounts());
    }
}

#[test]
fn a_cover_that_the_host_takes_away_comes_back() {
    for caller in callers() {
        let place = Place::new(*caller);
        let file = place.workspace(".envrc");
        fs::write(&file, "first").unwrap();
        place.give(&file);
        let script = "echo ready; read go; for i in 1 2 3 4 5 6 7 8 9 10; do if echo inside > .envrc; then echo wrote; \
                      else echo refused; fi; sleep 0.05; done; cat .envrc";
        let mut launch = place.launch(&["--protect", ".envrc"], &["sh", "-c", script]);
        let mut child =
            launch.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        // A rename over a mount point detaches the mount in every other namespace.
        fs::write(place.path("outside/new"), "second").unwrap();
        place.give(&place.path("outside/new"));
        fs::rename(place.path("outside/new"), &file).unwrap();
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        // Whoever was quick enough to open the file before it was covered again is ended with all else.
        if child.wait().unwrap().code() == Some(125) {
            let mut why = String::new();
            child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            assert!(why.contains("uncovered by a change on the host"), "{why}");
            continue;
        }
        assert!(said.contains("refused\n"), "{said}");
        assert!(said.trim_end().ends_with("second") || said.contains("wrote"), "{said}");
    }
}

#[test]
fn what_is_denied_in_the_system_cannot_be_read() {
    for caller in callers() {
        let place = Place::new(*caller);
        for (glob, attack) in [
            ("/usr/share/**", "ls /usr/share"),
            ("/usr/share", "ls /usr/share/"),
            ("/usr/lib/os-release", "cat /usr/lib/os-release"),
            ("/usr/lib/os-release", "cat /etc/os-release"),
            ("/etc/os-release", "cat /usr/lib/os-release"),
            ("/usr/lib/os-releas?", "cat /usr/lib/os-release"),
            ("/lib/os-release", "cat /usr/lib/os-release"),
        ] {
            place.run(&[], attack, &[]).ok();
            let ran = place.run(&["--deny", glob], attack, &[]);
            assert!(ran.code != 0 && ran.stdout.is_empty(), "{glob}: {attack}: {ran:?}");
            assert!(ran.stderr.contains("denied"), "{glob}: {attack}: {ran:?}");
            place.run(&["--deny", glob], attack, &[("PINFOLD_WITHOUT", "masks,landlock")]).ok();
        }
        place.run(&["--deny", "/usr/share/**"], "ls /usr/bin >/dev/null", &[]).ok();
    }
}

/// A debug build that shows the whole host does not look at it: no placeholders, no records, no walk.
#[test]
fn without_mounts_nothing_but_the_zones_is_surveyed() {
    let place = Place::new(Caller::Me);
    place.sh_without("mounts", "true").ok();
    let names = fs::read_dir(place.path("state")).unwrap().flatten().map(|entry| entry.path());
    let records: Vec<_> = names.filter(|path| path.extension().is_some_and(|end| end == "names")).collect();
    assert_eq!(records.len(), 1, "{records:?}");
}
