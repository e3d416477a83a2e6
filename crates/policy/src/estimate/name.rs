//! What a command is called when it is remembered: the program and the words that the tables know of it, wrappers
//! looked through, so that `env A=b npm test`, `sh -c 'npm test'` and `npm test -- --token …` are all `npm test`.
//!
//! Names are written down, and an argument may be a secret. So every word is one of the tables', but for the name of
//! a program that is in none: that is kept only where nothing else can stand, and only when it looks like a name.

use super::command::{self, Stage};
use super::table::Holds;
use super::{DEPTH, Inner, REASON, Reading, program, without_keywords};

/// The name of a program that is in no table is no longer than this.
const PROGRAM: usize = 48;

/// Commands of the shell that need next to nothing: a script is called the same without them.
const BUILTINS: &[&str] = &[
    ".", ":", "alias", "cd", "declare", "exit", "export", "local", "popd", "pushd", "readonly", "return",
    "set", "shift", "shopt", "source", "trap", "ulimit", "umask", "unset", "wait",
];

/// What becomes of a program that is in no table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unknown {
    /// Its word can be nothing but a program.
    Named,
    /// Its word may be something else: the value of an option that the tables do not know, or an item of a list.
    Nameless,
}

/// What `argv` is called, or `None` if it cannot be named.
pub fn name(argv: &[String]) -> Option<String> {
    of_command(argv, DEPTH, Unknown::Named).filter(|name| is_name(name))
}

/// Whether `name` can be what [`name`] gives: a damaged or foreign name is told by it.
pub(super) fn is_name(name: &str) -> bool {
    let may_be = |c: char| c.is_ascii_alphanumeric() || "._+-[ |;".contains(c);
    !name.is_empty() && name.len() <= REASON && name.chars().all(may_be)
}

fn of_command(argv: &[String], depth: usize, unknown: Unknown) -> Option<String> {
    let (program, arguments) = program(argv)?;
    let Some(reading) = Reading::new(program, arguments) else {
        return (unknown == Unknown::Named).then(|| plain(program)).flatten();
    };
    let Some((wrapper, _, inner)) = &reading.inner else { return reading.words() };
    let depth = depth.checked_sub(1)?;
    let found = match inner {
        Inner::Text(text) => of_text(text, depth, unknown),
        Inner::Argv(argv) => {
            let before = &reading.arguments[..reading.arguments.len().saturating_sub(argv.len())];
            let clear = matches!(wrapper.holds, Holds::Operands(_))
                && before.iter().all(|word| !word.starts_with(['-', '+']));
            of_command(argv, depth, if clear { unknown } else { Unknown::Nameless })
        }
    };
    match inner {
        Inner::Argv(_) if wrapper.class.is_some() => found.or_else(|| reading.words()),
        _ => found,
    }
}

/// A script is called by all of its commands, each once.
fn of_text(text: &str, depth: usize, unknown: Unknown) -> Option<String> {
    let script = command::parse(text, depth);
    let mut names = Vec::new();
    let pipelines: Vec<Vec<&Stage>> = script
        .iter()
        .map(|stages| stages.iter().filter(|stage| counts(stage)).collect::<Vec<_>>())
        .filter(|stages| !stages.is_empty())
        .collect();
    // `list=(a b)` reads as if `a` were run: only a script of one plain command leaves no doubt what its words are.
    let unknown = match &pipelines[..] {
        [stages] if stages.len() == 1 && stages[0].nested.is_empty() => unknown,
        _ => Unknown::Nameless,
    };
    for stages in pipelines {
        let beside = stages.into_iter().map(|stage| of_stage(stage, depth, unknown));
        push(&mut names, distinct(beside.collect::<Option<Vec<_>>>()?).join(" | "));
    }
    (!names.is_empty()).then(|| names.join("; "))
}

fn of_stage(stage: &Stage, depth: usize, unknown: Unknown) -> Option<String> {
    let mut names = Vec::new();
    for script in &stage.nested {
        for stage in script.iter().flatten().filter(|stage| counts(stage)) {
            push(&mut names, of_stage(stage, depth.checked_sub(1)?, Unknown::Nameless)?);
        }
    }
    let words = without_keywords(&stage.words);
    if is_run(words) {
        push(&mut names, of_command(words, depth, unknown)?);
    }
    (!names.is_empty()).then(|| names.join("; "))
}

