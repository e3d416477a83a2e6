//! What the kernel makes of filter, Landlock rules, capabilities and limits: every attempt is made behind
//! them and, as the control, without them; and ordinary programs still run. Each attempt runs in a process of
//! its own: this test binary again, told what to try by its environment.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "confine/attempts.rs"]
mod attempts;
#[path = "confine/modes.rs"]
mod modes;
#[path = "confine/paths.rs"]
mod paths;
#[path = "confine/programs.rs"]
mod programs;
#[path = "confine/runner.rs"]
mod runner;

use std::os::unix::process::ExitStatusExt;

use runner::{User, Wall, run};

/// Not a test of its own: what the others run in a fresh process.
#[test]
fn inside() {
    runner::inside();
}

/// Users that a test can be repeated as: this one and, for root, one without any privilege.
fn users() -> Vec<User> {
    if rustix::process::getuid().is_root() { vec![User::Same, User::Nobody] } else { vec![User::Same] }
}

#[test]
fn refused_calls_never_reach_the_kernel() {
    let control = run("refused", Wall::None, User::Same);
    for user in users() {
        for wall in [Wall::Default, Wall::Strict, Wall::Debug, Wall::Shared] {
            let held = run("refused", wall, user);
            for (name, _, verdict) in attempts::REFUSED {
                assert_eq!(held[*name], *verdict, "{name} behind {wall:?} as {user:?}");
            }
        }
    }
    // The arguments are nonsense, so a kernel that sees the call says so. Where it says the same as the
    // filter the call is not built in, or not for this user: there must be few of those, and none that
    // matters most.
    let same: Vec<_> = attempts::REFUSED
        .iter()
        .filter(|(name, _, verdict)| control.get(*name).is_some_and(|answer| answer == verdict))
        .map(|(name, ..)| *name)
        .collect();
    assert!(same.len() <= 12, "{same:?}");
    for name in ["io_uring_setup", "keyctl", "bpf", "userfaultfd", "setns", "clone3", "openat2", "open_tree"]
    {
        assert!(!same.contains(&name), "{name} is refused without a filter too");
    }
}

#[test]
fn namespaces_are_refused_and_processes_and_threads_are_not() {
    let control = run("namespaces", Wall::None, User::Same);
    assert_eq!(control["clone user"], "ok");
    for user in users() {
        let held = run("namespaces", Wall::Default, user);
        for kind in ["mount", "cgroup", "uts", "ipc", "user", "pid", "net"] {
            assert_eq!(held[&format!("clone {kind}")], "EPERM", "{kind}");
            assert_eq!(held[&format!("unshare {kind}")], "EPERM", "{kind}");
        }
        assert_eq!(held["unshare time"], "EPERM");
        for ordinary in ["fork", "thread", "unshare files"] {
            assert_eq!(held[ordinary], "ok", "{ordinary}");
        }
    }
}

#[test]
fn only_ordinary_sockets_exist() {
    let control = run("sockets", Wall::None, User::Same);
    for (name, ..) in attempts::BAD_SOCKETS.iter().filter(|(_, _, _, _, controlled, _)| *controlled) {
        assert_eq!(control[*name], "ok", "{name} is refused without a filter too");
    }
    for user in users() {
        for wall in [Wall::Default, Wall::Debug] {
            let held = run("sockets", wall, user);
            for (name, .., verdict) in attempts::BAD_SOCKETS {
                assert_eq!(held[*name], *verdict, "{name}");
            }
            for (name, ..) in attempts::GOOD_SOCKETS {
                assert_eq!(held[*name], "ok", "{name}");
            }
            assert_eq!(held["pair inet"], "EAFNOSUPPORT");
            assert_eq!(held["pair unix"], "ok");
        }
        let strict = run("sockets", Wall::Strict, user);
        let shared = run("sockets", Wall::Shared, user);
        for (name, ..) in attempts::GOOD_SOCKETS {
            assert_eq!(strict[*name], "EPERM", "{name}");
            let expected = if name.starts_with("unix") { "ok" } else { "EAFNOSUPPORT" };
            assert_eq!(shared[*name], expected, "{name}");
        }
        assert_eq!(strict["pair unix"], "ok");
    }
}

#[test]
fn set_id_modes_and_devices_cannot_be_left_behind() {
    let control = run("modes", Wall::None, User::Same);
    for user in users() {
        let held = run("modes", Wall::Default, user);
        for (name, answer) in &held {
            match name.split_once(' ') {
                Some(("set-id", how)) => {
                    assert!(
                        control[name].starts_with("planted"),
                        "{how} fails without a filter: {}",
                        control[name]
                    );
                    assert_eq!(answer, "EPERM", "{how} as {user:?}");
                }
                Some(("device", how)) => assert_eq!(answer, "EPERM", "{how}"),
                Some(("plain", how)) => assert_eq!(answer, "ok", "{how}"),
                _ => panic!("{name}"),
            }
        }
    }
    if rustix::process::getuid().is_root() {
        assert_eq!(control["device mknod"], "ok");
    }
}

