//! Reading and diagnosing must agree: what one refuses the other explains, and what one accepts the other leaves alone.

use proptest::prelude::*;

use super::*;
use crate::document::Document;
use crate::node;
use crate::profile::Profile;
use crate::yaml;

const COMPLETE: &str = include_str!("../../../../docs/examples/complete.yaml");

/// What takes the place of a value.
fn value() -> impl Strategy<Value = Value> {
    let text = |text: &str| Value::Text(text.to_owned());
    let item = Node { value: Value::Null, span: Span { line: 1, column: 1, length: 1 } };
    let number = Node { value: Value::Integer(5), ..item.clone() };
    let entry = Entry { key: "name".to_owned(), key_span: item.span, node: number.clone() };
    prop::sample::select(vec![
        Value::Null,
        Value::Bool(true),
        Value::Integer(0),
        Value::Integer(-1),
        Value::Integer(7),
        Value::Integer(i64::MAX),
        Value::Integer(1 << 32),
        Value::Float(1.5),
        Value::Float(1.0),
        text(""),
        text(" "),
        text("yes"),
        text("required"),
        text("ro"),
        text("30s"),
        text("LANG"),
        text("GET"),
        text("**/x"),
        text("./x"),
        text("a.example"),
        text("a\0b"),
        Value::List(Vec::new()),
        Value::List(vec![item]),
        Value::List(vec![number]),
        Value::Map(Vec::new()),
        Value::Map(vec![entry]),
    ])
}

fn key() -> impl Strategy<Value = String> {
    let known =
        ["net", "version", "lock", "deny", "name", "mode", "match", "examples", "limit.cpu", "A", "9", ""];
    prop_oneof![prop::sample::select(known.map(str::to_owned).to_vec()), "[a-zA-Z.]{1,6}"]
}

/// Changes the `at`th value, or its key.
fn change(node: &mut Node, at: &mut usize, new: &Value, key: Option<&str>) {
    if *at == 0 && key.is_none() {
        node.value = new.clone();
    }
    *at = at.wrapping_sub(1);
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| change(item, at, new, key)),
        Value::Map(entries) => {
            for i in 0..entries.len() {
                if let Some(key) = key
                    && *at == 0
                    && entries.iter().all(|entry| entry.key != key)
                {
                    entries[i].key = key.to_owned();
                }
                change(&mut entries[i].node, at, new, key);
            }
        }
        _ => {}
    }
}

fn count(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(items) => items.iter().map(count).sum(),
        Value::Map(entries) => entries.iter().map(|entry| count(&entry.node)).sum(),
        _ => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reading_accepts_what_diagnosis_has_nothing_to_say_about(
        which in 0usize..7,
        changes in prop::collection::vec((any::<prop::sample::Index>(), value(), prop::option::of(key())), 0..4),
    ) {
        let text = Profile::ALL.get(which).map_or(COMPLETE, |profile| profile.text());
        let source = Source::new("changed", text);
        let mut node = yaml::parse(&source).unwrap();
        for (at, new, key) in &changes {
            let mut at = at.index(count(&node));
            change(&mut node, &mut at, new, key.as_deref());
        }
        let read = node::read::<Document>(&node, &source);
        let found = diagnose(&node, &source);
        // The version's type takes any number; that only one is known is checked after reading.
        let accepted = read.as_ref().is_ok_and(|document| document.version.is_none_or(|version| version == 1));
        prop_assert_eq!(accepted, found.is_empty(), "{:?}\n{}\n{:?}", read.err(), found, node);
    }
}

/// The random changes above seldom meet a given place with a given key; this meets all of them.
#[test]
fn reading_and_diagnosis_agree_about_every_key_in_every_place() {
    let keys = [".", "..", "a.b", "a/b", "", " ", "9", "A", "a\0b", "net", "*", "~", "é", "PINFOLD_X"];
    for text in Profile::ALL.iter().map(|profile| profile.text()).chain([COMPLETE]) {
        let source = Source::new("changed", text);
        let original = yaml::parse(&source).unwrap();
        for (at, key) in (0..count(&original)).flat_map(|at| keys.map(|key| (at, key))) {
            let mut node = original.clone();
            change(&mut node, &mut { at }, &Value::Null, Some(key));
            let read = node::read::<Document>(&node, &source);
            let found = diagnose(&node, &source);
            assert_eq!(read.is_ok(), found.is_empty(), "{key:?} at {at}: {found}");
        }
    }
}
