//! Text to a tree of values that know where they stand. The only file that knows YAML's parser.
//!
//! A policy needs maps, lists and scalars. Anchors, aliases, tags, merge keys, directives and further documents
//! are refused, which leaves nothing that grows while it is read; size, depth and count are bounded besides.

use granit_parser::{Event, Parser, ScalarStyle, options};

use crate::problem::{Code, Problem, Source, Span};

/// Largest document read, in bytes. Ten thousand rules fit.
pub(crate) const MAX_BYTES: usize = 4 << 20;
const MAX_DEPTH: usize = 24;
const MAX_NODES: usize = 400_000;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Span,
}

/// What a document is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key of a map with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) node: Node,
}

impl Value {
    /// What a person calls it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

impl Node {
    /// The node at `path`: keys joined by dots, list items as `[n]`. The nearest one above it if there is none, so
    /// that a problem always has a place.
    pub(crate) fn locate(&self, path: &str) -> Span {
        let (mut span, mut node, mut rest) = (self.span, self, path);
        while !rest.is_empty() {
            match &node.value {
                Value::Map(entries) => {
                    // The whole rest first: the names of controls have dots in them.
                    let step = match entries.iter().any(|entry| entry.key == rest) {
                        true => rest.len(),
                        false => rest.find(['.', '[']).unwrap_or(rest.len()),
                    };
                    let Some(entry) = entries.iter().find(|entry| entry.key == rest[..step]) else { break };
                    (span, node, rest) = (entry.key_span, &entry.node, rest[step..].trim_start_matches('.'));
                }
                Value::List(items) => {
                    let Some((index, after)) = rest.trim_start_matches('[').split_once(']') else { break };
                    let Some(item) = index.parse().ok().and_then(|index: usize| items.get(index)) else {
                        break;
                    };
                    (span, node, rest) = (item.span, item, after.trim_start_matches('.'));
                }
                _ => break,
            }
        }
        span
    }
}

/// Reads one document. An empty one is an empty map.
pub(crate) fn parse(source: &Source) -> Result<Node, Problem> {
    let text: &str = &source.text;
    if text.len() > MAX_BYTES {
        let message = format!("the document has {} bytes; at most {MAX_BYTES} are read", text.len());
        return Err(Problem::new(Code::Unreadable, message));
    }
    let options = options! {
        disallow_directives: true,
        // A little more than is read here, so that the refusal is worded here.
        flow_nesting_limit: MAX_DEPTH + 4,
        block_nesting_limit: MAX_DEPTH + 4,
        emit_unresolved_aliases: true,
    };
    let events = Parser::new_from_str_with_options(text, options);
    Reader { source, events, nodes: 0 }.document()
}

struct Reader<'a, I> {
    source: &'a Source,
    events: I,
    nodes: usize,
}

type Spanned<'a> = (Event<'a>, granit_parser::Span);

impl<'a, I: Iterator<Item = Result<Spanned<'a>, granit_parser::ScanError>>> Reader<'a, I> {
    fn document(mut self) -> Result<Node, Problem> {
        let first = Span { line: 1, column: 1, length: 1 };
        let mut root = None;
        while let Some((event, span)) = self.next()? {
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_some() => {
                    let message = "a second document begins here; a policy is one document";
                    return Err(self.refuse(message, span));
                }
                Event::DocumentStart(..) => {}
                event => root = Some(self.node(event, span, 0)?),
            }
        }
        match root {
            None => Ok(Node { value: Value::Map(Vec::new()), span: first }),
            Some(Node { value: Value::Null, span }) => Ok(Node { value: Value::Map(Vec::new()), span }),
            Some(node) => Ok(node),
        }
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Problem> {
        match self.events.next() {
            None => Ok(None),
            Some(Ok((event, span))) => Ok(Some((event, self.span(&span)))),
            Some(Err(error)) => {
                let mark = error.marker();
                let span = Span { line: mark.line().max(1), column: mark.col() + 1, length: 1 };
                // The parser reads ahead, so its own bound may be met before the one below.
                if error.info().contains("recursion limit") {
                    return Err(too_much(self.source, span));
                }
                let problem = Problem::new(Code::Syntax, error.info()).at(self.source, span);
                Err(match self.tab_indent(span) {
                    true => problem.hint("indent with spaces; YAML does not take tabs"),
                    false => problem,
                })
            }
        }
    }

    fn tab_indent(&self, span: Span) -> bool {
        let line = self.source.line(span.line).unwrap_or_default();
        line.trim_start_matches(' ').starts_with('\t')
    }

    fn span(&self, span: &granit_parser::Span) -> Span {
        let length = match span.start.line() == span.end.line() {
            true => span.end.col().saturating_sub(span.start.col()).max(1),
            false => 1,
        };
        Span { line: span.start.line().max(1), column: span.start.col() + 1, length }
    }

    fn refuse(&self, message: &str, span: Span) -> Problem {
        Problem::new(Code::Syntax, message).at(self.source, span)
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Problem> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return Err(too_much(self.source, span));
        }
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(_, anchor, tag)
            | Event::MappingStart(_, anchor, tag) => (*anchor, tag.is_some()),
            _ => (0, false),
        };
        if anchor != 0 || matches!(event, Event::Alias(_) | Event::UnresolvedAlias(_)) {
            return Err(self
                .refuse("anchors and aliases have no place in a policy", span)
                .hint("quote the value if it begins with `*` or `&`: \"*.example.org\""));
        }
        if tag {
            return Err(self
                .refuse("tags have no place in a policy", span)
                .hint("quote the value if it begins with `!`"));
        }
        let value = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => plain(&text),
            Event::Scalar(text, ..) => Value::Text(text.into_owned()),
            Event::SequenceStart(..) => Value::List(self.list(depth)?),
            Event::MappingStart(..) => Value::Map(self.map(depth)?),
            _ => return Err(self.refuse("a value is expected here", span)),
        };
        Ok(Node { value, span })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Problem> {
        let mut items = Vec::new();
        while let Some((event, span)) = self.next()? {
            if event == Event::SequenceEnd {
                break;
            }
            items.push(self.node(event, span, depth + 1)?);
        }
        Ok(items)
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry>, Problem> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = std::collections::HashMap::new();
        while let Some((event, key_span)) = self.next()? {
            if event == Event::MappingEnd {
                break;
            }
            let Event::Scalar(key, _, 0, None) = event else {
                return Err(self
                    .refuse("a key must be plain text", key_span)
                    .hint("quote the key if it begins with `*`, `&` or `!`"));
            };
            if key == "<<" {
                return Err(self
                    .refuse("merge keys have no place in a policy", key_span)
                    .hint("use `extends` to build on another policy"));
            }
            if let Some(line) = seen.insert(key.to_string(), key_span.line) {
                let problem = Problem::new(Code::DuplicateKey, format!("the key `{key}` is given twice"));
                return Err(problem
                    .at(self.source, key_span)
                    .hint(format!("the first is on line {line}; keep one")));
            }
            let Some((event, span)) = self.next()? else { break };
            let node = self.node(event, span, depth + 1)?;
            entries.push(Entry { key: key.into_owned(), key_span, node });
        }
        Ok(entries)
    }
}

