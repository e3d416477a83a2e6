//! A plan as JSON that a person can review: lists and limits one item to a line, what is small on one line.

use std::io::{self, Write};

use pinfold_core::plan::Plan;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// The plan, its parts in the order in which they are decided. Without `full` the built-in protected names, the same
/// in every plan, are left out.
pub(crate) fn plan(plan: &Plan, full: bool) -> String {
    // Taken apart in full, so that a new part cannot be forgotten here.
    let Plan { wall, directory, files, network, privileges, environment, limits, controls } = plan;
    let parts = [
        ("wall", json(wall, 0)),
        ("directory", json(directory, 0)),
        ("files", json(files, 2)),
        ("network", json(network, 2)),
        ("privileges", json(privileges, 0)),
        ("environment", json(environment, 1)),
        ("limits", json(limits, 1)),
        ("controls", json(controls, 1)),
    ];
    let lines: Vec<String> = parts.iter().map(|(name, text)| format!("  \"{name}\": {text}")).collect();
    let mut text = format!("{{\n{}\n}}\n", lines.join(",\n"));
    if !full {
        for names in [&files.protect.names, &files.protect.git] {
            text = text.replacen(&json(names, 0), "\"built in\"", 1);
        }
    }
    text
}

/// `value` with its outermost `open` levels spread over lines.
fn json<T: Serialize>(value: &T, open: usize) -> String {
    let mut out = Vec::new();
    let format = Spread { open, depth: 0, filled: false };
    value.serialize(&mut Serializer::with_formatter(&mut out, format)).unwrap();
    String::from_utf8(out).unwrap()
}

struct Spread {
    open: usize,
    depth: usize,
    /// Whether the innermost list or map has anything in it.
    filled: bool,
}

impl Spread {
    fn begin<W: ?Sized + Write>(&mut self, writer: &mut W, sign: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        writer.write_all(sign)
    }

    fn next<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.filled = true;
        match (first, self.depth <= self.open) {
            (true, true) => self.line(writer),
            (true, false) => Ok(()),
            (false, true) => writer.write_all(b",").and_then(|()| self.line(writer)),
            (false, false) => writer.write_all(b", "),
        }
    }

    fn end<W: ?Sized + Write>(&mut self, writer: &mut W, sign: &[u8]) -> io::Result<()> {
        let spread = self.depth <= self.open && self.filled;
        self.depth -= 1;
        self.filled = true;
        if spread {
            self.line(writer)?;
        }
        writer.write_all(sign)
    }

    fn line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"\n")?;
        (0..=self.depth).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for Spread {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
