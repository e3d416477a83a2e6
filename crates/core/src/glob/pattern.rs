//! Reading a path pattern into components.
//!
//! Owns the grammar. Braces are expanded here, so that what they could hide (a `..` put together from
//! halves, a pattern with very many meanings) is seen before anything is matched, and every later question
//! is asked of plain components.

use std::iter::once;

use super::GlobError;
use super::name::name_matches;
use crate::text::excerpt;

/// How many patterns the braces of one may stand for.
pub(super) const MAX_ALTERNATIVES: usize = 64;
/// How deep braces may nest.
pub(super) const MAX_DEPTH: usize = 4;

/// Where a pattern begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Anchor {
    Relative,
    Root,
    Home,
}

/// What stands between two slashes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Component {
    /// `**`.
    Deep,
    /// A name, with or without wildcards.
    Name(Vec<Token>),
}

/// A character of a name, or what stands for some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Token {
    Literal(char),
    /// `?`.
    One,
    /// `*`.
    Many,
    /// `[…]`: one bit for each ASCII character that matches. What is not ASCII matches when `rest` is set.
    Class {
        ascii: u128,
        rest: bool,
    },
}

/// What a text was read as.
pub(super) struct Parsed {
    pub(super) text: String,
    pub(super) anchor: Anchor,
    pub(super) alternatives: Vec<Vec<Component>>,
}

/// The smallest part of a text, with the text itself.
type Piece<'a> = (&'a str, Sign);

#[derive(Clone, Copy, PartialEq)]
enum Sign {
    Slash,
    Open,
    Comma,
    Close,
    Token(Token),
}

/// Reads a pattern; the caller has checked its length and that it has no NUL.
pub(super) fn parse(text: &str) -> Result<Parsed, GlobError> {
    if text.starts_with('!') {
        return Err(GlobError::Negated(excerpt(text)));
    }
    let anchor = match text.as_bytes() {
        [b'/', ..] => Anchor::Root,
        [b'~'] | [b'~', b'/', ..] => Anchor::Home,
        [b'~', ..] => return Err(GlobError::Home(excerpt(text))),
        _ => Anchor::Relative,
    };
    let body = if anchor == Anchor::Home { text.trim_start_matches('~') } else { text };
    let pieces = tidy(&scan(body, text)?);
    let mut alternatives = Vec::new();
    for signs in expand(&pieces, text)? {
        alternatives.push(components(&signs, anchor, text)?);
    }
    alternatives.sort();
    alternatives.dedup();
    let body: String = pieces.iter().map(|(written, _)| *written).collect();
    let text = match anchor {
        Anchor::Root => format!("/{body}"),
        Anchor::Home if body.is_empty() => "~".to_owned(),
        Anchor::Home => format!("~/{body}"),
        // A dropped `./` may have stood before a character that now begins the text.
        Anchor::Relative if body.starts_with(['!', '~']) => format!("\\{body}"),
        Anchor::Relative => body,
    };
    Ok(Parsed { text, anchor, alternatives })
}

/// Cuts a text into pieces. `whole` is for errors.
fn scan<'a>(text: &'a str, whole: &str) -> Result<Vec<Piece<'a>>, GlobError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut depth = 0usize;
    while let Some(c) = rest.chars().next() {
        let (length, sign) = match c {
            '/' => (1, Sign::Slash),
            '{' => (1, Sign::Open),
            '}' => (1, Sign::Close),
            ',' if depth > 0 => (1, Sign::Comma),
            '*' => (1, Sign::Token(Token::Many)),
            '?' => (1, Sign::Token(Token::One)),
            '[' => scan_class(rest, whole)?,
            '\\' => match rest.chars().nth(1) {
                None | Some('/') => return Err(GlobError::Escape(excerpt(whole))),
                Some(escaped) => (1 + escaped.len_utf8(), Sign::Token(Token::Literal(escaped))),
            },
            c => (c.len_utf8(), Sign::Token(Token::Literal(c))),
        };
        depth = match sign {
            Sign::Open if depth == MAX_DEPTH => return Err(GlobError::TooManyAlternatives(excerpt(whole))),
            Sign::Open => depth + 1,
            Sign::Close => depth.checked_sub(1).ok_or_else(|| GlobError::Brace(excerpt(whole)))?,
            _ => depth,
        };
        let (piece, after) = rest.split_at(length);
        pieces.push((piece, sign));
        rest = after;
    }
    if depth == 0 { Ok(pieces) } else { Err(GlobError::Brace(excerpt(whole))) }
}

