//! Finds everything that is wrong with a document's shape, with the nearest valid key for each slip.
//!
//! Reading a document into its types decides whether it is valid; that stops at the first error. This walks the
//! schema of the same types over the whole tree, so that a person sees all of them at once.

use serde_json::Value as Schema;

use crate::document::FORMATS;
use crate::problem::{Code, MOST, Problem, Problems, Source, Span, nearest};
use crate::schema::schema;
use crate::yaml::{Entry, Node, Value};

/// Everything wrong with the shape of `node`.
pub(crate) fn diagnose(node: &Node, source: &Source) -> Problems {
    let mut walk = Walk { source, root: schema(), problems: Problems::default() };
    walk.node(node, walk.root, "");
    walk.problems
}

struct Walk<'a> {
    source: &'a Source,
    root: &'static Schema,
    problems: Problems,
}

impl Walk<'_> {
    /// Whether enough is said: looking on would only cost time.
    fn full(&self) -> bool {
        self.problems.len() >= MOST
    }

    fn say(&mut self, code: Code, message: String, span: Span, hint: Option<String>) {
        if !self.full() {
            let problem = Problem::new(code, message).at(self.source, span);
            self.problems.push(Problem { hint, ..problem });
        }
    }

    fn resolve(&self, schema: &'static Schema) -> &'static Schema {
        match schema.get("$ref").and_then(Schema::as_str).and_then(|r| r.strip_prefix('#')) {
            Some(pointer) => self.root.pointer(pointer).unwrap_or(schema),
            None => schema,
        }
    }

    fn node(&mut self, node: &Node, schema: &'static Schema, key: &str) {
        if self.full() {
            return;
        }
        let schema = self.resolve(schema);
        if let Some(choices) = schema.get("anyOf").and_then(Schema::as_array) {
            let fits = |choice: &&'static Schema| fits(&node.value, kind(self.resolve(choice)));
            return match choices.iter().find(fits) {
                Some(choice) => self.node(node, choice, key),
                None => self.wrong_type(
                    node,
                    key,
                    &words(choices.iter().map(|choice| kind(self.resolve(choice)))),
                ),
            };
        }
        if let Some(names) = enumeration(schema) {
            return self.name(node, key, &names);
        }
        if !fits(&node.value, kind(schema)) {
            return self.wrong_type(node, key, &words([kind(schema)]));
        }
        match &node.value {
            Value::Map(entries) => self.map(entries, schema, key, node.span),
            Value::Null if kind(schema) == "object" => self.map(&[], schema, key, node.span),
            Value::List(items) => {
                if let Some(schema) = schema.get("items") {
                    items.iter().for_each(|item| self.node(item, schema, key));
                }
            }
            Value::Text(text) => self.text(text, node.span, schema),
            Value::Integer(_) | Value::Float(_) => self.number(node, schema, key),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn map(&mut self, entries: &[Entry], schema: &'static Schema, section: &str, span: Span) {
        let empty = serde_json::Map::new();
        let properties = schema.get("properties").and_then(Schema::as_object).unwrap_or(&empty);
        for entry in entries {
            if self.full() {
                return;
            }
            let inner =
                if section.is_empty() { entry.key.clone() } else { format!("{section}.{}", entry.key) };
            match (properties.get(&entry.key), schema.get("additionalProperties")) {
                (Some(_), _) => {
                    // Looked up again in the static schema, which outlives this walk.
                    if let Some(schema) = schema.get("properties").and_then(|p| p.get(&entry.key)) {
                        self.node(&entry.node, schema, &inner);
                    }
                }
                (None, Some(Schema::Object(_))) => {
                    self.free_key(entry, schema, &inner);
                    self.node(&entry.node, &schema["additionalProperties"], &inner);
                }
                _ => self.unknown(entry, properties.keys().map(String::as_str), section),
            }
        }
        for required in schema.get("required").and_then(Schema::as_array).into_iter().flatten() {
            let Some(name) = required.as_str() else { continue };
            if !entries.iter().any(|entry| entry.key == name) {
                let span = entries.first().map_or(span, |entry| entry.key_span);
                self.say(Code::BadValue, format!("`{name}` is missing here"), span, None);
            }
        }
    }

    /// Keys that are data: the names of controls, the names of variables.
    fn free_key(&mut self, entry: &Entry, schema: &'static Schema, key: &str) {
        let names = schema.get("propertyNames").map(|schema| self.resolve(schema));
        if let Some(known) = names.and_then(enumeration) {
            if !known.contains(&entry.key.as_str()) {
                let hint = nearest(&entry.key, known).map(|near| format!("did you mean `{near}`?"));
                let message =
                    format!("`{}` is unknown in `{}`", entry.key, key.split('.').next().unwrap_or(key));
                self.say(Code::UnknownKey, message, entry.key_span, hint);
            }
        } else if let Some(schema) = names {
            self.text(&entry.key, entry.key_span, schema);
        }
    }

    fn unknown<'k>(&mut self, entry: &Entry, valid: impl Iterator<Item = &'k str> + Clone, section: &str) {
        let key = &entry.key;
        let elsewhere: Vec<String> = places(self.root, self.root, key, "");
        if let Some(place) = elsewhere.iter().find(|place| place.as_str() != section) {
            let place = if place.is_empty() { "the top level".to_owned() } else { format!("`{place}`") };
            let message = format!("`{key}` does not belong {}", at(section));
            return self.say(
                Code::MisplacedKey,
                message,
                entry.key_span,
                Some(format!("it belongs under {place}")),
            );
        }
        let hint = match (unit_slip(key, valid.clone()), nearest(key, valid.clone())) {
            (Some(slip), _) => slip,
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => match places_near(self.root, key) {
                Some((near, "")) => format!("did you mean `{near}`, at the top level?"),
                Some((near, place)) => format!("did you mean `{near}`, which belongs under `{place}`?"),
                None => format!("valid here: {}", valid.collect::<Vec<_>>().join(", ")),
            },
        };
        self.say(
            Code::UnknownKey,
            format!("unknown key `{key}` {}", at(section)),
            entry.key_span,
            Some(hint),
        );
    }

    fn wrong_type(&mut self, node: &Node, key: &str, expected: &str) {
        let hint = match &node.value {
            Value::Null => Some("write a value after the colon, or remove the key".to_owned()),
            Value::Text(text) if expected.contains("true") => match text.to_lowercase().as_str() {
                "yes" | "on" | "y" => Some("write true".to_owned()),
                "no" | "off" | "n" => Some("write false".to_owned()),
                _ => None,
            },
            Value::Text(text) if expected.contains("number") => number_slip(text, key),
            Value::Text(text) if expected == "a list" => Some(format!("write a list: [{text:?}]")),
            Value::Integer(_) | Value::Float(_) | Value::Bool(_) if expected == "text" => {
                Some("quote it to make it text".to_owned())
            }
            _ => None,
        };
        let message = match &node.value {
            value if key.is_empty() => format!("a policy is {expected}, not {}", value.kind()),
            Value::Null => format!("`{key}` has no value"),
            value => format!("`{key}` takes {expected}, not {}", value.kind()),
        };
        self.say(Code::WrongType, message, node.span, hint);
    }

    fn name(&mut self, node: &Node, key: &str, names: &[&'static str]) {
        match &node.value {
            Value::Text(text) if names.contains(&text.as_str()) => {}
            Value::Text(text) => {
                let hint = match nearest(text, names.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there are: {}", names.join(", ")),
                };
                self.say(Code::BadValue, format!("`{text}` is no value of `{key}`"), node.span, Some(hint));
            }
            _ => {
                let (message, hint) = match &node.value {
                    Value::Null => (format!("`{key}` has no value"), names.join(", ")),
                    value => (format!("`{key}` takes a name, not {}", value.kind()), names.join(", ")),
                };
                self.say(Code::WrongType, message, node.span, Some(format!("there are: {hint}")));
            }
        }
    }

    fn text(&mut self, text: &str, span: Span, schema: &'static Schema) {
        let Some(format) = schema.get("format").and_then(Schema::as_str) else { return };
        let Some((_, check)) = FORMATS.iter().find(|(name, _)| *name == format) else { return };
        if let Err(why) = check(text) {
            self.say(Code::BadValue, why, span, None);
        }
    }

    fn number(&mut self, node: &Node, schema: &'static Schema, key: &str) {
        let value = match node.value {
            Value::Integer(value) => value as f64,
            Value::Float(value) => value,
            _ => return,
        };
        let bound = |name: &str| schema.get(name).and_then(Schema::as_f64);
        let (low, high) = (bound("minimum").unwrap_or(f64::MIN), bound("maximum").unwrap_or(f64::MAX));
        if value < low || value > high {
            let message = match low == high {
                true => format!("`{key}` takes {low}"),
                false => format!("`{key}` takes a number from {low} to {high}"),
            };
            self.say(Code::BadValue, message, node.span, None);
        }
    }
}

fn at(section: &str) -> String {
    if section.is_empty() { "at the top level".to_owned() } else { format!("in `{section}`") }
}

fn kind(schema: &'static Schema) -> &'static str {
    schema.get("type").and_then(Schema::as_str).unwrap_or("any")
}

/// The names that a schema lists, whichever of the two ways it lists them in.
fn enumeration(schema: &'static Schema) -> Option<Vec<&'static str>> {
    if let Some(names) = schema.get("enum").and_then(Schema::as_array) {
        return names.iter().map(Schema::as_str).collect();
    }
    schema.get("oneOf")?.as_array()?.iter().map(|one| one.get("const")?.as_str()).collect()
}

fn fits(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => matches!(value, Value::Map(_) | Value::Null),
        "array" => matches!(value, Value::List(_) | Value::Null),
        "string" => matches!(value, Value::Text(_)),
        "integer" => matches!(value, Value::Integer(_)),
        "number" => matches!(value, Value::Integer(_) | Value::Float(_)),
        "boolean" => matches!(value, Value::Bool(_)),
        _ => true,
    }
}

fn words(kinds: impl IntoIterator<Item = &'static str>) -> String {
    let name = |kind| match kind {
        "object" => "a map",
        "array" => "a list",
        "string" => "text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        other => other,
    };
    kinds.into_iter().map(name).collect::<Vec<_>>().join(" or ")
}

/// The sections that have a key named `key`.
fn places(root: &Schema, schema: &Schema, key: &str, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let pointer = schema.get("$ref").and_then(Schema::as_str).and_then(|r| r.strip_prefix('#'));
    let schema = pointer.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema);
    for inner in schema
        .get("items")
        .into_iter()
        .chain(schema.get("anyOf").and_then(Schema::as_array).into_iter().flatten())
    {
        found.extend(places(root, inner, key, path));
    }
    let Some(properties) = schema.get("properties").and_then(Schema::as_object) else { return found };
    if properties.contains_key(key) {
        found.push(path.to_owned());
    }
    for (name, inner) in properties {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        found.extend(places(root, inner, key, &path));
    }
    found
}

/// The nearest key of any section, for one typed in the wrong place *and* with a slip.
fn places_near(root: &'static Schema, key: &str) -> Option<(&'static str, &'static str)> {
    let mut all: Vec<(&'static str, &'static str)> = Vec::new();
    for (section, _) in root["properties"].as_object()? {
        all.push((section, ""));
    }
    for known in crate::document::KEYS {
        if let Some((section, key)) = known.split_once('.') {
            all.push((key, section));
        }
    }
    let near = nearest(key, all.iter().map(|(key, _)| *key))?;
    all.into_iter().find(|(key, _)| *key == near)
}

/// A key without its unit: `timeout` for `timeoutMs`, `maxMemory` for `maxMemoryMB`.
fn unit_slip<'k>(key: &str, mut valid: impl Iterator<Item = &'k str>) -> Option<String> {
    let with_unit = valid.find(|valid| {
        ["Ms", "MB", "Seconds", "Bytes"].iter().any(|unit| valid.strip_suffix(unit) == Some(key))
    })?;
    Some(format!("did you mean `{with_unit}`? The name says the unit"))
}

/// A number with a unit, where the key's name says the unit already.
fn number_slip(text: &str, key: &str) -> Option<String> {
    use pinfold_core::quantity::{Size, Span as Elapsed};
    let plain = match key {
        _ if text.parse::<f64>().is_ok() => return Some(format!("write {text}, without quotes")),
        _ if key.ends_with("MB") => Size::parse(text).ok()?.as_mb_ceil().to_string(),
        _ if key.ends_with("Bytes") => Size::parse(text).ok()?.as_bytes().to_string(),
        _ if key.ends_with("Ms") => Elapsed::parse(text).ok()?.as_millis().to_string(),
        _ if key.ends_with("Seconds") => Elapsed::parse(text).ok()?.as_secs_ceil().to_string(),
        _ => return None,
    };
    Some(format!("write {plain}: a plain number, in the unit that the key names"))
}

#[cfg(test)]
mod tests;
