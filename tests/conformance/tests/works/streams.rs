//! Streams: input, output and errors come through as they are, however large, and apart from each other.

use std::io::Write;
use std::process::Stdio;

use pinfold_conformance::live::Live;
use pinfold_conformance::{case, each};
use rustix::process::Signal;

/// Every byte there is, many times.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 31 % 256) as u8).collect()
}

#[test]
fn every_byte_comes_through() {
    each(case!("bytes"), |place| {
        let sent = bytes(10_000);
        let output = place.run().input(&sent).plain(["cat"]);
        assert!(output.stdout == sent, "the bytes are not the same");
        assert!(output.stderr.is_empty());
        let done = place.run().input(&sent).command(["cat"]).ok();
        assert_eq!(done.json["stdout_encoding"], "base64");
    });
}

#[test]
fn a_great_deal_of_output_comes_through() {
    each(case!("large"), |place| {
        let sent = bytes(8 << 20);
        let output = place.run().options(["--profile", "build"]).input(&sent).plain(["cat"]);
        assert!(output.stdout == sent, "{} of {} bytes came", output.stdout.len(), sent.len());
    });
}

#[test]
fn output_and_errors_stay_apart() {
    each(case!("apart"), |place| {
        let output = place.run().plain(["sh", "-c", "echo out; echo err >&2; printf no-newline"]);
        assert_eq!(
            (output.stdout.as_slice(), output.stderr.as_slice()),
            (&b"out\nno-newline"[..], &b"err\n"[..])
        );
        let done = place.run().shell("echo out; echo err >&2");
        assert_eq!((done.stdout(), done.stderr()), ("out\n", "err\n"));
    });
}

#[test]
fn output_comes_as_it_is_written() {
    each(case!("at-once"), |place| {
        let mut live =
            Live::start(place.run().prepare(&[], ["sh", "-c", "while read x; do echo got $x; done"]));
        for word in ["one", "two", "three"] {
            live.say(word);
            assert_eq!(live.line(), format!("got {word}"));
        }
        live.hang_up();
        assert!(live.wait().0.success());
    });
}

/// Too much output ends the command, or is cut and counted, as the policy says.
#[test]
fn too_much_output_is_bounded() {
    each(case!("bounded"), |place| {
        let kill = place.run().options(["--output", "10K"]).command(["head", "-c", "1000000", "/dev/zero"]);
        assert_eq!((kill.status, &kill.json["limit"]), (Some(137), &"output".into()), "{:?}", kill.words);
        let cut = place.run().options(["--output", "10K", "--set", "proc.onOutputLimit=truncate"]);
        let cut = cut.command(["head", "-c", "1000000", "/dev/zero"]);
        assert_eq!(cut.status, Some(0), "{:?}", cut.words);
        let dropped = cut.json["truncated"]["stdout"].as_u64().expect("a number");
        assert!((900_000..1_000_000).contains(&dropped), "{dropped} bytes dropped");
    });
}

/// Whoever reads stops: the command learns of it as it would without a wall.
#[test]
fn a_reader_that_leaves_ends_the_command() {
    each(case!("sigpipe"), |place| {
        let mut command = place.run().options(["--profile", "build"]).prepare(&[], ["yes"]);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("start");
        let mut output = child.stdout.take().expect("a pipe");
        std::io::Read::read_exact(&mut output, &mut [0; 100]).expect("some output");
        drop(output);
        let ended = pinfold_conformance::host::until(pinfold_conformance::host::PATIENCE, || {
            child.try_wait().expect("wait").is_some()
        });
        child.kill().unwrap_or_default();
        child.wait().expect("wait");
        assert!(ended, "it goes on writing to nobody");
    });
}

/// A signal that the command ignores leaves it running; one that it does not ends it with 128 and the number.
#[test]
fn signals_to_pinfold_reach_the_command() {
    each(case!("signals"), |place| {
        let mut live = Live::start(
            place.run().prepare(&[], ["sh", "-c", "trap '' USR1; echo ready; read x; echo heard $x"]),
        );
        assert_eq!(live.line(), "ready");
        live.signal(Signal::USR1);
        live.say("it");
        assert_eq!(live.line(), "heard it");
        assert!(live.wait().0.success());
        let mut live = Live::start(place.run().prepare(&[], ["sh", "-c", "echo ready; read x"]));
        assert_eq!(live.line(), "ready");
        live.signal(Signal::TERM);
        assert_eq!(live.wait().0.code(), Some(143));
    });
}

#[test]
fn stdin_from_a_file_and_from_nothing() {
    each(case!("stdin"), |place| {
        place.write("outside/input", "from a file\n");
        let mut command = place.run().prepare(&[], ["cat"]);
        command.stdin(std::fs::File::open(place.path("outside/input")).expect("open a file"));
        assert_eq!(command.output().expect("run").stdout, b"from a file\n");
        let mut command = place.run().prepare(&[], ["cat"]);
        assert_eq!(command.stdin(Stdio::null()).output().expect("run").stdout, b"");
        let mut log = std::fs::File::create(place.path("outside/log")).expect("make a file");
        log.write_all(b"before\n").expect("write");
        let mut command = place.run().prepare(&[], ["echo", "after"]);
        assert!(command.stdout(log).status().expect("run").success());
        assert_eq!(place.read("outside/log"), "before\nafter\n");
    });
}
