//! Reading command lines: shell text into pipelines of words, and arguments into options and operands. It
//! knows no program and expands nothing; text that a shell would refuse is read as far as it makes sense.

use std::mem::take;

/// Pipelines that run one after another.
pub(super) type Script = Vec<Vec<Stage>>;

/// One command of a pipeline.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Stage {
    /// The words without quotes, redirections and substitutions (a `$` stands for each of those).
    pub(super) words: Vec<String>,
    /// What its substitutions run before it; a subshell has only this.
    pub(super) nested: Vec<Script>,
}

/// Reads shell text. Beyond `depth` levels, what is nested is taken as if it were not.
pub(super) fn parse(text: &str, depth: usize) -> Script {
    Reader { rest: text, documents: Vec::new() }.script(None, depth)
}

/// The words of text without nesting.
pub(super) fn words(text: &str) -> Vec<String> {
    parse(text, 0).into_iter().flatten().flat_map(|stage| stage.words).collect()
}

/// Every character is taken from `rest` once, whatever is nested, so the time is linear in the text.
struct Reader<'a> {
    rest: &'a str,
    /// Ends of here-documents that start at the next line.
    documents: Vec<String>,
}

/// A script while it is read.
#[derive(Default)]
struct Draft {
    script: Script,
    pipeline: Vec<Stage>,
    stage: Stage,
    word: Option<String>,
    /// The next word is the target of a redirection.
    target: bool,
    /// A `|` or `&` waits for its right side.
    joined: bool,
}

impl Draft {
    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        if let Some(word) = self.word.take()
            && !take(&mut self.target)
        {
            self.stage.words.push(word);
            self.joined = false;
        }
    }

    fn end_stage(&mut self) {
        self.end_word();
        self.target = false;
        if self.stage != Stage::default() {
            self.pipeline.push(take(&mut self.stage));
        }
    }

    fn end_pipeline(&mut self) {
        self.end_stage();
        self.joined = false;
        if !self.pipeline.is_empty() {
            self.script.push(take(&mut self.pipeline));
        }
    }

    /// Something that runs beside the command that is being read.
    fn beside(&mut self, script: Script) {
        self.joined = false;
        self.pipeline.push(Stage { words: Vec::new(), nested: vec![script] });
    }
}