fn too_much(source: &Source, span: Span) -> Problem {
    Problem::new(Code::Unreadable, "the document is nested too deep or has too many values").at(source, span)
}

/// Resolves an unquoted scalar by YAML 1.2's core schema. `yes`, `no`, `on` and `off` stay text, so that they are
/// refused where true or false is meant instead of being guessed at.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.bytes().all(|b| b.is_ascii_digit())
        && let Ok(number) = text.parse()
    {
        return Value::Integer(number);
    }
    let radix = |prefix, radix| text.strip_prefix(prefix).and_then(|s| i64::from_str_radix(s, radix).ok());
    if let Some(number) = radix("0x", 16).or_else(|| radix("0o", 8)) {
        return Value::Integer(number);
    }
    let numeric = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    match text.parse::<f64>() {
        Ok(number) if numeric && number.is_finite() => Value::Float(number),
        _ => Value::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Node, Problem> {
        parse(&Source::new("test", text))
    }

    fn scalar(text: &str) -> Value {
        match read(&format!("k: {text}")).expect("parses").value {
            Value::Map(mut entries) => entries.remove(0).node.value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn scalars_follow_the_core_schema() {
        assert_eq!(scalar("256"), Value::Integer(256));
        assert_eq!(scalar("0x10"), Value::Integer(16));
        assert_eq!(scalar("-1"), Value::Integer(-1));
        assert_eq!(scalar("1.5"), Value::Float(1.5));
        assert_eq!(scalar("\"256\""), Value::Text("256".into()));
        assert_eq!(scalar("yes"), Value::Text("yes".into()));
        assert_eq!(scalar("1.2.3.4"), Value::Text("1.2.3.4".into()));
        assert_eq!(scalar(".inf"), Value::Text(".inf".into()));
        assert_eq!(scalar("99999999999999999999"), Value::Float(1e20));
        assert_eq!(scalar(""), Value::Null);
    }

    #[test]
    fn every_value_knows_its_place() {
        let node = read("a:\n  b: [x, yy]\n").expect("parses");
        assert_eq!(node.locate("a.b"), Span { line: 2, column: 3, length: 1 });
        assert_eq!(node.locate("a.b[1]"), Span { line: 2, column: 10, length: 2 });
        assert_eq!(node.locate("a.none"), Span { line: 1, column: 1, length: 1 });
        let node = read("requirements:\n  limit.memory: required\n").expect("parses");
        assert_eq!(node.locate("requirements.limit.memory").line, 2);
    }

    #[test]
    fn what_a_policy_does_not_need_is_refused() {
        for (text, code) in [
            ("a: &x 1\nb: *x\n", Code::Syntax),
            ("a: *x\n", Code::Syntax),
            ("a: !!str 1\n", Code::Syntax),
            ("a: !custom 1\n", Code::Syntax),
            ("<<: {a: 1}\n", Code::Syntax),
            ("a: 1\n---\nb: 2\n", Code::Syntax),
            ("%YAML 1.1\n---\na: 1\n", Code::Syntax),
            ("? [a, b]\n: 1\n", Code::Syntax),
            ("a: 1\na: 2\n", Code::DuplicateKey),
            ("a: {b: 1, b: 2}\n", Code::DuplicateKey),
            ("a: [1\n", Code::Syntax),
            ("a:\n\tb: 1\n", Code::Syntax),
        ] {
            let problem = read(text).expect_err(text);
            assert_eq!(problem.code, code, "{text:?}: {problem}");
        }
    }

    #[test]
    fn deep_and_large_documents_are_refused_in_bounded_time() {
        let deep = "[".repeat(100_000);
        assert!(read(&deep).is_err());
        let deep_block: String = (0..5_000).map(|i| format!("{}a:\n", " ".repeat(i % 900))).collect();
        assert!(read(&deep_block).is_err());
        let large = format!("a: [{}]", "1,".repeat(MAX_BYTES / 2));
        assert_eq!(read(&large).expect_err("too large").code, Code::Unreadable);
        let many = format!("a: [{}1]", "1,".repeat(MAX_NODES));
        assert_eq!(read(&many).expect_err("too many").code, Code::Unreadable);
    }
}
