//! What is wrong with a policy, where, and what to do about it. Owns the wording's shape and its rendering;
//! whoever finds a problem writes the words.

use std::fmt;
use std::sync::Arc;

use pinfold_core::origin::Place;
use pinfold_core::text::visible;

/// A stable name for a kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The text is no YAML, or YAML beyond what a policy needs.
    Syntax,
    /// A key that does not exist.
    UnknownKey,
    /// A key given twice.
    DuplicateKey,
    /// A value of the wrong type.
    WrongType,
    /// A value of the right type that makes no sense.
    BadValue,
    /// A key that exists, but elsewhere.
    MisplacedKey,
    /// Two values that cannot both be meant.
    Contradiction,
    /// A value that allows more than a layer above permits.
    Widens,
    /// A document too large, too deep, or not UTF-8.
    Unreadable,
    /// A base that cannot be extended.
    Extends,
}

impl Code {
    /// The code as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "PF-POLICY-001",
            Self::UnknownKey => "PF-POLICY-002",
            Self::DuplicateKey => "PF-POLICY-003",
            Self::WrongType => "PF-POLICY-004",
            Self::BadValue => "PF-POLICY-005",
            Self::MisplacedKey => "PF-POLICY-006",
            Self::Contradiction => "PF-POLICY-007",
            Self::Widens => "PF-POLICY-008",
            Self::Unreadable => "PF-POLICY-009",
            Self::Extends => "PF-POLICY-010",
        }
    }
}

/// The most problems worth listing; past it the document is something else entirely.
pub(crate) const MOST: usize = 50;

/// A stretch of one line. Lines and columns count from 1, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The line.
    pub line: usize,
    /// The first column.
    pub column: usize,
    /// How many characters, at least one.
    pub length: usize,
}

/// A document's text under the name it is shown by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// A file path, or what stands in for one.
    pub name: Arc<str>,
    /// The whole text.
    pub text: Arc<str>,
}

impl Source {
    /// Names `text`.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    /// A line, counted from 1. Lines end where YAML ends them: a lone carriage return counts.
    pub(crate) fn line(&self, number: usize) -> Option<&str> {
        let lines = self.text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        lines.flat_map(|line| line.split('\r')).nth(number.checked_sub(1)?)
    }

    /// The position of `span` in this document.
    pub fn place(&self, span: Span) -> Place {
        Place { document: self.name.clone(), line: span.line, column: span.column }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which kind.
    pub code: Code,
    /// What is wrong, in one line, lower case.
    pub message: String,
    /// The document, where there is one.
    pub source: Option<Source>,
    /// Where in it.
    pub span: Option<Span>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem that is nowhere yet.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), source: None, span: None, hint: None }
    }

    /// Says where.
    #[must_use]
    pub fn at(mut self, source: &Source, span: Span) -> Self {
        self.source = Some(source.clone());
        self.span = Some(span);
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The position, where there is one.
    pub fn place(&self) -> Option<Place> {
        Some(self.source.as_ref()?.place(self.span?))
    }
}

/// Everything that is wrong, in reading order. Never empty where it is returned as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Adds one.
    pub fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// The problems, in reading order.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// `Ok` with `value` when nothing is wrong; the problems in reading order otherwise.
    pub fn or<T>(mut self, value: T) -> Result<T, Self> {
        if self.0.is_empty() {
            return Ok(value);
        }
        self.0.sort_by_key(|problem| problem.span);
        Err(self)
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl std::error::Error for Problem {}
impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

/// Longest part of a source line that is shown.
const SHOWN: usize = 160;
/// Longest message: a key or value of the document may be in it.
const LONGEST: usize = 600;

/// `text`, escaped, and cut if it would fill the screen.
fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        None => visible(text).into_owned(),
        Some((end, _)) => format!("{}…", visible(&text[..end])),
    }
}

