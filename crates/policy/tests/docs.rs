//! The reference, `docs/policy.md`, against the code: its tables of keys and of profiles are what the schema and the
//! profiles say, and every error code is in it. `UPDATE_CASES=1 cargo test` writes the tables.
#![allow(clippy::unwrap_used)] // all of it is a test

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pinfold_core::control::Control;
use pinfold_policy::document::Base;
use pinfold_policy::layer::{Layer, LayerKind, Settled, Trust, settle};
use pinfold_policy::problem::Source;
use pinfold_policy::profile::Profile;
use pinfold_policy::schema::schema;
use serde_json::Value;

fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy.md")
}

fn under(profile: Profile) -> Settled {
    let directory = pinfold_core::path::AbsPath::root();
    let base = Base { directory: &directory, home: None };
    let source = Source::new("profile", format!("extends: {profile}\n"));
    let layers = Layer::load(LayerKind::File, Trust::Full, source, base, &|_| Err(String::new())).unwrap();
    settle(&layers).unwrap()
}

fn resolve(schema: &'static Value, of: &'static Value) -> &'static Value {
    let pointer = of.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix('#'));
    pointer.and_then(|pointer| schema.pointer(pointer)).unwrap_or(of)
}

/// What a value may be, in words.
fn kind(of: &'static Value) -> String {
    let of = resolve(schema(), of);
    let names = |list: &'static Value, name: fn(&'static Value) -> Option<&'static str>| {
        list.as_array()
            .map(|list| list.iter().filter_map(name).map(|name| format!("`{name}`")).collect::<Vec<_>>())
    };
    let named = of.get("enum").and_then(|list| names(list, Value::as_str));
    let named = named.or_else(|| of.get("oneOf").and_then(|list| names(list, |one| one["const"].as_str())));
    if let Some(named) = named {
        return if named.len() > 20 { "a name".into() } else { named.join(", ") };
    }
    if let Some(choices) = of.get("anyOf").and_then(Value::as_array) {
        return choices.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    match (of["type"].as_str(), of["format"].as_str()) {
        (Some("boolean"), _) => "true or false".into(),
        (Some("integer"), _) => "whole number".into(),
        (Some("number"), _) => format!("number from {} to {}", of["minimum"], of["maximum"]),
        (Some("array"), _) => format!("list of: {}", kind(&of["items"])),
        (Some("object"), _) if of.get("properties").is_some() => "map".into(),
        (Some("object"), _) => format!("map: name to {}", kind(&of["additionalProperties"])),
        (Some("string"), Some("pinfold-net-entry" | "pinfold-destination")) => {
            "[destination](#destinations)".into()
        }
        (Some("string"), Some("pinfold-glob")) => "[glob](#globs)".into(),
        (Some("string"), Some("pinfold-path")) => "[path](#paths)".into(),
        (Some("string"), _) => "text".into(),
        other => panic!("{other:?}: {of}"),
    }
}

