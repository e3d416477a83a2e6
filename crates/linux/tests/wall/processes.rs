//! Processes: nothing outside is seen or reached, and nothing but what was given comes in.

use std::net::TcpListener;
use std::process::Command;

use crate::harness::{Place, Ran, callers};

#[test]
fn processes_of_the_host_are_invisible_and_cannot_be_signalled() {
    for caller in callers() {
        let place = Place::new(*caller);
        let ran = place.sh("ls /proc | grep -c '^[0-9]'").ok();
        assert!(ran.stdout.trim().parse::<u32>().unwrap() <= 5, "{ran:?}");
        let mut sleeper = Command::new("sleep");
        place.as_caller(&mut sleeper);
        let mut sleeper = sleeper.arg("1000").spawn().unwrap();
        let ran = place.sh(&format!("kill -9 {0} || test ! -e /proc/{0}", sleeper.id())).ok();
        assert!(ran.stderr.contains("o such process"), "{ran:?}");
        assert!(sleeper.try_wait().unwrap().is_none());
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}

#[test]
fn the_guest_shows_nothing_and_cannot_be_touched() {
    for caller in callers() {
        let place = Place::new(*caller);
        let ran = place.run(&[], "tr -d '\\0' < /proc/1/cmdline", &[("PINFOLD_TEST_SECRET", "hush")]).ok();
        assert_eq!(ran.stdout, "");
        for file in ["environ", "mem", "maps", "fd/3", "root/etc/passwd", "auxv"] {
            let ran = place.sh(&format!("cat /proc/1/{file}"));
            assert!(ran.code != 0 && ran.stdout.is_empty(), "{file}: {ran:?}");
        }
        place.sh("kill -9 1; kill -TERM 1; kill -STOP 1; echo alive").ok();
    }
}

#[test]
fn only_the_environment_of_the_plan_is_inside() {
    for caller in callers() {
        let place = Place::new(*caller);
        let secret = [("PINFOLD_TEST_SECRET", "hush")];
        let ran = place.run(&["--env", "GIVEN=yes"], "env; cat /proc/*/environ 2>/dev/null", &secret);
        assert!(ran.stdout.contains("GIVEN=yes") && !ran.stdout.contains("hush"), "{ran:?}");
        let leak = [("PINFOLD_TEST_SECRET", "hush"), ("PINFOLD_WITHOUT", "environment")];
        assert!(place.run(&[], "env", &leak).stdout.contains("hush"));
    }
}

#[test]
fn no_descriptor_but_the_three_is_inside() {
    for caller in callers() {
        let place = Place::new(*caller);
        let run = |without: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", "exec 7</ 9</etc; exec \"$@\"", "sh"]).arg(place.program());
            shell.arg("--state").arg(place.path("state"));
            shell.args(["--", "sh", "-c", "ls /proc/$$/fd; :"]);
            place.as_caller(&mut shell);
            Ran::from(shell.env("PINFOLD_WITHOUT", without).output().unwrap()).ok().stdout
        };
        assert_eq!(run("none"), "0\n1\n2\n");
        assert!(run("descriptors").contains("7\n"), "the leak is seen without the defence");
    }
}

#[test]
fn there_is_no_network_but_loopback() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for caller in callers() {
        let place = Place::new(*caller);
        assert_eq!(place.sh("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '").ok().stdout, "lo\n");
        let connect = format!("exec bash -c 'echo > /dev/tcp/127.0.0.1/{port}'");
        assert_ne!(place.sh(&connect).code, 0);
        place.sh_without("netns", &connect).ok();
        let talk = "exec /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); \
                    s.listen(); c = socket.create_connection(s.getsockname()); c.sendall(b\"hi\"); \
                    print(s.accept()[0].recv(2).decode())'";
        assert_eq!(place.sh(talk).ok().stdout, "hi\n", "a server on localhost works");
    }
}

#[test]
fn every_process_is_confined() {
    for caller in callers() {
        let place = Place::new(*caller);
        let ran = place.sh("(grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status)").ok();
        for line in ran.stdout.lines() {
            let (name, value) = line.split_once(':').unwrap();
            let expected = match name {
                "NoNewPrivs" => "1",
                "Seccomp" => "2",
                _ => "0000000000000000",
            };
            assert_eq!(value.trim(), expected, "{name}");
        }
        let ran = place.sh_without("capabilities,no_new_privs,seccomp", "grep CapBnd /proc/self/status");
        assert!(!ran.stdout.contains("0000000000000000"), "seen without the defence: {ran:?}");
        assert_eq!(place.sh("cat /proc/self/oom_score_adj").ok().stdout, "500\n");
        assert_eq!(place.sh("uname -n").ok().stdout, "pinfold\n");
    }
}

#[test]
fn the_number_of_processes_is_bounded_and_the_guest_is_not_counted() {
    for caller in callers() {
        let place = Place::new(*caller);
        place.run(&["--processes", "3"], "true & true & wait", &[]).ok();
        let ran = place.run(&["--processes", "3"], "sleep 9 & sleep 9 & sleep 9 & sleep 9 & echo $?", &[]);
        assert!(ran.stderr.contains("fork"), "{ran:?}");
        assert_eq!(place.run(&["--processes", "1"], "exec echo one", &[]).ok().stdout, "one\n");
    }
}
