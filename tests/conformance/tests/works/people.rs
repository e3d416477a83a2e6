//! What a person sees besides the command: the receipt, the record, `doctor` and `explain`.

use pinfold_conformance::{case, each};

#[test]
fn the_receipt_names_a_mechanism_for_every_control() {
    each(case!("receipt"), |place| {
        let done = place.run().shell("true").ok();
        let lines = done.json["receipt"].as_array().expect("a receipt");
        assert!(lines.len() >= 29, "{} controls", lines.len());
        for line in lines {
            let held =
                line["status"] == "missing" || !line["mechanism"].as_str().unwrap_or_default().is_empty();
            assert!(held, "no mechanism: {line}");
            if line["requirement"] == "required" {
                assert_eq!(line["status"], "enforced", "{line}");
            }
        }
    });
}

#[test]
fn a_run_is_in_the_record_when_it_starts_and_when_it_ends() {
    each(case!("record"), |place| {
        place.run().shell("exit 3");
        place.run().shell("true").ok();
        let record = place.read("state/pinfold/record.jsonl");
        let events = ["started", "completed", "started", "completed"];
        assert_eq!(record.lines().count(), events.len(), "{record}");
        for (line, event) in record.lines().zip(events) {
            assert!(line.contains(&format!("execution.{event}")), "{line}");
        }
        for line in record.lines() {
            serde_json::from_str::<serde_json::Value>(line).expect("a line of JSON");
        }
    });
}

#[test]
fn doctor_and_explain_agree_with_the_run() {
    each(case!("doctor"), |place| {
        let doctor = place.pinfold(&["doctor"]).output().expect("doctor");
        assert!(
            doctor.status.success() && String::from_utf8_lossy(&doctor.stdout).contains(place.backend.name)
        );
        let explain = place.pinfold(&["explain", "--json", "--", "true"]).output().expect("explain");
        let json: serde_json::Value = serde_json::from_slice(&explain.stdout).expect("JSON");
        let done = place.run().shell("true").ok();
        assert_eq!(json["wall"]["runs"], true, "{json}");
        assert_eq!(
            json["wall"]["receipt"].as_array().map(Vec::len),
            done.json["receipt"].as_array().map(Vec::len)
        );
    });
}
