//! Many patterns asked at once.
//!
//! Owns the translation to globset and which pattern a match belongs to. Patterns are translated from their
//! components and not passed on as written, because globset lets a class match a slash, reads a class of
//! characters outside ASCII as one of bytes, and gives `**` a meaning of its own inside braces.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component as PathPart, Path};

use globset::{Candidate, GlobBuilder, GlobSetBuilder};

use super::pattern::{Component, Token};
use super::{Anchor, Glob, GlobError};
use crate::text::excerpt;

/// A list of patterns, in the order listed.
///
/// A relative pattern matches relative paths only, an absolute one absolute paths only. A path may be any
/// bytes; `.` and `..` in it are resolved lexically first, and one that leaves its root matches nothing.
#[derive(Clone, Debug)]
pub struct GlobSet {
    relative: Side,
    absolute: Side,
    len: usize,
}

/// The patterns of one anchor.
#[derive(Clone, Debug)]
struct Side {
    set: globset::GlobSet,
    /// For each pattern without braces, its place in the list.
    places: Vec<usize>,
}

impl GlobSet {
    /// Prepares a list of patterns; a home pattern must have been placed.
    pub fn new<'a>(globs: impl IntoIterator<Item = &'a Glob>) -> Result<Self, GlobError> {
        let globs: Vec<&Glob> = globs.into_iter().collect();
        if let Some(home) = globs.iter().find(|glob| glob.is_home()) {
            return Err(GlobError::HomeNotPlaced(excerpt(home.as_str())));
        }
        let side = |anchor| Side::new(&globs, anchor).ok_or(GlobError::TooComplex { count: globs.len() });
        Ok(Self { relative: side(Anchor::Relative)?, absolute: side(Anchor::Root)?, len: globs.len() })
    }

    /// The place in the list of the first pattern that matches the path itself.
    pub fn matches(&self, path: &Path) -> Option<usize> {
        let path = tidy(path)?;
        self.side(&path).find(&path)
    }

    /// The place in the list of the first pattern that matches the path or a directory above it: whoever is
    /// denied a directory is denied what is in it.
    pub fn matches_or_parent(&self, path: &Path) -> Option<usize> {
        let path = tidy(path)?;
        let side = self.side(&path);
        path.ancestors().filter(|at| !at.as_os_str().is_empty()).filter_map(|at| side.find(at)).min()
    }

    /// How many patterns the list has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the list has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The patterns that can match a path.
    fn side(&self, path: &Path) -> &Side {
        if path.has_root() { &self.absolute } else { &self.relative }
    }
}

impl Side {
    fn new(globs: &[&Glob], anchor: Anchor) -> Option<Self> {
        let mut builder = GlobSetBuilder::new();
        let mut places = Vec::new();
        for (place, glob) in globs.iter().enumerate().filter(|(_, glob)| glob.anchor == anchor) {
            for components in &glob.alternatives {
                builder.add(translated(components, anchor)?);
                places.push(place);
            }
        }
        Some(Self { set: builder.build().ok()?, places })
    }

    fn find(&self, path: &Path) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let candidate = Candidate::from_bytes(path.as_os_str().as_bytes());
        // Most paths match nothing, and listing matches takes time for every pattern with a wildcard inside a name.
        if !self.set.is_match_candidate(&candidate) {
            return None;
        }
        let found = self.set.matches_candidate(&candidate);
        found.into_iter().filter_map(|at| self.places.get(at).copied()).min()
    }
}

/// A path without `.`, `..`, doubled or trailing slashes; nothing when it leaves its root or is the root of
/// relative paths.
fn tidy(path: &Path) -> Option<Cow<'_, Path>> {
    let bytes = path.as_os_str().as_bytes();
    let plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
    if bytes.strip_prefix(b"/").unwrap_or(bytes).split(|b| *b == b'/').all(plain) {
        return Some(Cow::Borrowed(path));
    }
    let mut names: Vec<&OsStr> = Vec::new();
    for part in path.components() {
        match part {
            PathPart::Normal(name) => names.push(name),
            PathPart::ParentDir if names.pop().is_none() && !path.has_root() => return None,
            _ => {}
        }
    }
    if names.is_empty() && !path.has_root() {
        return None;
    }
    let root = if path.has_root() { "/" } else { "" };
    Some(Cow::Owned(Path::new(root).join(names.iter().collect::<std::path::PathBuf>())))
}

/// The components in globset's language.
fn translated(components: &[Component], anchor: Anchor) -> Option<globset::Glob> {
    let parts: Vec<String> = components.iter().map(part).collect();
    let text = if anchor == Anchor::Root { "/" } else { "" }.to_owned() + &parts.join("/");
    GlobBuilder::new(&text).literal_separator(true).backslash_escape(true).build().ok()
}

/// One component in globset's language.
fn part(component: &Component) -> String {
    let Component::Name(tokens) = component else { return "**".to_owned() };
    let mut out = String::new();
    for token in tokens {
        match *token {
            Token::Literal(c) => {
                if "*?[]{},\\!".contains(c) {
                    out.push('\\');
                }
                out.push(c);
            }
            Token::One => out.push('?'),
            Token::Many => out.push('*'),
            Token::Class { ascii, rest } => push_class(&mut out, ascii, rest),
        }
    }
    out
}

/// A class, each character by itself in an order in which none has a second meaning: `]` first, `-` last. The
/// NUL, which no path holds, keeps `!` and `^` from being first.
fn push_class(out: &mut String, ascii: u128, rest: bool) {
    // With the rest, the class is written by what it leaves out.
    let listed = if rest { !ascii } else { ascii };
    let has = |byte: u8| listed >> byte & 1 == 1;
    out.push_str(if rest { "[!" } else { "[" });
    out.push(if has(b']') { ']' } else { '\0' });
    let plain = (1..128u8).filter(|byte| has(*byte) && !b"]-".contains(byte));
    out.extend(plain.map(char::from));
    out.push_str(if has(b'-') { "-]" } else { "]" });
}
