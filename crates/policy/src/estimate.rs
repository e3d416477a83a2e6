//! Recommends limits for commands that are known to need more, or less, than a profile gives them: by a lookup in
//! `estimate/table.rs`, and by what earlier runs used where a [`History`] is given. Nothing is run, read or measured
//! here, and what a recommendation may change is decided elsewhere.
//!
//! Wrappers (`env`, `timeout`, `npx`, `python -m`, `sh -c` …) are looked through, and a script is the sum
//! of its known commands. A loop's body counts once: how often it runs cannot be seen here.

mod advice;
mod command;
mod history;
mod name;
mod table;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use advice::{Advice, advise};
pub use history::{COMMANDS, DamagedHistory, History, Observation};
pub use name::name;

use command::{Argument, Arguments, Script, Stage};
use table::{AFTER, AROUND, BESIDE, CEILING, EXEC, Holds, Need, Op, Row, SHELL, Wrapper};

/// How many wrappers and scripts may be within each other.
const DEPTH: usize = 16;
/// What is joined in `because` grows no longer than this many bytes.
const REASON: usize = 160;

/// Recommended limits for one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Memory in MB, never below 64.
    pub memory_mb: u64,
    /// CPU time in seconds.
    pub cpu_seconds: u64,
    /// Time on the clock in milliseconds.
    pub wall_ms: u64,
    /// Processes and threads at one time.
    pub processes: u64,
    /// What may be written, in MB.
    pub disk_mb: u64,
    /// Open descriptors of one process.
    pub descriptors: u64,
    /// What may be printed, in bytes.
    pub output_bytes: u64,
    /// The words that were known, such as `cargo build` or `sh -c: npm test`.
    pub because: String,
}

/// Limits for a program and its arguments, or `None` if nothing in it is known.
pub fn recommend(argv: &[String]) -> Option<Estimate> {
    of_command(argv, DEPTH).map(Found::estimate)
}

/// Limits for shell text, as for `sh -c` with that text, or `None` if nothing in it is known.
pub fn recommend_line(line: &str) -> Option<Estimate> {
    Some(of_text(line, DEPTH)?.with(&AROUND, &SHELL.need()).estimate())
}

/// A need and the reason for it.
struct Found {
    need: Need,
    because: String,
}

impl Found {
    fn with(mut self, ops: &[Op; 7], other: &Need) -> Self {
        for (((mine, theirs), op), ceiling) in self.need.iter_mut().zip(other).zip(ops).zip(CEILING) {
            *mine = match op {
                Op::Add => mine.saturating_add(*theirs),
                Op::Max => *theirs.max(mine),
            }
            .min(ceiling);
        }
        self
    }

    fn join(self, ops: &[Op; 7], between: &str, other: Self) -> Self {
        let mut joined = self.with(ops, &other.need);
        let because = &mut joined.because;
        if !because.ends_with('…') && because.split(between).all(|part| part != other.because) {
            because.push_str(between);
            because.push_str(if because.len() + other.because.len() <= REASON {
                &other.because
            } else {
                "…"
            });
        }
        joined
    }

    fn estimate(self) -> Estimate {
        let [memory_mb, cpu_seconds, wall_seconds, processes, disk_mb, descriptors, output_kib] = self.need;
        Estimate {
            memory_mb,
            cpu_seconds,
            wall_ms: wall_seconds * 1000,
            processes,
            disk_mb,
            descriptors,
            output_bytes: output_kib * 1024,
            because: self.because,
        }
    }
}

fn of_text(text: &str, depth: usize) -> Option<Found> {
    of_script(&command::parse(text, depth), depth)
}

fn of_script(script: &Script, depth: usize) -> Option<Found> {
    let pipelines = script.iter().filter_map(|stages| {
        let stages = stages.iter().filter_map(|stage| of_stage(stage, depth));
        stages.reduce(|found, next| found.join(&BESIDE, " | ", next))
    });
    pipelines.reduce(|found, next| found.join(&AFTER, "; ", next))
}

fn of_stage(stage: &Stage, depth: usize) -> Option<Found> {
    let nested = stage.nested.iter().filter_map(|script| of_script(script, depth.saturating_sub(1)));
    let command = of_command(without_keywords(&stage.words), depth);
    nested.chain(command).reduce(|found, next| found.join(&AFTER, "; ", next))
}