fn distinct(all: Vec<String>) -> Vec<String> {
    let mut names = Vec::new();
    all.into_iter().for_each(|name| push(&mut names, name));
    names
}

fn push(names: &mut Vec<String>, name: String) {
    if names.len() <= REASON && !names.contains(&name) {
        names.push(name);
    }
}

/// Whether a stage runs anything that is worth a name.
fn counts(stage: &Stage) -> bool {
    is_run(without_keywords(&stage.words)) || stage.nested.iter().flatten().flatten().any(counts)
}

fn is_run(words: &[String]) -> bool {
    program(words).is_some_and(|(program, _)| !BUILTINS.contains(&program.as_str()))
}

/// The last part of a program's path, if it looks like a name.
fn plain(program: &str) -> Option<String> {
    let name = program.rsplit('/').next().unwrap_or(program);
    let is_plain = name.len() <= PROGRAM
        && name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-".contains(&b));
    is_plain.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::table::ROWS;
    use super::*;

    fn called(line: &str) -> Option<String> {
        name(&command::words(line))
    }

    #[test]
    fn the_same_command_has_one_name() {
        for (lines, called_so) in [
            (
                &[
                    "npm test",
                    "npm --prefix web test",
                    "env A=b npm test",
                    "A=b time npm test -- --token s3cret",
                    "sh -c 'npm test'",
                    "bash -lc 'cd web && export TOKEN=s3cret; npm test > log'",
                    "timeout -k 5 30s npm test",
                    "sh -c 'sh -c \"npm test\"'",
                ][..],
                "npm test",
            ),
            (&["npx jest", "npx --yes jest@29", "./node_modules/.bin/jest", "yarn jest --ci"], "jest"),
            (&["python3 -m pytest", "pytest -q", "uv run --with x pytest", "pytest s3cret"], "pytest"),
            (&["/usr/bin/python3.11 -c s3cret", "python3 s3cret.py", "python -m s3cret"], "python"),
            (&["cargo build --release", "cargo +nightly build -p x --release"], "cargo build --release"),
            (
                &["./crunch s3cret", "/opt/x/crunch", "env A=b crunch", "sh -c 'cd x && ./crunch s3cret'"],
                "crunch",
            ),
            (&["nohup setsid crunch", "timeout 5 crunch -x"], "crunch"),
            (&["sh -c 'cat a | grep s3cret; make'", "bash -c 'cat b|grep c && make'"], "cat | grep; make"),
            (&["sh -c 'make; make'", "make"], "make"),
            (&["sh -c 'echo $(git log)'"], "git; echo"),
            (&["npx --token s3cret", "npx --registry s3cret unknown"], "npx"),
        ] {
            for line in lines {
                assert_eq!(called(line).as_deref(), Some(called_so), "{line}");
            }
        }
    }

    #[test]
    fn what_may_be_a_secret_is_no_name() {
        for line in [
            "",
            "A=b",
            "sudo --unknown-option s3cret x",
            "nice --what s3cret",
            "env -S 's3cret x'",
            "sh -c 'list=(s3cret b); ls'",
            "sh -c 'ls; s3cret'",
            "sh -c 'case x in s3cret) ls;; esac; s3cret) ls'",
            "sh -c '$TOKEN'",
            "sh -c 'cd x'",
            "'with space'",
            "'s3cret=$x'",
            "-s3cret",
            "xargs -I s3cret unknown",
        ] {
            let name = called(line);
            assert!(name.as_ref().is_none_or(|name| !name.contains("s3cret")), "{line}: {name:?}");
        }
        assert_eq!(called(&"x".repeat(PROGRAM + 1)), None);
        assert_eq!(called("sh -c 'ls; unknown'"), None);
        assert_eq!(called("'é'"), None);
    }

    #[test]
    fn every_name_is_one() {
        for line in ["[ -f x ]", "npm test", "sh -c 'cat a | grep b; make'", "g++ x", "cargo build --release"]
        {
            let name = called(line).unwrap_or_else(|| panic!("{line}"));
            assert!(is_name(&name), "{name}");
        }
        for word in ROWS.iter().flat_map(|row| row.programs.split(' ').chain(row.words.iter().copied())) {
            assert!(word.split('|').all(is_name), "{word}");
        }
        assert!(!is_name("") && !is_name("a\nb") && !is_name(&"x".repeat(REASON + 1)));
    }
}