impl Reader<'_> {
    fn bump(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        self.rest.strip_prefix(text).map(|rest| self.rest = rest).is_some()
    }

    /// The text before any of these characters.
    fn before(&mut self, ends: &[char]) -> &str {
        let (text, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        text
    }

    fn script(&mut self, until: Option<char>, depth: usize) -> Script {
        let mut draft = Draft::default();
        while let Some(c) = self.bump() {
            match c {
                c if Some(c) == until => break,
                '\n' => {
                    draft.end_word();
                    if !draft.joined {
                        draft.end_pipeline();
                    }
                    self.skip_documents();
                }
                ';' | ')' => draft.end_pipeline(),
                '&' if self.eat("&") => draft.end_pipeline(),
                '&' if self.rest.starts_with('>') => draft.end_word(),
                '|' if self.eat("|") => draft.end_pipeline(),
                // A command in the background counts as running beside the one after it.
                '&' | '|' => {
                    self.eat("&");
                    draft.end_stage();
                    draft.joined = true;
                }
                '(' => {
                    draft.end_stage();
                    if depth > 0 {
                        let nested = self.script(Some(')'), depth - 1);
                        draft.beside(nested);
                    }
                }
                '<' | '>' => self.redirection(c, &mut draft, depth),
                '#' if draft.word.is_none() => {
                    self.before(&['\n']);
                }
                ' ' | '\t' | '\r' => draft.end_word(),
                // Only here: within double quotes `$'` is nothing special.
                '$' if self.eat("'") => self.until('\'', "\\", &mut draft, depth),
                '\'' | '"' | '\\' | '$' | '`' => self.quoted(c, &mut draft, depth),
                c => draft.push(c),
            }
        }
        draft.end_pipeline();
        draft.script
    }

    fn redirection(&mut self, c: char, draft: &mut Draft, depth: usize) {
        // In `2>file` the number belongs to the operator.
        if draft.word.as_ref().is_some_and(|word| word.bytes().all(|b| b.is_ascii_digit())) {
            draft.word = None;
        }
        draft.end_word();
        if self.rest.starts_with('(') && depth > 0 {
            self.bump();
            let nested = self.script(Some(')'), depth - 1);
            draft.beside(nested);
            return;
        }
        if c == '<' && self.eat("<") && !self.eat("<") {
            let document = self.document_end();
            self.documents.push(document);
            return;
        }
        while self.rest.starts_with(['>', '&', '|']) {
            self.bump();
        }
        draft.target = true;
    }

    /// The word after `<<`, unquoted.
    fn document_end(&mut self) -> String {
        self.eat("-");
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        let word = self.before(&[' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')']);
        word.replace(['\'', '"', '\\'], "")
    }

    fn skip_documents(&mut self) {
        for end in take(&mut self.documents) {
            while !self.rest.is_empty() {
                let found = self.before(&['\n']).trim_start_matches('\t') == end;
                self.eat("\n");
                if found {
                    break;
                }
            }
        }
    }

    /// What starts with a character that is not taken as it stands.
    fn quoted(&mut self, c: char, draft: &mut Draft, depth: usize) {
        match c {
            '\'' => self.until('\'', "", draft, depth),
            '"' => self.until('"', "\\$`", draft, depth),
            '\\' => match self.bump() {
                None | Some('\n') => {}
                Some(c) => draft.push(c),
            },
            '`' => self.substitution('`', draft, depth),
            '$' if self.eat("(") => self.substitution(')', draft, depth),
            // Part of the word, but a default value may run something.
            '$' if depth > 0 && self.eat("{") => self.until('}', "\\$`", draft, depth - 1),
            c => draft.push(c),
        }
    }

    /// Takes a part of a word that ends with `end`; `special` characters in it keep their meaning.
    fn until(&mut self, end: char, special: &str, draft: &mut Draft, depth: usize) {
        draft.word.get_or_insert_default();
        while let Some(c) = self.bump() {
            match c {
                c if c == end => return,
                c if special.contains(c) => self.quoted(c, draft, depth),
                c => draft.push(c),
            }
        }
    }

    fn substitution(&mut self, until: char, draft: &mut Draft, depth: usize) {
        draft.push('$');
        if depth > 0 {
            let nested = self.script(Some(until), depth - 1);
            draft.stage.nested.push(nested);
        }
    }
}

/// An argument as programs that follow getopt(3) see it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Argument<'a> {
    /// An option as written, the one of its letters that takes a value (or all), and the value. `rest` is
    /// where the next argument is.
    Flag { text: &'a str, name: &'a str, value: Option<&'a str>, rest: usize },
    /// Where an operand is.
    Operand(usize),
}

/// Goes through arguments. `+x` counts as an option: shells and cargo have such.
pub(super) struct Arguments<'a> {
    argv: &'a [String],
    valued: &'a [&'a str],
    at: usize,
    ended: bool,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(argv: &'a [String], valued: &'a [&'a str]) -> Self {
        Self { argv, valued, at: 0, ended: false }
    }

    fn flag(&mut self, text: &'a str) -> Argument<'a> {
        let mut name = text;
        let mut value = None;
        if self.valued.contains(&text) {
            value = self.following();
        } else if text.starts_with("--") {
            if let Some((before, after)) = text.split_once('=') {
                (name, value) = (before, Some(after));
            }
        } else if let Some((short, attached)) = self.cluster(text) {
            name = short;
            value = if attached.is_empty() { self.following() } else { Some(attached) };
        }
        Argument::Flag { text, name, value, rest: self.at }
    }

    /// The first option of `-abc` that takes a value, and what is attached to it.
    fn cluster(&self, text: &'a str) -> Option<(&'a str, &'a str)> {
        text.bytes().enumerate().skip(1).find_map(|(at, letter)| {
            let name = self.valued.iter().find(|name| name.as_bytes() == [b'-', letter])?;
            Some((*name, &text[at + 1..]))
        })
    }

    fn following(&mut self) -> Option<&'a str> {
        let value = self.argv.get(self.at)?;
        self.at += 1;
        Some(value)
    }
}

impl<'a> Iterator for Arguments<'a> {
    type Item = Argument<'a>;

    fn next(&mut self) -> Option<Argument<'a>> {
        let text = self.following()?;
        if self.ended || text.len() < 2 || !text.starts_with(['-', '+']) {
            return Some(Argument::Operand(self.at - 1));
        }
        if text == "--" {
            self.ended = true;
            return self.next();
        }
        Some(self.flag(text))
    }
}