/// The command behind words of the shell's grammar.
fn without_keywords(mut words: &[String]) -> &[String] {
    while let [first, rest @ ..] = words {
        words = match first.as_str() {
            "if" | "then" | "elif" | "else" | "fi" | "do" | "done" | "while" | "until" => rest,
            "!" | "{" | "}" | "esac" | "coproc" => rest,
            "function" => rest.get(1..).unwrap_or_default(),
            "for" | "case" | "select" => return &[],
            _ => break,
        };
    }
    words
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// One command as the tables see it.
struct Reading<'a> {
    name: &'static str,
    arguments: &'a [String],
    /// The row that says most about it, and the words of it that were typed.
    row: Option<(&'static Row, Vec<&'static str>)>,
    /// The wrapper that it is, and what that runs.
    inner: Option<(&'static Wrapper, Vec<&'static str>, Inner<'a>)>,
}

/// The program and its arguments, behind the variables that are set for it.
fn program(argv: &[String]) -> Option<(&String, &[String])> {
    let start = argv.iter().position(|word| !is_assignment(word))?;
    argv[start..].split_first()
}

impl<'a> Reading<'a> {
    fn new(program: &str, arguments: &'a [String]) -> Option<Self> {
        let (name, known) = table::look_up(program)?;
        let typed = Typed::new(arguments, known.valued);
        let row = known.rows.iter().filter_map(|row| Some((*row, typed.matching(row.words)?)));
        let row = row.rev().max_by_key(|(row, _)| row.words.len());

        // `yarn test` is a row although yarn also runs programs by name: the one that says more about it wins.
        let at_least = row.as_ref().map_or(0, |(row, _)| row.words.len());
        let wrappers = known.wrappers.iter().filter(|wrapper| wrapper.words.len() >= at_least);
        let inner = wrappers.filter_map(|wrapper| {
            let words = typed.matching(wrapper.words)?;
            Some((*wrapper, words, held(wrapper, arguments, known.valued)?))
        });
        let inner = inner.rev().max_by_key(|(wrapper, ..)| wrapper.words.len());
        Some(Self { name, arguments, row, inner })
    }

    /// The program and the words of the table, nothing else that was typed.
    fn words(&self) -> Option<String> {
        let (_, words) = self.row.as_ref()?;
        Some([&[self.name], &words[..]].concat().join(" "))
    }

    fn own(&self) -> Option<Found> {
        let (row, _) = self.row.as_ref()?;
        Some(Found { need: row.class.need(), because: self.words()? })
    }
}

fn of_command(argv: &[String], depth: usize) -> Option<Found> {
    let (program, arguments) = program(argv)?;
    let reading = Reading::new(program, arguments)?;
    let Some((wrapper, words, inner)) = &reading.inner else { return reading.own() };
    let depth = depth.checked_sub(1)?;
    let found = match inner {
        Inner::Argv(argv) => of_command(argv, depth),
        Inner::Text(text) => of_text(text, depth),
    };
    match found {
        Some(found) => Some(found.inside(reading.name, words, wrapper)),
        // A launcher needs something for an unknown program too; of a shell only the script counts.
        None if wrapper.class.is_some() && matches!(inner, Inner::Argv(_)) => reading.own(),
        None => None,
    }
}

impl Found {
    fn inside(self, name: &str, words: &[&str], wrapper: &Wrapper) -> Self {
        let flag = match wrapper.holds {
            Holds::Text => &["-c"][..],
            Holds::Module => &["-m"],
            Holds::Split => &["-S"],
            Holds::Operands(_) | Holds::Joined | Holds::Exec => &[],
        };
        let because = format!("{}: {}", [&[name], words, flag].concat().join(" "), self.because);
        let found = Self { because, ..self };
        match wrapper.class {
            Some(class) => found.with(&AROUND, &class.need()),
            None => found,
        }
    }
}

/// Arguments as the tables are compared with them.
struct Typed<'a> {
    operands: Vec<&'a str>,
    flags: Vec<&'a str>,
}

impl<'a> Typed<'a> {
    fn new(arguments: &'a [String], valued: &'a [&'a str]) -> Self {
        let mut typed = Self { operands: Vec::new(), flags: Vec::new() };
        for argument in Arguments::new(arguments, valued) {
            match argument {
                Argument::Flag { name, value, .. } => {
                    typed.flags.push(name);
                    typed.operands.extend(value.filter(|_| name == "-m"));
                }
                Argument::Operand(at) => typed.operands.push(&arguments[at]),
            }
        }
        typed
    }

    /// The alternatives that were taken, if every word of the table is there.
    fn matching(&self, words: &[&'static str]) -> Option<Vec<&'static str>> {
        let mut operands = self.operands.iter();
        let one = |word: &&'static str| {
            let mut alternatives = word.split('|');
            if word.starts_with('-') {
                return alternatives.find(|name| self.flags.iter().any(|flag| is_flag(flag, name)));
            }
            let operand = operands.next()?;
            alternatives.find(|name| {
                operand.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
            })
        };
        words.iter().map(one).collect()
    }
}

/// `-j8` is `-j`; long options are compared without their values.
fn is_flag(flag: &str, name: &str) -> bool {
    let rest = flag.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || name.len() == 2 && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// A command that a wrapper runs.
enum Inner<'a> {
    Argv(Cow<'a, [String]>),
    Text(Cow<'a, str>),
}

/// The command that is among a wrapper's arguments, if there is one.
fn held<'a>(wrapper: &Wrapper, argv: &'a [String], valued: &[&str]) -> Option<Inner<'a>> {
    let arguments = Arguments::new(argv, valued);
    match wrapper.holds {
        Holds::Operands(own) => {
            let at = arguments.filter_map(operand).nth(wrapper.words.len() + own)?;
            Some(Inner::Argv(argv[at..].into()))
        }
        Holds::Joined => Some(Inner::Text(argv.join(" ").into())),
        Holds::Text => {
            let mut asked = false;
            for argument in arguments {
                match argument {
                    Argument::Flag { text, .. } => asked |= !text.starts_with("--") && text.contains('c'),
                    Argument::Operand(at) => return asked.then(|| Inner::Text(argv[at].as_str().into())),
                }
            }
            None
        }
        Holds::Module | Holds::Split => {
            for argument in arguments {
                let (first, rest) = match argument {
                    Argument::Flag { name: "-m", value: Some(module), rest, .. } => {
                        (vec![module.to_owned()], rest)
                    }
                    Argument::Flag { name: "-S" | "--split-string", value: Some(text), rest, .. } => {
                        (command::words(text), rest)
                    }
                    Argument::Flag { .. } => continue,
                    Argument::Operand(_) => return None,
                };
                return Some(Inner::Argv([&first, &argv[rest..]].concat().into()));
            }
            None
        }
        Holds::Exec => {
            let at = argv.iter().position(|word| EXEC.contains(&word.as_str()))?;
            Some(Inner::Argv(argv[at + 1..].into()))
        }
    }
}

fn operand(argument: Argument) -> Option<usize> {
    match argument {
        Argument::Operand(at) => Some(at),
        Argument::Flag { .. } => None,
    }
}
