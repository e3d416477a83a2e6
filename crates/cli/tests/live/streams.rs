//! Input and output: exact, bounded, and there when time runs out.

use std::time::Duration;

use pinfold_core::outcome::{Exit, LimitKind};
use pinfold_engine::live::{Command, Piece};

use crate::harness::{Host, assert_works, mark, python, run, said, sh, timed_out, until_gone, waiting};

/// Bytes without a pattern that a buffer's length could hide.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[test]
fn input_and_output_are_exact_to_the_byte() {
    let host = Host::new();
    let sandbox = host.sandbox();
    let bytes = noise(64 << 20);
    for at_once in [false, true] {
        let other = at_once.then(|| waiting(&sandbox));
        let outcome = run(&sandbox, &Command::new("cat").input(bytes.clone()));
        assert!(
            outcome.stdout.bytes == bytes && outcome.stdout.dropped == 0,
            "{} bytes",
            outcome.stdout.bytes.len()
        );
        drop(other);
    }
    let small = run(&sandbox, &sh("cat >&2; printf '\\000\\377\\n'").input(vec![0, 255, 10, 13, 27]));
    assert_eq!(
        (&small.stdout.bytes[..], &small.stderr.bytes[..]),
        (&[0, 255, 10][..], &[0, 255, 10, 13, 27][..])
    );
    // One that does not read, or not all, is no failure.
    assert_eq!(run(&sandbox, &Command::new("true").input(bytes.clone())).exit, Exit::Code(0));
    assert_eq!(said(&sandbox, &sh("head -c 3 | od -An -tx1").input(bytes)).split_whitespace().count(), 3);
    assert_eq!(said(&sandbox, &Command::new("wc").arg("-c")).trim(), "0", "no input is the end of it");
}

#[test]
fn output_without_end_is_bounded_and_labelled() {
    let host = Host::new();
    for on_limit in ["kill", "truncate"] {
        let asked = host.asked().set("proc.maxOutputBytes", 65536).set("proc.onOutputLimit", on_limit);
        let sandbox = host.runner.blueprint(&asked).unwrap().boot().unwrap();
        for _ in 0..3 {
            let outcome = match on_limit {
                "kill" => run(&sandbox, &Command::new("yes")),
                _ => run(&sandbox, &sh("yes | head -c 30000000")),
            };
            assert!(outcome.stdout.bytes.len() <= 65536 && outcome.stdout.dropped > 0, "{outcome:?}");
            match on_limit {
                "kill" => {
                    assert_eq!((outcome.limit, outcome.exit), (Some(LimitKind::Output), Exit::Signal(9)));
                }
                _ => {
                    assert_eq!((outcome.limit, outcome.exit), (None, Exit::Code(0)));
                    assert_eq!(outcome.stdout.bytes.len() as u64 + outcome.stdout.dropped, 30_000_000);
                }
            }
            // One endless line, and less than the sandbox allows.
            let outcome = run(&sandbox, &sh("head -c 20000000 /dev/zero").max_output_bytes(1000));
            assert!(outcome.stdout.bytes.len() <= 1000, "{} bytes", outcome.stdout.bytes.len());
            assert_works(&sandbox);
        }
        let more = run(&sandbox, &sh("yes | head -c 200000").max_output_bytes(u64::MAX));
        assert!(more.stdout.bytes.len() <= 65536, "no command gets more than its sandbox has");
    }
}

#[test]
fn a_time_out_is_an_error_with_what_was_said_so_far() {
    let host = Host::new();
    let sandbox = host.sandbox();
    for at_once in [false, true] {
        let other = at_once.then(|| waiting(&sandbox));
        let mark = mark();
        let script = format!("echo before; echo aside >&2; sleep 1000 # {mark}");
        let ended = sandbox.exec(&sh(script).timeout(Duration::from_millis(700))).unwrap().output();
        let outcome = timed_out(ended);
        assert!(outcome.timed_out && outcome.limit == Some(LimitKind::Wall), "{outcome:?}");
        assert_eq!(
            (&outcome.stdout.bytes[..], &outcome.stderr.bytes[..]),
            (&b"before\n"[..], &b"aside\n"[..])
        );
        until_gone(&mark);
        assert_works(&sandbox);
        drop(other);
    }
    let asked = host.asked().set("proc.timeoutMs", 700);
    let sandbox = host.runner.blueprint(&asked).unwrap().boot().unwrap();
    let longer = sh("echo up; sleep 1000").timeout(Duration::from_secs(10_000));
    assert_eq!(timed_out(sandbox.exec(&longer).unwrap().output()).stdout.bytes, b"up\n");
    assert_works(&sandbox);
}

#[test]
fn a_child_that_holds_the_output_open_keeps_nobody_waiting() {
    let host = Host::new();
    let sandbox = host.sandbox();
    for at_once in [false, true] {
        let other = at_once.then(|| waiting(&sandbox));
        let mark = mark();
        let held = format!(
            "import os, time\nif os.fork() == 0:\n  os.setsid()\n  time.sleep(1000) # {mark}\nprint('done', flush=True); os._exit(3)"
        );
        let outcome = run(&sandbox, &python(&held));
        assert_eq!((outcome.exit, &outcome.stdout.bytes[..]), (Exit::Code(3), &b"done\n"[..]));
        until_gone(&mark);
        // It may live on, and holds nobody up either.
        let outcome = run(&sandbox, &python(&held).keep_background());
        assert_eq!((outcome.exit, &outcome.stdout.bytes[..]), (Exit::Code(3), &b"done\n"[..]));
        assert_eq!(crate::harness::processes(&mark).len(), 1);
        drop(other);
    }
}

#[test]
fn output_comes_as_it_is_written() {
    let host = Host::new();
    let sandbox = host.sandbox();
    let mut execution = sandbox
        .exec(&sh("echo one; read line; echo two >&2; echo $line").input(b"three\n".to_vec()))
        .unwrap();
    let mut pieces = Vec::new();
    while let Some(piece) = execution.next_piece().unwrap() {
        pieces.push(piece);
    }
    let all = |wanted: fn(&Piece) -> Option<&Vec<u8>>| {
        pieces.iter().filter_map(wanted).flatten().copied().collect::<Vec<u8>>()
    };
    let out = all(|piece| if let Piece::Stdout(bytes) = piece { Some(bytes) } else { None });
    let errors = all(|piece| if let Piece::Stderr(bytes) = piece { Some(bytes) } else { None });
    assert_eq!((&out[..], &errors[..]), (&b"one\nthree\n"[..], &b"two\n"[..]));
    assert_eq!(execution.output().unwrap().stdout.bytes, out);
}
