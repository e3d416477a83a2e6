//! The end (classes 29, 30): with the command, with the time, or with the supervisor, everything inside is
//! gone, however hard it tried to stay; and nothing writes afterwards.

use pinfold_conformance::host::{SOON, processes, until};
use pinfold_conformance::live::Live;
use pinfold_conformance::place::PROBE;
use pinfold_conformance::{Place, canary, case, each};
use rustix::process::Signal;

/// The ways in which something inside tries to stay. Each is told to the probe's daemon after its mark.
const STAYS: &[&[&str]] = &[&[], &["closed"], &["stopped"], &["write", "/workspace/beat"]];

fn words<'a>(mark: &'a str, how: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec![PROBE, "daemon", mark];
    words.extend(how);
    words
}

/// Nothing with this mark runs any more, and what it wrote stays as it is.
fn assert_gone(place: &Place, mark: &str, how: &[&str]) {
    assert!(until(SOON, || processes(mark).is_empty()), "{how:?} lives on: {:?}", processes(mark));
    if how.first() == Some(&"write") {
        // Its last write may have been on the way when it was killed, none comes after.
        let read = || std::fs::read(place.workspace("beat")).unwrap_or_default();
        let last = read();
        let moved = until(std::time::Duration::from_millis(50), || read() != last);
        assert!(!moved, "it still writes");
    }
}

#[test]
fn at_a_normal_end() {
    each(case!("normal"), |place| {
        for how in STAYS {
            let mark = canary::random();
            place.run().command(words(&mark, how)).ok();
            assert_gone(place, &mark, how);
        }
    });
}

/// The daemon is really there while the command runs, or its absence afterwards says nothing.
#[test]
fn the_daemon_does_run_meanwhile() {
    each(case!("control"), |place| {
        let mark = canary::random();
        let script = format!("{PROBE} daemon {mark} && echo started && read x");
        let mut live = Live::start(place.run().prepare(&[], ["sh", "-c", &script]));
        while live.line() != "started" {}
        // The shell's own words have the mark in them too; the daemon has not.
        let daemon = || {
            processes(&mark).into_iter().any(|pid| {
                std::fs::read(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|words| words.windows(7).any(|part| part == b"linger\0"))
            })
        };
        assert!(until(SOON, daemon), "no daemon on the host");
        live.hang_up();
        live.wait();
        assert_gone(place, &mark, &[]);
    });
}

#[test]
fn at_the_time_limit() {
    each(case!("time-out"), |place| {
        for how in STAYS {
            let mark = canary::random();
            let script = format!(
                "trap '' TERM HUP INT; {PROBE} daemon {mark} {}; while :; do read x; sleep 60; done",
                how.join(" ")
            );
            let done = place.run().options(["--timeout", "300ms"]).command(["sh", "-c", &script]);
            assert_eq!(done.status, Some(124), "{done:?}");
            assert_eq!((&done.json["timed_out"], &done.json["limit"]), (&true.into(), &"wall".into()));
            assert_gone(place, &mark, how);
        }
    });
}

#[test]
fn when_the_supervisor_is_killed() {
    each(case!("killed"), |place| {
        for how in STAYS {
            let mark = canary::random();
            let script = format!("{PROBE} daemon {mark} {}; echo started; read x", how.join(" "));
            let mut live = Live::start(place.run().prepare(&[], ["sh", "-c", &script]));
            while live.line() != "started" {}
            live.signal(Signal::KILL);
            live.wait();
            assert_gone(place, &mark, how);
        }
    });
}

/// A stopped supervisor does not keep the sandbox alive beyond its own death either.
#[test]
fn when_the_supervisor_is_stopped_and_killed() {
    each(case!("stopped"), |place| {
        let mark = canary::random();
        let script = format!("{PROBE} daemon {mark}; echo started; read x");
        let mut live = Live::start(place.run().prepare(&[], ["sh", "-c", &script]));
        while live.line() != "started" {}
        live.signal(Signal::STOP);
        live.signal(Signal::KILL);
        live.wait();
        assert_gone(place, &mark, &[]);
    });
}

/// A signal to the supervisor reaches the command; what the command leaves behind goes with it.
#[test]
fn when_the_command_is_signalled() {
    each(case!("signalled"), |place| {
        for (signal, name, code) in
            [(Signal::TERM, "TERM", 7), (Signal::INT, "INT", 8), (Signal::HUP, "HUP", 9)]
        {
            let mark = canary::random();
            let script = format!(
                "{PROBE} daemon {mark}; trap 'echo caught; exit {code}' {name}; echo started; while :; do \
                    read x || sleep 0.05; done"
            );
            let mut live = Live::start(place.run().prepare(&[], ["sh", "-c", &script]));
            while live.line() != "started" {}
            live.signal(signal);
            let (status, rest) = live.wait();
            assert!(rest.contains("caught"), "{name} did not reach the command: {rest:?}");
            assert_eq!(status.code(), Some(code));
            assert_gone(place, &mark, &[]);
        }
    });
}

/// Too many processes (class 65): the limit stops them, and the host is none the worse.
#[test]
fn a_fork_bomb_is_bounded() {
    each(case!("bomb"), |place| {
        let answer = place.run().options(["--processes", "20"]).probe(&["fork-until-refused"]);
        let made = answer.value().as_i64().expect("a number");
        assert!((10..20).contains(&made), "{made} processes were made with a limit of 20");
        let done = place
            .run()
            .options(["--processes", "20", "--timeout", "500ms"])
            .shell("f() { f | f & }; f; f; while :; do :; done");
        assert!(done.status.is_some_and(|code| code != 0), "{done:?}");
    });
}
