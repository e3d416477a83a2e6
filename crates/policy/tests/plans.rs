//! Planner cases as files: policy documents and a request in, a plan or an error out. One directory below `plans` is
//! one case.
//!
//! `UPDATE_CASES=1 cargo test` writes what comes out as what is expected; read the difference before keeping it.
#![allow(clippy::unwrap_used)] // all of it is a test

mod case;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use case::Case;

fn directories() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

#[test]
fn every_case_gives_what_its_directory_says() {
    let update = std::env::var_os("UPDATE_CASES").is_some_and(|value| value == "1");
    let cases = directories();
    assert!(cases.len() >= 48, "{} cases", cases.len());
    let mut failures = String::new();
    for directory in &cases {
        let case = Case::read(directory);
        let (name, text) = match case.run() {
            Ok(plan) => ("plan.json", plan),
            Err(error) => ("error.txt", error),
        };
        if update {
            for expectation in ["plan.json", "error.txt"].iter().filter(|other| **other != name) {
                let _ = std::fs::remove_file(directory.join(expectation));
            }
            std::fs::write(directory.join(name), &text).unwrap();
        }
        let title = directory.file_name().unwrap().to_string_lossy();
        for file in case.stale(name) {
            writeln!(failures, "{title}: nothing reads {file}").unwrap();
        }
        match std::fs::read_to_string(directory.join(name)) {
            Ok(expected) if expected == text => {}
            Ok(expected) => {
                writeln!(failures, "{title}: {name} differs\n{}", difference(&expected, &text)).unwrap();
            }
            Err(_) => writeln!(failures, "{title}: {name} is missing, and would be\n{text}").unwrap(),
        }
    }
    assert!(failures.is_empty(), "\n{failures}\nUPDATE_CASES=1 writes what comes out");
}

/// The lines from the first that differs to the last, expected ones with `-`, actual ones with `+`.
fn difference(expected: &str, actual: &str) -> String {
    let (expected, actual): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let same = expected.iter().zip(&actual).take_while(|(a, b)| a == b).count();
    let (expected, actual) = (&expected[same..], &actual[same..]);
    let tail = expected.iter().rev().zip(actual.iter().rev()).take_while(|(a, b)| a == b).count();
    let mut out = format!("  from line {}\n", same + 1);
    for (sign, lines) in [('-', expected), ('+', actual)] {
        for line in &lines[..lines.len() - tail] {
            writeln!(out, "  {sign} {line}").unwrap();
        }
    }
    out
}

/// What a terminal would obey must not survive in any message.
#[test]
fn no_expected_error_holds_a_character_that_hides() {
    for directory in directories() {
        let Ok(text) = std::fs::read_to_string(directory.join("error.txt")) else { continue };
        let hidden = text.chars().find(|c| *c != '\n' && pinfold_core::text::is_hidden(*c));
        assert_eq!(hidden, None, "{}", directory.display());
        assert!(text.contains("error[PF-"), "{}", directory.display());
    }
}
