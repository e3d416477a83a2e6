//! Limits as `pinfold run` shows them: the exit status, the line that names the limit, the warning before it, and what the
//! receipt claims.
#![allow(clippy::unwrap_used)]

mod place;

use place::{Place, json, stderr};
use serde_json::Value;

/// Whether this caller gets control groups here: then, and only then, the receipt may claim them.
fn has_groups(place: &Place) -> bool {
    status(&json(&place.run(&["run", "--json", "--", "true"])), "limit.memory") == "enforced"
}

fn status(outcome: &Value, control: &str) -> String {
    let lines = outcome["receipt"].as_array().unwrap();
    let line = lines.iter().find(|line| line["control"] == control).unwrap();
    line["status"].as_str().unwrap().to_owned()
}

#[test]
fn a_limit_is_named_and_a_warning_comes_before_it() {
    let place = Place::new();
    let hungry = "x = []\nwhile True: x.append(bytearray(1 << 20))";
    for (args, limit, warning) in [
        (&["--memory", "48M", "--", "/usr/bin/python3", "-c", hungry][..], "memory", " of 48 MB"),
        (&["--cpu", "1s", "--", "sh", "-c", "while :; do :; done & while :; do :; done"], "cpu", " of 1 s"),
        (&["--", "yes"], "output", "output: 65536 of 65536 bytes"),
    ] {
        let output = place.run(&[&["run"][..], args].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(137), "{text}");
        let killed =
            text.find(&format!("pinfold: killed by limit `{limit}`")).unwrap_or_else(|| panic!("{text}"));
        let warned = text.find(&format!("pinfold: warning: {limit}: ")).unwrap_or_else(|| panic!("{text}"));
        assert!(warned < killed && text[warned..killed].contains(warning), "{text}");
    }
    let output = place.run(&["run", "--timeout", "500ms", "--", "sleep", "1000"]);
    assert_eq!(output.status.code(), Some(124));
    assert!(stderr(&output).contains("pinfold: warning: wall: 0."), "{}", stderr(&output));
    let calm = place.run(&["run", "--", "true"]);
    assert!(calm.status.success() && calm.stderr.is_empty(), "{}", stderr(&calm));
}

#[test]
fn the_receipt_claims_no_more_than_there_is() {
    let place = Place::new();
    let here = json(&place.run(&["run", "--json", "--", "true"]));
    let without =
        place.command(&["run", "--json", "--", "true"]).env("PINFOLD_PRETEND_MISSING", "cgroup").output();
    let without = json(&without.unwrap());
    for control in ["limit.memory", "limit.cpu"] {
        assert_eq!(status(&without, control), "partial", "{control}");
        assert_eq!(
            status(&here, control),
            if has_groups(&place) { "enforced" } else { "partial" },
            "{control}"
        );
    }
    assert_eq!(status(&here, "limit.disk"), "partial", "the workspace is writable");
}

#[test]
fn strict_runs_where_every_limit_holds_and_nowhere_else() {
    let place = Place::new();
    let mut strict = place.command(&["run", "--profile", "strict", "--", "true"]);
    let refused = strict.env("PINFOLD_PRETEND_MISSING", "cgroup").output().unwrap();
    assert_eq!(refused.status.code(), Some(125), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("limit.memory"), "{}", stderr(&refused));
    if has_groups(&place) {
        for command in [&["/bin/true"][..], &["sh", "-c", "true"]] {
            let output = place.run(&[&["run", "--profile", "strict", "--"][..], command].concat());
            assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
        }
        let two = place.run(&["run", "--profile", "strict", "--", "sh", "-c", "true & wait"]);
        assert!(!two.status.success() && stderr(&two).contains("refused beyond 1"), "{}", stderr(&two));
    }
}

#[test]
fn usage_is_the_kernels() {
    let place = Place::new();
    if !has_groups(&place) {
        return;
    }
    let script = "x = bytearray(60 << 20)\nimport threading, time\n\
                  ts = [threading.Thread(target=time.sleep, args=(0.2,)) for _ in range(4)]\n[t.start() for t in ts]";
    let outcome = json(&place.run(&["run", "--json", "--", "/usr/bin/python3", "-c", script]));
    let usage = |name: &str| outcome["usage"][name].as_u64().unwrap();
    assert!((60 << 20..100 << 20).contains(&usage("peak_memory_bytes")), "{outcome}");
    assert_eq!(usage("peak_processes"), 5, "{outcome}");
    assert!((1..2000).contains(&usage("cpu_ms")), "{outcome}");
    let warnings =
        json(&place.run(&["run", "--json", "--processes", "5", "--", "/usr/bin/python3", "-c", script]));
    assert_eq!(warnings["warnings"][0]["limitType"], "processes", "{warnings}");
    assert_eq!(warnings["limit"], Value::Null);
}