/// A class and its length. `]` first and `-` first or last stand for themselves. A backslash and
/// `[:alpha:]` are refused: some readers give them a meaning inside a class and some do not.
fn scan_class(text: &str, whole: &str) -> Result<(usize, Sign), GlobError> {
    let start = if text.starts_with("[!") || text.starts_with("[^") { 2 } else { 1 };
    let body = text.get(start..).unwrap_or_default();
    let end = body.char_indices().skip(1).find(|(_, c)| *c == ']').map(|(at, _)| at);
    let end = end.ok_or_else(|| GlobError::OpenClass(excerpt(whole)))?;
    let bad = || GlobError::Class(excerpt(whole));
    let mut bytes = &body.as_bytes()[..end];
    if bytes.windows(2).any(|pair| matches!(pair, [b'[', b':' | b'.' | b'='])) || bytes.contains(&b'\\') {
        return Err(bad());
    }
    let mut ascii = 0u128;
    while let [from, rest @ ..] = bytes {
        let (to, rest) = match rest {
            [b'-', to, rest @ ..] => (to, rest),
            rest => (from, rest),
        };
        if from > to || !to.is_ascii() || (*from..=*to).contains(&b'/') {
            return Err(bad());
        }
        (*from..=*to).for_each(|byte| ascii |= 1 << byte);
        bytes = rest;
    }
    let negated = start == 2;
    let slash = 1u128 << b'/';
    let ascii = if negated { !(ascii | slash) } else { ascii };
    Ok((start + end + 1, Sign::Token(Token::Class { ascii, rest: negated })))
}

/// Drops slashes at the start, at the end and after another, and `.` components, where no brace is around.
fn tidy<'a>(pieces: &[Piece<'a>]) -> Vec<Piece<'a>> {
    let mut depth = 0;
    let parts = pieces.split(|(_, sign)| {
        match sign {
            Sign::Open => depth += 1,
            Sign::Close => depth -= 1,
            _ => {}
        }
        depth == 0 && *sign == Sign::Slash
    });
    let dot = Sign::Token(Token::Literal('.'));
    let parts = parts.filter(|part| !part.is_empty() && !matches!(part, [(_, sign)] if *sign == dot));
    let joined = parts.flat_map(|part| once(&("/", Sign::Slash)).chain(part)).skip(1);
    joined.copied().collect()
}

/// Several texts without braces.
type Expansions = Vec<Vec<Sign>>;

/// All that the braces stand for.
fn expand(pieces: &[Piece<'_>], whole: &str) -> Result<Expansions, GlobError> {
    // For each open brace: what was read before it, and its finished alternatives.
    let mut stack: Vec<(Expansions, Expansions)> = Vec::new();
    let mut current = vec![Vec::new()];
    for (_, sign) in pieces {
        match sign {
            Sign::Open => stack.push((std::mem::replace(&mut current, vec![Vec::new()]), Vec::new())),
            Sign::Comma | Sign::Close => {
                let Some((_, done)) = stack.last_mut() else { continue };
                done.append(&mut current);
                current.push(Vec::new());
            }
            sign => current.iter_mut().for_each(|signs| signs.push(*sign)),
        }
        if *sign == Sign::Close
            && let Some((before, done)) = stack.pop()
        {
            if before.len().saturating_mul(done.len()) > MAX_ALTERNATIVES {
                return Err(GlobError::TooManyAlternatives(excerpt(whole)));
            }
            let joined =
                before.iter().flat_map(|head| done.iter().map(move |tail| [&head[..], tail].concat()));
            current = joined.collect();
        }
    }
    Ok(current)
}

/// The components of one expansion.
fn components(signs: &[Sign], anchor: Anchor, whole: &str) -> Result<Vec<Component>, GlobError> {
    if anchor == Anchor::Relative && signs.first() == Some(&Sign::Slash) {
        return Err(GlobError::Mixed(excerpt(whole)));
    }
    let mut found: Vec<Component> = Vec::new();
    for part in signs.split(|sign| *sign == Sign::Slash) {
        let tokens =
            part.iter().filter_map(|sign| if let Sign::Token(token) = sign { Some(*token) } else { None });
        let tokens: Vec<Token> = tokens.collect();
        match tokens.as_slice() {
            [] | [Token::Literal('.')] => {}
            [Token::Literal('.'), Token::Literal('.')] => return Err(GlobError::Parent(excerpt(whole))),
            [Token::Many, Token::Many] if found.last() == Some(&Component::Deep) => {}
            [Token::Many, Token::Many] => found.push(Component::Deep),
            tokens if tokens.windows(2).any(|pair| pair == [Token::Many, Token::Many]) => {
                return Err(GlobError::Deep(excerpt(whole)));
            }
            _ => found.push(Component::Name(tokens)),
        }
    }
    if found.is_empty() && anchor == Anchor::Relative {
        return Err(GlobError::Empty(excerpt(whole)));
    }
    Ok(found)
}

/// A path as a pattern that matches only it.
pub(super) fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if "*?[]{},\\!~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

impl Component {
    /// The name, when it has no wildcard.
    pub(super) fn literal(&self) -> Option<String> {
        let Self::Name(tokens) = self else { return None };
        tokens.iter().map(|token| if let Token::Literal(c) = token { Some(*c) } else { None }).collect()
    }

    /// Whether every name that `other` matches is matched by this. Errs towards no.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Name(tokens), Self::Name(_)) if tokens[..] == [Token::Many] => true,
            (Self::Name(tokens), Self::Name(_)) => {
                self == other || other.literal().is_some_and(|name| name_matches(tokens, name.as_bytes()))
            }
            _ => self == other,
        }
    }
}
