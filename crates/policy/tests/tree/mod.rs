//! YAML as JSON, read without the engine: what an editor with the published schema sees.

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// The document of `text`. Sections with nothing in them are left out: an editor sees them while they are written.
pub(crate) fn json(text: &str) -> Result<Value, String> {
    let events: Result<Vec<Event<'_>>, String> = Parser::new_from_str(text)
        .map(|event| event.map(|(event, _)| event).map_err(|error| error.to_string()))
        .collect();
    let around = |event: &Event<'_>| {
        matches!(event, Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd)
    };
    let mut events = events?.into_iter().filter(|event| !around(event));
    match events.next() {
        None => Ok(Value::Object(Map::new())),
        Some(first) => value(first, &mut events).map(|document| without_empty(&document)),
    }
}

fn value<'a>(event: Event<'a>, events: &mut dyn Iterator<Item = Event<'a>>) -> Result<Value, String> {
    match event {
        Event::Scalar(text, ScalarStyle::Plain, ..) => Ok(scalar(&text)),
        Event::Scalar(text, ..) => Ok(Value::String(text.into_owned())),
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match events.next().ok_or("a list has no end")? {
                    Event::SequenceEnd => return Ok(Value::Array(items)),
                    event => items.push(value(event, events)?),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut map = Map::new();
            loop {
                match events.next().ok_or("a map has no end")? {
                    Event::MappingEnd => return Ok(Value::Object(map)),
                    Event::Scalar(key, ..) => {
                        let event = events.next().ok_or("a key has no value")?;
                        map.insert(key.into_owned(), value(event, events)?);
                    }
                    other => return Err(format!("{other:?} is no key")),
                }
            }
        }
        other => Err(format!("{other:?} is no value")),
    }
}

fn scalar(text: &str) -> Value {
    let radix =
        |prefix, radix| text.strip_prefix(prefix).and_then(|digits| i64::from_str_radix(digits, radix).ok());
    match text {
        "" | "~" | "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match text.parse::<i64>().ok().or_else(|| radix("0x", 16)).or_else(|| radix("0o", 8)) {
            Some(number) => number.into(),
            None if text.starts_with(|c: char| c.is_ascii_digit()) => {
                text.parse::<f64>().map_or_else(|_| text.into(), Value::from)
            }
            None => text.into(),
        },
    }
}

/// The sections, maps and lists that may be written with nothing after the colon.
const MAY_BE_EMPTY: &[&str] = &[
    "lock",
    "sandbox",
    "fs",
    "net",
    "proc",
    "security",
    "env",
    "tools",
    "requirements",
    "zones",
    "allowedReadPaths",
    "allowedWritePaths",
    "deny",
    "protect",
    "allowlist",
    "blocklist",
    "rules",
    "pass",
    "set",
    "allow",
    "ask",
    "patterns",
    "commands",
    "methods",
    "paths",
    "examples",
    "credential",
    "budget",
];

/// `value` without the keys that may be empty and are.
pub(crate) fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, value)| !(value.is_null() && MAY_BE_EMPTY.contains(&key.as_str())))
            .map(|(key, value)| (key.clone(), without_empty(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}
