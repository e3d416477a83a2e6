//! The published schema against everything that is valid and everything that is not.
#![allow(clippy::unwrap_used)] // all of it is a test

mod tree;

use std::path::{Path, PathBuf};

use jsonschema::Validator;
use pinfold_policy::layer::check;
use pinfold_policy::problem::Source;
use pinfold_policy::profile::Profile;
use pinfold_policy::schema::schema;
use proptest::prelude::*;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn validator() -> Validator {
    jsonschema::draft202012::new(schema()).unwrap()
}

fn yaml_files(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

/// The cases of `plans` that come out as `expectation`, with that file's text.
fn cases(expectation: &str) -> Vec<(PathBuf, String)> {
    let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let directories = std::fs::read_dir(plans).unwrap().map(|entry| entry.unwrap().path());
    directories
        .filter_map(|path| Some((path.clone(), std::fs::read_to_string(path.join(expectation)).ok()?)))
        .collect()
}

/// Every document that is valid: profiles, examples, the blocks of the reference, the cases that plan.
fn valid() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        Profile::ALL.iter().map(|profile| (profile.to_string(), profile.text().to_owned())).collect();
    let examples = yaml_files(&root().join("docs/examples"));
    assert!(examples.len() >= 5, "{} examples", examples.len());
    all.extend(examples);
    let reference = std::fs::read_to_string(root().join("docs/policy.md")).unwrap();
    let blocks: Vec<&str> =
        reference.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 5, "{} blocks in docs/policy.md", blocks.len());
    all.extend(
        blocks
            .iter()
            .enumerate()
            .map(|(i, block)| (format!("docs/policy.md, block {}", i + 1), (*block).to_owned())),
    );
    for (directory, _) in cases("plan.json") {
        all.extend(yaml_files(&directory));
    }
    all
}

#[test]
fn the_schema_is_one() {
    jsonschema::meta::validate(schema()).unwrap();
    assert_eq!(schema()["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

#[test]
fn the_schema_and_the_reader_accept_what_is_valid() {
    let validator = validator();
    for (name, text) in valid() {
        let document = tree::json(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
        let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        if let Err(problems) = check(&Source::new(name.as_str(), text)) {
            panic!("{name}:\n{problems}");
        }
    }
}

#[test]
fn the_schema_rejects_what_is_built_wrong() {
    let validator = validator();
    let mut rejected = 0;
    for (directory, error) in cases("error.txt") {
        // Unknown keys, wrong types and misplaced keys; what only the values or the layers show is not its business.
        let shape =
            ["PF-POLICY-002", "PF-POLICY-004", "PF-POLICY-006"].iter().any(|code| error.contains(code));
        if !shape || directory.join("request.json").exists() {
            continue;
        }
        let wrong = yaml_files(&directory)
            .into_iter()
            .any(|(_, text)| tree::json(&text).is_ok_and(|document| !validator.is_valid(&document)));
        assert!(wrong, "{}", directory.display());
        rejected += 1;
    }
    assert!(rejected >= 12, "{rejected} cases");
}

#[test]
fn every_example_plans() {
    use pinfold_core::path::AbsPath;
    use pinfold_policy::document::Base;
    use pinfold_policy::layer::{Layer, LayerKind, Trust, settle};
    for (name, text) in yaml_files(&root().join("docs/examples")) {
        let directory = AbsPath::new("/srv/project").unwrap();
        let home = AbsPath::new("/home/me").unwrap();
        let base = Base { directory: &directory, home: Some(&home) };
        let layers =
            Layer::load(LayerKind::File, Trust::Full, Source::new(name.as_str(), text), base, &|_| {
                Err("an example stands alone".to_owned())
            });
        if let Err(problems) = layers.and_then(|layers| settle(&layers)) {
            panic!("{problems}");
        }
    }
}

/// What a mutation puts in place of a value.
fn replacement() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..5_000_000_000).prop_map(Value::from),
        Just(Value::from(1.5)),
        prop::sample::select(vec![
            "",
            " ",
            "yes",
            "30s",
            "256",
            "ro",
            "required",
            "../x",
            "**/a",
            "*.example.org:443",
            "\u{1b}[2J",
            "a\0b"
        ])
        .prop_map(Value::from),
        Just(serde_json::json!([])),
        Just(serde_json::json!({})),
        Just(serde_json::json!([null])),
        Just(serde_json::json!([5])),
        Just(serde_json::json!({"a": 1})),
    ]
}

/// How a key is misspelt or moved.
fn rename() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "net",
            "proc",
            "enabled",
            "deny",
            "name",
            "mode",
            "hostPath",
            "maxMemoryMB",
            "limit.memory",
            "match"
        ])
        .prop_map(str::to_owned),
        "[a-zA-Z_.]{0,8}",
        "\\PC{0,4}",
    ]
}

/// The places of a document, maps and lists counted as they come.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// Replaces the `at`th place, or renames its key.
fn mutate(value: &mut Value, at: &mut usize, with: &Value, key: Option<&str>) {
    if *at == 0 && key.is_none() {
        *value = with.clone();
    }
    let Some(rest) = at.checked_sub(1) else {
        *at = usize::MAX;
        return;
    };
    *at = rest;
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| mutate(item, at, with, key)),
        Value::Object(map) => {
            for (name, mut inner) in std::mem::take(map) {
                let name = if *at == 0 { key.unwrap_or(&name).to_owned() } else { name };
                mutate(&mut inner, at, with, key);
                map.insert(name, inner);
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// The reader refuses whatever the schema rejects, and what it refuses it shows a place for.
    #[test]
    fn the_reader_is_no_laxer_than_the_schema(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), replacement(), prop::option::of(rename())), 1..4),
    ) {
        let valid = valid();
        let (_, text) = which.get(&valid);
        let mut document = tree::json(text).unwrap();
        for (at, with, key) in &changes {
            let mut at = at.index(count(&document));
            mutate(&mut document, &mut at, with, key.as_deref());
        }
        let text = document.to_string();
        match check(&Source::new("mutated.yaml", text.as_str())) {
            // Empty sections are written with nothing after the colon; the schema knows no such thing.
            Ok(()) => prop_assert!(
                document.is_null() || validator().is_valid(&tree::without_empty(&document)), "accepted, and the schema rejects: {}", text
            ),
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                for problem in problems.iter() {
                    let place = problem.place();
                    prop_assert!(place.is_some_and(|place| place.line >= 1 && place.column >= 1), "{}", problem);
                }
            }
        }
    }
}
