//! Limits as a user meets them: which one ended a command is said, in the outcome and in words.

use pinfold_conformance::{case, each};

#[test]
fn time() {
    each(case!("time"), |place| {
        let output = place.run().options(["--timeout", "200ms"]).plain([
            "sh",
            "-c",
            "echo before; while :; do :; done",
        ]);
        assert_eq!(output.status.code(), Some(124), "{output:?}");
        assert_eq!(output.stdout, b"before\n", "what was written before is lost");
        assert!(String::from_utf8_lossy(&output.stderr).contains("wall"), "{output:?}");
    });
}

#[test]
fn processor() {
    each(case!("cpu"), |place| {
        let done = place.run().options(["--cpu", "1s", "--timeout", "20s"]).shell("while :; do :; done");
        assert_eq!((done.status, &done.json["limit"]), (Some(137), &"cpu".into()), "{done:?}");
    });
}

#[test]
fn descriptors() {
    each(case!("fds"), |place| {
        let done = place
            .run()
            .options(["--fds", "32"])
            .shell("ulimit -n; ulimit -n 1000 2>/dev/null && echo raised; true")
            .ok();
        assert_eq!(done.stdout(), "32\n");
    });
}

#[test]
fn disk() {
    each(case!("disk"), |place| {
        let done = place.run().options(["--disk", "1M"]).shell("head -c 3000000 /dev/zero >big");
        assert_ne!(done.status, Some(0), "{done:?}");
        let size = std::fs::metadata(place.workspace("big")).map_or(0, |found| found.len());
        assert!(size <= 1 << 20, "{size} bytes were written with a limit of 1M");
    });
}

#[test]
fn memory() {
    each(case!("memory"), |place| {
        let script = "x = []\nwhile True: x.append(bytearray(1 << 20))";
        let run = place.run().options([
            "--memory",
            "64M",
            "--timeout",
            "20s",
            "--zone",
            "tmp=tmpfs:1M",
            "--zone",
            "scratch=tmpfs:1M",
        ]);
        let done = run.command(["/usr/bin/python3", "-c", script]);
        assert_eq!((done.status, &done.json["limit"]), (Some(137), &"memory".into()), "{done:?}");
    });
}