/// The keys of a map, a row each, and after them the maps that are in it.
fn table(out: &mut String, section: &str, of: &'static Value, defaults: &dyn Fn(&str) -> Option<String>) {
    let of = resolve(schema(), of);
    let properties = of["properties"].as_object().unwrap();
    let required: Vec<&str> =
        of["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut inner = Vec::new();
    out.push_str("| key | type | default | meaning |\n|---|---|---|---|\n");
    for (key, value) in properties {
        let full = if section.is_empty() { key.clone() } else { format!("{section}.{key}") };
        let default = match defaults(&full) {
            _ if required.contains(&key.as_str()) => "must be given".to_owned(),
            Some(default) => format!("`{default}`"),
            None => "none".to_owned(),
        };
        let meaning =
            value["description"].as_str().or_else(|| resolve(schema(), value)["description"].as_str());
        let meaning = meaning.unwrap_or_else(|| panic!("{full} has no description")).replace('\n', " ");
        writeln!(out, "| `{full}` | {} | {default} | {meaning} |", kind(value)).unwrap();
        let item = resolve(schema(), resolve(schema(), value).get("items").unwrap_or(value));
        let long = item.get("anyOf").and_then(Value::as_array).and_then(|choices| choices.last());
        let item = resolve(schema(), long.unwrap_or(item));
        let list = if resolve(schema(), value).get("items").is_some() { "[]" } else { "" };
        if item.get("properties").is_some() {
            inner.push((format!("{full}{list}"), item));
        }
    }
    for (section, of) in inner {
        writeln!(
            out,
            "\nIn `{section}`: {}\n",
            of["description"].as_str().unwrap_or_default().replace('\n', " ")
        )
        .unwrap();
        table(out, &section, of, &|_| None);
    }
}

fn keys() -> String {
    let mut out = String::new();
    let default = under(Profile::Default);
    let rows = default.policy.rows();
    let defaults = |key: &str| {
        let row = rows.iter().find(|row| row.key == key).filter(|row| !row.value.is_null())?;
        Some(match &row.value {
            Value::String(text) if text.is_empty() => return None,
            Value::String(text) => text.clone(),
            value => value.to_string().replace(":", ": ").replace(",", ", ").replace('"', ""),
        })
    };
    let properties = schema()["properties"].as_object().unwrap();
    out.push_str("### At the top\n\n| key | type | meaning |\n|---|---|---|\n");
    for (key, value) in properties {
        let meaning = value["description"].as_str().unwrap();
        writeln!(out, "| `{key}` | {} | {meaning} |", kind(value)).unwrap();
    }
    for section in ["sandbox", "fs", "net", "proc", "security", "env", "tools"] {
        let of = &properties[section];
        writeln!(out, "\n### {section}\n\n{}\n", of["description"].as_str().unwrap()).unwrap();
        table(&mut out, section, of, &defaults);
    }
    out.push_str("\n### requirements\n\nHow much is insisted on, control by control: `required`, `at_least_partial` or ");
    out.push_str("`best_effort`. What a policy does not state is required for isolation, and at least partial for limits.\n\n");
    out.push_str("| control | promise |\n|---|---|\n");
    for control in Control::ALL {
        writeln!(out, "| `{control}` | {} |", control.promise()).unwrap();
    }
    out
}

fn profiles() -> String {
    let mut out = String::from("| |");
    Profile::ALL.iter().for_each(|profile| write!(out, " {profile} |").unwrap());
    out.push_str("\n|---|---|---|---|---|---|---|\n");
    let settled: Vec<Settled> = Profile::ALL.into_iter().map(under).collect();
    let shown = [
        ("isolation at least", "sandbox.isolationLevel"),
        ("workspace", "fs.workspace"),
        ("reads", "fs.reads"),
        ("denied", "fs.deny"),
        ("network", "net.enabled"),
        ("allow list", "net.allowlist"),
        ("memory MB", "proc.maxMemoryMB"),
        ("CPU s", "proc.maxCpuSeconds"),
        ("wall ms", "proc.timeoutMs"),
        ("disk MB", "proc.maxDiskMB"),
        ("processes and threads", "proc.maxProcesses"),
        ("descriptors", "proc.maxFileDescriptors"),
        ("output bytes", "proc.maxOutputBytes"),
        ("at the output limit", "proc.onOutputLimit"),
        ("read-only root", "security.readOnlyRootFilesystem"),
        ("system calls", "security.seccompProfile"),
    ];
    for (title, key) in shown {
        write!(out, "| {title} |").unwrap();
        for settled in &settled {
            let row = settled.policy.rows().into_iter().find(|row| row.key == key).unwrap();
            let text = match &row.value {
                Value::Bool(value) => if *value { "yes" } else { "no" }.to_owned(),
                Value::Array(items) => items
                    .iter()
                    .map(|item| format!("`{}`", item.as_str().unwrap()))
                    .collect::<Vec<_>>()
                    .join(" "),
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            write!(out, " {text} |").unwrap();
        }
        out.push('\n');
    }
    out
}

#[test]
fn the_tables_are_what_the_code_says() {
    let mut text = std::fs::read_to_string(reference()).unwrap();
    let before = text.clone();
    for (name, table) in [("profiles", profiles()), ("keys", keys())] {
        let (open, close) = (format!("<!-- {name}: written by a test -->\n"), format!("<!-- /{name} -->"));
        let start = text.find(&open).unwrap() + open.len();
        let end = text.find(&close).unwrap();
        text.replace_range(start..end, &format!("\n{table}\n"));
    }
    if std::env::var_os("UPDATE_CASES").is_some_and(|value| value == "1") {
        std::fs::write(reference(), &text).unwrap();
        return;
    }
    let line = before.lines().zip(text.lines()).find(|(old, new)| old != new);
    assert!(before == text, "docs/policy.md differs: {line:?}; UPDATE_CASES=1 writes it");
}

/// Every key of the schema, at every depth, stands in the reference.
#[test]
fn every_key_is_in_the_reference() {
    fn walk(of: &Value, text: &str, found: &mut usize) {
        match of {
            Value::Object(map) => {
                for key in
                    map.get("properties").and_then(Value::as_object).into_iter().flat_map(|map| map.keys())
                {
                    let mentioned = text.contains(&format!("`{key}`")) || text.contains(&format!(".{key}`"));
                    assert!(mentioned, "`{key}` is not in docs/policy.md");
                    *found += 1;
                }
                map.values().for_each(|value| walk(value, text, found));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, text, found)),
            _ => {}
        }
    }
    let text = std::fs::read_to_string(reference()).unwrap();
    let mut found = 0;
    walk(schema(), &text, &mut found);
    assert!(found >= 60, "{found} keys");
}

/// Every code that the engine gives stands in the reference, and the other way round.
#[test]
fn every_code_is_in_the_reference() {
    let text = std::fs::read_to_string(reference()).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut given: Vec<String> = Vec::new();
    for file in ["problem.rs", "planner.rs"] {
        let code = std::fs::read_to_string(source.join(file)).unwrap();
        given.extend(
            code.split("=> \"")
                .filter_map(|part| part.split('"').next())
                .filter(|code| code.starts_with("PF-"))
                .map(str::to_owned),
        );
    }
    let listed: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| PF-"))
        .map(|line| format!("PF-{}", &line[..line.find(' ').unwrap()]))
        .collect();
    assert_eq!(given, listed);
}