#[test]
fn nothing_is_typed_into_a_terminal() {
    let control = run("terminal", Wall::None, User::Same);
    let held = run("terminal", Wall::Default, User::Same);
    for request in ["TIOCSTI", "TIOCSTI with high bits", "TIOCLINUX", "TIOCSETD"] {
        assert_ne!(control[request], "EPERM", "{request}");
        assert_eq!(held[request], "EPERM", "{request}");
    }
    assert_eq!(held["TIOCGWINSZ"], "ok");
    if rustix::process::getuid().is_root() {
        assert_eq!(control["typed"], "yes");
    }
    assert_eq!(held["typed"], "no");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn foreign_abis_are_killed_or_absent() {
    let control = runner::start("int80", Wall::None, User::Same);
    let held = runner::start("int80", Wall::Default, User::Same);
    assert!(control.status.success() || control.status.signal() == Some(libc::SIGSEGV), "{control:?}");
    assert_eq!(held.status.signal(), Some(libc::SIGSYS));
    let numbers = run("numbers", Wall::Default, User::Same);
    assert!(numbers.values().all(|answer| answer == "ENOSYS"), "{numbers:?}");
}

#[test]
fn each_profile_lets_through_what_it_is_for() {
    for user in users() {
        let [none, default, strict, debug, shared] =
            [Wall::None, Wall::Default, Wall::Strict, Wall::Debug, Wall::Shared]
                .map(|wall| run("profiles", wall, user));
        let expected = [
            ("ptrace", ["ok", "EPERM", "EPERM", "ok", "EPERM"]),
            ("process_vm_readv", ["ok", "EPERM", "EPERM", "ok", "EPERM"]),
            ("no randomisation", ["ok", "EPERM", "EPERM", "ok", "EPERM"]),
            ("read implies exec", ["ok", "EPERM", "EPERM", "EPERM", "EPERM"]),
            ("personality query", ["ok", "ok", "EPERM", "ok", "ok"]),
            ("listener", ["ok", "EPERM", "EPERM", "EPERM", "EPERM"]),
            ("own filter", ["ok", "ok", "ok", "ok", "ok"]),
            ("PR_SET_MM", ["EINVAL", "EPERM", "EPERM", "EPERM", "EPERM"]),
            ("PR_SET_NAME", ["ok", "ok", "ok", "ok", "ok"]),
            ("shmget", ["ok", "ok", "EPERM", "ok", "EPERM"]),
            ("own limit", ["ok", "ok", "ok", "ok", "ok"]),
            ("limit of another", ["ok", "EPERM", "EPERM", "EPERM", "EPERM"]),
        ];
        for (name, answers) in expected {
            let seen = [&none, &default, &strict, &debug, &shared].map(|results| results[name].as_str());
            if name == "PR_SET_MM" {
                assert_ne!(seen[0], "ok");
                assert_eq!(seen[1..], answers[1..], "{name}");
            } else {
                assert_eq!(seen, answers, "{name} as {user:?}: none, default, strict, debug, shared");
            }
        }
    }
}

#[test]
fn every_thread_has_the_filter() {
    let held = run("threads", Wall::Default, User::Same);
    assert_eq!(held["started before"], "EPERM");
    assert_eq!(held["started after"], "EPERM");
    assert_eq!(run("threads", Wall::None, User::Same)["started before"], "ok");
}

#[test]
fn capabilities_are_gone_for_good() {
    let root = rustix::process::getuid().is_root();
    if root {
        let control = run("capabilities", Wall::None, User::Same);
        assert_ne!(control["CapEff"], "0000000000000000");
        let held = run("capabilities", Wall::Capabilities, User::Same);
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(held[set], "0000000000000000", "{set}");
            assert_eq!(held[&format!("after exec {set}")], "0000000000000000", "{set}");
        }
        assert_eq!(held["chown"], "EPERM");
        assert_eq!(control["chown"], "ok");
    }
    let user = if root { User::Nobody } else { User::Same };
    let held = run("capabilities", Wall::Capabilities, user);
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(held[set], "0000000000000000", "{set}");
    }
}

#[test]
fn limits_hold_and_no_core_is_left() {
    let held = run("limits", Wall::Limits, User::Same);
    assert_eq!(held["descriptors"], "EMFILE after 20 or fewer");
    assert_eq!(held["file size"], "EFBIG");
    assert_eq!(held["raise"], "EPERM");
    assert_eq!(held["core"], "none");
    let control = run("limits", Wall::None, User::Same);
    assert_eq!(control["descriptors"], "ok");
    assert_eq!(control["file size"], "ok");
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    if pattern.trim() == "core" {
        assert_eq!(control["core"], "left");
    }
}
