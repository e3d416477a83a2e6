//! Options of a command line as a layer. Each option is one line of its document, so that a problem points at
//! what was typed.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::document::{Base, Document};
use crate::layer::{Layer, LayerKind, Trust};
use crate::problem::{Code, Problem, Problems, Source, Span};
use crate::yaml::{self, Entry, Node, Value};

/// One option: what was typed, and the key and value it stands for. Several for one key make a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyOption {
    /// As typed, such as `--memory 256M`.
    pub typed: String,
    /// The key, such as `proc.maxMemoryMB`.
    pub key: String,
    /// The value.
    pub value: OptionValue,
}

/// What an option says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptionValue {
    /// A value that stands alone.
    One(Json),
    /// An item of a list.
    Item(Json),
    /// Text as it would stand in a document: `true`, `30`, `[a, b]`.
    Text(String),
}

/// The layer that `options` make.
pub fn layer(options: &[PolicyOption], base: Base<'_>) -> Result<Layer, Problems> {
    let text: Vec<String> = options.iter().map(|option| option.typed.replace('\n', "\\n")).collect();
    let source = Source::new("options", text.join("\n"));
    let first = Span { line: 1, column: 1, length: 1 };
    let mut root = Node { value: Value::Map(Vec::new()), span: first };
    for (i, option) in options.iter().enumerate() {
        let span = Span { line: i + 1, column: 1, length: text[i].chars().count().max(1) };
        let (value, item) = match &option.value {
            OptionValue::One(json) => (from_json(json, span), false),
            OptionValue::Item(json) => (from_json(json, span), true),
            OptionValue::Text(text) => (from_text(text, span, &source)?, false),
        };
        insert(&mut root, &option.key, value, item, span)
            .map_err(|why| Problem::new(Code::BadValue, why).at(&source, span))?;
    }
    let (mut document, node): (Document, Node) = crate::layer::read_node(root, &source)?;
    document
        .resolve(base)
        .map_err(|(key, why)| Problem::new(Code::BadValue, why).at(&source, node.locate(&key)))?;
    Ok(Layer::new(LayerKind::Options, Trust::Full, source, document, node))
}

fn from_json(json: &Json, span: Span) -> Node {
    let value = match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(value) => Value::Integer(value),
            None => Value::Float(number.as_f64().unwrap_or(f64::MAX)),
        },
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(items) => Value::List(items.iter().map(|item| from_json(item, span)).collect()),
        Json::Object(map) => Value::Map(
            map.iter()
                .map(|(key, value)| Entry { key: key.clone(), key_span: span, node: from_json(value, span) })
                .collect(),
        ),
    };
    Node { value, span }
}

/// Reads `text` as a document would, and places all of it at `span`.
fn from_text(text: &str, span: Span, source: &Source) -> Result<Node, Problems> {
    fn place(node: &mut Node, span: Span) {
        node.span = span;
        match &mut node.value {
            Value::List(items) => items.iter_mut().for_each(|item| place(item, span)),
            Value::Map(entries) => entries.iter_mut().for_each(|entry| {
                entry.key_span = span;
                place(&mut entry.node, span);
            }),
            _ => {}
        }
    }
    let mut node = yaml::parse(&Source::new("value", text))
        .map_err(|problem| Problem::new(problem.code, problem.message).at(source, span))?;
    place(&mut node, span);
    Ok(node)
}

fn insert(node: &mut Node, key: &str, value: Node, item: bool, span: Span) -> Result<(), String> {
    let Value::Map(entries) = &mut node.value else { return Err(format!("`{key}` cannot be set here")) };
    // The names of controls have dots in them; everything else nests.
    let (step, rest) = match key.split_once('.') {
        Some(("requirements", control)) => ("requirements", Some(control)),
        _ if key.starts_with(|c: char| c.is_lowercase()) && node_is_control(key) => (key, None),
        Some((step, rest)) => (step, Some(rest)),
        None => (key, None),
    };
    let index = match entries.iter().position(|entry| entry.key == step) {
        Some(index) => index,
        None => {
            let value = match (rest, item) {
                (Some(_), _) => Value::Map(Vec::new()),
                (None, true) => Value::List(Vec::new()),
                (None, false) => Value::Null,
            };
            entries.push(Entry { key: step.to_owned(), key_span: span, node: Node { value, span } });
            entries.len() - 1
        }
    };
    let entry = &mut entries[index];
    match (rest, &mut entry.node.value) {
        (Some(rest), _) => insert(&mut entry.node, rest, value, item, span),
        (None, Value::List(items)) if item => {
            items.push(value);
            Ok(())
        }
        (None, current) => {
            if *current != Value::Null {
                return Err(format!("`{key}` is given twice"));
            }
            entry.key_span = span;
            entry.node = value;
            Ok(())
        }
    }
}

fn node_is_control(key: &str) -> bool {
    key.parse::<pinfold_core::control::Control>().is_ok()
}

/// Reads `text`, a document on its own, as a layer of one query.
pub fn query(source: Source, base: Base<'_>) -> Result<Layer, Problems> {
    let mut layers = Layer::load(LayerKind::Query, Trust::Full, source, base, &|_| {
        Err("a query's policy can extend a profile, not a file".to_owned())
    })?;
    layers.pop().ok_or_else(Problems::default)
}

#[cfg(test)]
mod tests {
    use pinfold_core::path::AbsPath;

    use super::*;
    use crate::layer::settle;

    fn options(list: &[(&str, &str, OptionValue)]) -> Result<Layer, Problems> {
        let list: Vec<PolicyOption> = list
            .iter()
            .map(|(typed, key, value)| PolicyOption {
                typed: (*typed).to_owned(),
                key: (*key).to_owned(),
                value: value.clone(),
            })
            .collect();
        let directory = AbsPath::new("/here").expect("absolute");
        layer(&list, Base { directory: &directory, home: None })
    }

    #[test]
    fn a_problem_points_at_what_was_typed() {
        let problems = options(&[
            ("--memory 256M", "proc.maxMemoryMB", OptionValue::One(256.into())),
            ("--net http://x", "net.allowlist", OptionValue::Item("http://x".into())),
        ])
        .expect_err("a scheme");
        let shown = problems.to_string();
        assert!(shown.contains("options:2:1") && shown.contains("--net http://x"), "{shown}");
    }

    #[test]
    fn lists_come_on_top_and_values_replace() {
        let layer = options(&[
            ("--deny a", "fs.deny", OptionValue::Item("a".into())),
            ("--deny b", "fs.deny", OptionValue::Item("b".into())),
            (
                "--set requirements.limit.memory=required",
                "requirements.limit.memory",
                OptionValue::Text("required".into()),
            ),
            ("--profile strict", "extends", OptionValue::One("strict".into())),
        ])
        .expect("valid");
        let policy = settle(&[layer]).expect("settles").policy;
        let deny: Vec<String> = policy.fs.deny.value.iter().map(ToString::to_string).collect();
        assert!(deny.contains(&"a".to_owned()) && deny.contains(&"**/*.pem".to_owned()), "{deny:?}");
        assert_eq!(policy.requirements.len(), 7);
    }

    #[test]
    fn a_single_value_given_twice_is_refused() {
        let twice = [
            ("--memory 1G", "proc.maxMemoryMB", OptionValue::One(1024.into())),
            ("--set proc.maxMemoryMB=1", "proc.maxMemoryMB", OptionValue::Text("1".into())),
        ];
        assert!(options(&twice).expect_err("twice").to_string().contains("given twice"));
    }
}