/// The message, the line it is about with the place underlined, and the hint. What comes from the document is
/// escaped: a hostile policy must not be able to write to the terminal.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code.as_str(), short(&self.message))?;
        let mut margin = String::new();
        if let (Some(source), Some(span)) = (&self.source, self.span) {
            let number = span.line.to_string();
            margin = " ".repeat(number.len());
            write!(f, "\n{margin}--> {}", source.place(span))?;
            if let Some(line) = source.line(span.line) {
                let (shown, before, marked) = excerpt(line, span);
                write!(f, "\n{margin} |\n{number} | {shown}")?;
                write!(f, "\n{margin} | {}{}", " ".repeat(before), "^".repeat(marked))?;
            }
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n{margin} = hint: {}", short(hint))?;
        }
        Ok(())
    }
}

/// The part of `line` around `span`, escaped, with the width before the mark and the width of the mark.
fn excerpt(line: &str, span: Span) -> (String, usize, usize) {
    let start = span.column.saturating_sub(1);
    let skipped = start.saturating_sub(SHOWN / 2);
    let take = |from: usize, count: usize| -> String {
        let part: String = line.chars().skip(from).take(count).collect();
        visible(&part.replace('\t', " ")).into_owned()
    };
    let before = take(skipped, start - skipped);
    let marked = take(start, span.length.min(SHOWN / 2));
    let (shown, room) = (start + span.length.min(SHOWN / 2), SHOWN - SHOWN / 2);
    let after = take(shown, room);
    let tail = if line.chars().nth(shown + room).is_some() { "…" } else { "" };
    let lead = if skipped > 0 { "…" } else { "" };
    let width = |text: &str| text.chars().count();
    let (before_width, marked_width) = (width(lead) + width(&before), width(&marked).max(1));
    (format!("{lead}{before}{marked}{after}{tail}"), before_width, marked_width)
}

/// The candidate nearest to `word`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.chars().count() > 64 {
        return None;
    }
    let bare = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    candidates
        .into_iter()
        .map(|candidate| (distance(&bare(word), &bare(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 5)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edits between two short words, a swap of neighbours counting as one.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j - 1] + change).min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_the_line_with_the_place_underlined() {
        let source = Source::new("sandbox.policy.yaml", "proc:\n  maxMemoryMb: 256\n");
        let span = Span { line: 2, column: 3, length: 11 };
        let problem = Problem::new(Code::UnknownKey, "unknown key `maxMemoryMb`")
            .at(&source, span)
            .hint("did you mean `maxMemoryMB`?");
        let expected = "\
error[PF-POLICY-002]: unknown key `maxMemoryMb`
 --> sandbox.policy.yaml:2:3
  |
2 |   maxMemoryMb: 256
  |   ^^^^^^^^^^^
  = hint: did you mean `maxMemoryMB`?";
        assert_eq!(problem.to_string(), expected);
    }

    #[test]
    fn what_the_document_says_cannot_reach_the_terminal() {
        let source = Source::new("p\u{1b}[31m.yaml", "a: \u{1b}]52;c;x\u{7}\u{202e}b\n");
        let span = Span { line: 1, column: 1, length: 1 };
        let shown = Problem::new(Code::UnknownKey, "bad \u{1b}[2J").at(&source, span).to_string();
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        assert!(!shown.contains('\u{202e}'));
    }

    #[test]
    fn a_long_line_is_cut_around_the_mark() {
        let source = Source::new("p", format!("{}bad{}", "x".repeat(5000), "y".repeat(5000)));
        let span = Span { line: 1, column: 5001, length: 3 };
        let shown = Problem::new(Code::Syntax, "no").at(&source, span).to_string();
        assert!(shown.len() < 1000 && shown.contains("bad") && shown.contains("^^^"), "{shown}");
    }

    #[test]
    fn nearest_means_a_slip_of_the_hand_not_another_word() {
        let keys = ["maxMemoryMB", "maxDiskMB", "timeoutMs", "enabled", "deny"];
        assert_eq!(nearest("max_memory_mb", keys), Some("maxMemoryMB"));
        assert_eq!(nearest("enabeld", keys), Some("enabled"));
        assert_eq!(nearest("zebra", keys), None);
    }
}
