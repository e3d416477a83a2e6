//! Known command lines, scripts, and input that tries to break the reader.

use super::command::{parse, words};
use super::table::{CEILING, Class, EXEC, ROWS, VALUED, WRAPPERS, look_up};
use super::*;

fn of(line: &str) -> Option<Estimate> {
    recommend(&words(line))
}

#[track_caller]
fn known(found: Option<Estimate>, line: &str) -> Estimate {
    found.unwrap_or_else(|| panic!("nothing is known about {line:?}"))
}

/// Command line, reason, memory in MB, CPU in seconds.
const CASES: &[(&str, &str, u64, u64)] = &[
    // The published examples
    ("ls -la", "ls", 64, 10),
    ("cargo build", "cargo build", 1024, 60),
    // Programs and sub-commands
    ("/usr/bin/grep -r x .", "grep", 64, 10),
    ("rg TODO", "rg", 128, 30),
    ("sqlite3 db.sqlite .tables", "sqlite3", 256, 30),
    ("git status", "git", 256, 60),
    ("git -C /src -c a=b clone https://example.com/x", "git clone", 1024, 120),
    ("python3 app.py", "python", 256, 30),
    ("/usr/bin/python3.11 -c pass", "python", 256, 30),
    ("pip3.12 install -r requirements.txt", "pip install", 1024, 300),
    ("pytest -q tests", "pytest", 1024, 600),
    ("pytest -n4", "pytest -n", 2048, 600),
    ("node server.js", "node", 512, 60),
    ("node --test", "node --test", 2048, 600),
    ("npm ci", "npm ci", 1024, 300),
    ("npm --prefix web test", "npm test", 2048, 600),
    ("npm run build:prod", "npm run build", 2048, 600),
    ("npm run lint", "npm run", 1024, 60),
    ("yarn", "yarn", 1024, 300),
    ("yarn test", "yarn test", 2048, 600),
    ("./node_modules/.bin/jest --ci", "jest", 2048, 600),
    ("vite build", "vite", 2048, 600),
    ("cargo +nightly build -p core", "cargo build", 1024, 60),
    ("cargo build --release", "cargo build --release", 2048, 600),
    ("cargo --config a=b test -- --nocapture", "cargo test", 2048, 600),
    ("go test ./...", "go test", 2048, 600),
    ("gcc-12 -O2 a.c", "gcc", 512, 60),
    ("clang++-14 a.cc", "clang++", 512, 60),
    ("make", "make", 512, 60),
    ("make -j8 all", "make -j", 1024, 60),
    ("cmake --build out", "cmake --build", 1024, 60),
    ("./gradlew assemble", "gradlew", 2048, 600),
    ("java -jar x.jar", "java", 1024, 120),
    ("composer install", "composer install", 1024, 300),
    ("7z x a.7z", "7z", 1024, 120),
    ("A=b C+=d make", "make", 512, 60),
    // Wrappers
    ("env -i -u X A=b ls", "env: ls", 64, 10),
    ("env -S 'A=b python3 -u' x.py", "env -S: python", 256, 30),
    ("env", "env", 64, 10),
    ("time -p nice -n 5 cargo build", "time: nice: cargo build", 1024, 60),
    ("ionice -c2 -n7 git gc", "ionice: git gc", 1024, 120),
    ("timeout -k 5 30s npm test", "timeout: npm test", 2048, 600),
    ("nohup setsid stdbuf -oL tail -f x", "nohup: setsid: stdbuf: tail", 64, 10),
    ("sudo -u me A=b exec -a x ls", "sudo: exec: ls", 64, 10),
    ("doas command ls", "doas: command: ls", 64, 10),
    ("command -v cargo", "command", 64, 10),
    ("xargs -0n1 -P 4 gcc", "xargs: gcc", 512, 60),
    ("find . -name '*.rs' -exec rustfmt {} +", "find: rustfmt", 256, 30),
    ("npx --yes jest@29", "npx: jest", 2048, 600),
    ("npx something", "npx", 512, 60),
    ("pnpm --filter web exec tsc", "pnpm exec: tsc", 1024, 60),
    ("pnpm dlx eslint", "pnpm dlx: eslint", 1024, 120),
    ("yarn exec -- prettier", "yarn exec: prettier", 1024, 120),
    ("yarn jest", "yarn: jest", 2048, 600),
    ("bunx vitest", "bunx: vitest", 2048, 600),
    ("uv run --with x pytest", "uv run: pytest", 1024, 600),
    ("uv run app.py", "uv run", 256, 30),
    ("uvx ruff check", "uvx: ruff", 1024, 300),
    ("poetry run mypy .", "poetry run: mypy", 1024, 120),
    ("pipenv run python x.py", "pipenv run: python", 256, 30),
    ("pdm run pytest", "pdm run: pytest", 1024, 600),
    ("hatch run -- black .", "hatch run: black", 1024, 120),
    ("rye run pytest", "rye run: pytest", 1024, 600),
    ("bundle exec rspec", "bundle exec: rspec", 1024, 600),
    ("python -u -W ignore -m pytest -x", "python -m: pytest", 1024, 600),
    ("python3 -m pip install x", "python -m: pip install", 1024, 300),
    ("python3 -m venv .venv", "python -m venv", 1024, 300),
    ("python3 -m build", "python -m build", 1024, 60),
    ("python3 script.py -m pytest", "python", 256, 30),
    // Scripts
    ("sh -c 'npm test'", "sh -c: npm test", 2048, 600),
    ("bash -lc 'cd x && ls'", "bash -c: ls", 64, 10),
    ("bash -euo pipefail -c 'ls; ls -l'", "bash -c: ls", 64, 20),
    ("zsh --no-rcs -euxc 'cat a | grep b'", "zsh -c: cat | grep", 128, 20),
    ("dash script.sh", "dash", 256, 30),
    ("sh -c 'sh -c \"make\"'", "sh -c: sh -c: make", 512, 60),
    ("sh -c 'eval \"ls && cat\"'", "sh -c: eval: ls; cat", 64, 20),
];

#[test]
fn known_command_lines() {
    for &(line, because, memory_mb, cpu_seconds) in CASES {
        let found = known(of(line), line);
        let actual = (found.because.as_str(), found.memory_mb, found.cpu_seconds);
        assert_eq!(actual, (because, memory_mb, cpu_seconds), "{line}");
    }
}

/// Shell text, reason, memory in MB, CPU in seconds, wall in seconds.
const LINES: &[(&str, &str, u64, u64, u64)] = &[
    ("cargo build", "cargo build", 1024, 60, 300),
    ("ls; cat x\nmake || true & ", "ls; cat; make; true", 64 * 8, 90, 150),
    ("cat a | sort |\n wc -l", "cat | sort | wc", 384, 50, 60),
    ("make & ls", "make | ls", 576, 70, 120),
    ("echo $(git log) `date`", "git; date; echo", 256, 80, 140),
    ("echo \"x $(ls ${A:-$(date)}) y\"", "date; ls; echo", 64, 30, 30),
    ("(cd a; make) && { ls; }", "make; ls", 512, 70, 130),
    ("if ! test -f x; then make; fi", "test; make", 512, 70, 130),
    ("for f in make ls; do cat $f; done", "cat", 64, 10, 10),
    ("while true; do ls; done", "true; ls", 64, 20, 20),
    ("case $x in a) make;; esac", "make", 512, 60, 120),
    ("f() { make; }", "make", 512, 60, 120),
    ("diff <(ls a) <(ls b)", "ls | diff", 192, 30, 10),
    ("ls 2>&1 >/dev/null &> make >>make; cat < make", "ls; cat", 64, 20, 20),
    ("cat > x <<'EOF' && ls\nmake\n$(cargo test)\nEOF\ndate", "cat; ls; date", 64, 30, 30),
    ("git commit -m \"$(cat <<-E\n\tmake (it's\n\tE\n)\" && date", "cat; git; date", 256, 80, 140),
    ("ls # make ; make\ncat", "ls; cat", 64, 20, 20),
    ("echo '; make' \"&& make\" \\; make $'it\\'s; make'", "echo", 64, 10, 10),
    ("cat <<< make", "cat", 64, 10, 10),
];

#[test]
fn scripts_are_the_sum_of_their_commands() {
    for &(line, because, memory_mb, cpu_seconds, wall_seconds) in LINES {
        let found = known(recommend_line(line), line);
        let actual = (found.because.as_str(), found.memory_mb, found.cpu_seconds, found.wall_ms / 1000);
        assert_eq!(actual, (because, memory_mb, cpu_seconds, wall_seconds), "{line}");
    }
}

#[test]
fn unknown_commands_contribute_nothing() {
    for line in
        ["", "frob", "sudo frob", "env A=b frob", "sh -c frob", "sh -c ''", "timeout 5", "A=b", "xargs frob"]
    {
        assert_eq!(of(line), None, "{line}");
    }
    assert_eq!(recommend(&[]), None);
    assert_eq!(recommend(&[String::new()]), None);
    assert_eq!(recommend_line("frob; ls | frob && frob"), recommend_line("ls"));
}

#[test]
fn fields_and_their_units() {
    let found = known(of("npx tsc"), "npx tsc");
    let [runtime, build] = [Class::Runtime.need(), Class::Build.need()];
    assert_eq!(found.wall_ms, 300_000);
    assert_eq!(found.processes, runtime[3] + build[3], "the launcher stays");
    assert_eq!(found.disk_mb, 2048);
    assert_eq!(found.descriptors, 4096);
    assert_eq!(found.output_bytes, 1024 * 1024);
}

#[test]
fn every_program_that_people_ask_for_is_known() {
    let names = "ls cat head tail wc grep rg find sed awk sort uniq cut tr diff patch echo printf true false \
        pwd env date stat file du df cp mv rm mkdir touch ln chmod tar gzip zip unzip xz curl wget jq yq \
        sqlite3 python python3 pip uv poetry pytest tox nox ruff mypy black node npm npx pnpm yarn bun \
        deno tsc jest vitest eslint prettier webpack vite next esbuild cargo rustc clippy rustfmt go gofmt \
        gcc g++ cc c++ clang clang++ ld make cmake ninja meson bazel java javac mvn gradle kotlinc scala \
        sbt ruby bundle rake rspec perl php composer phpunit dotnet swift zig git gh bash sh zsh dash \
        ffmpeg pandoc terraform helm kubectl";
    for name in names.split_whitespace() {
        assert!(known(of(name), name).memory_mb >= 64, "{name}");
    }
}

#[test]
fn the_table_is_in_order() {
    let mut seen = std::collections::HashSet::new();
    for row in ROWS {
        let need = row.class.need();
        assert!(need[0] >= 64 && need[2] > 0 && need[3] > 0, "{}", row.programs);
        assert!(need.iter().zip(CEILING).all(|(need, ceiling)| *need <= ceiling), "{}", row.programs);
        for program in row.programs.split(' ') {
            assert!(!program.is_empty() && !program.contains('/'), "{:?}", row.programs);
            assert!(seen.insert((program, row.words)), "{program} {:?} is there twice", row.words);
        }
    }
    let others =
        WRAPPERS.iter().map(|wrapper| wrapper.programs).chain(VALUED.iter().map(|(programs, _)| *programs));
    for program in others.flat_map(|programs| programs.split(' ')) {
        assert!(look_up(program).is_some_and(|(name, _)| name == program), "{program:?}");
    }
    assert!(EXEC.iter().all(|flag| flag.starts_with('-')));
}

#[test]
fn sums_stop_at_the_ceiling() {
    let found = known(recommend_line(&"cargo test | ".repeat(5000)), "pipeline");
    assert_eq!((found.memory_mb, found.cpu_seconds, found.processes), (CEILING[0], CEILING[1], CEILING[3]));
    let found = known(recommend_line(&"npm test; pytest; ls\n".repeat(5000)), "sequence");
    assert_eq!((found.memory_mb, found.wall_ms, found.processes), (2048, CEILING[2] * 1000, 516));
    assert_eq!(found.because, "npm test; pytest; ls");
}

#[test]
fn reasons_stay_short() {
    let all = ROWS.iter().map(|row| row.programs.replace(' ', "\n")).collect::<Vec<_>>().join("\n");
    let found = known(recommend_line(&all), "every program");
    assert!(found.because.len() <= REASON + 8 && found.because.ends_with('…'), "{}", found.because);
}

#[test]
fn nesting_is_bounded() {
    assert!(of(&format!("{}ls", "nohup ".repeat(DEPTH))).is_some());
    assert_eq!(of(&format!("{}ls", "nohup ".repeat(DEPTH + 1))), None);
    assert!(recommend_line(&format!("{}ls{}", "$(".repeat(DEPTH), ")".repeat(DEPTH))).is_some());
    let deep = (0..DEPTH).fold("ls".to_owned(), |inner, _| format!("$(echo {inner})"));
    assert!(recommend_line(&deep).is_some());
}

/// No clock is read: a quadratic step shows in how long this takes, minutes instead of seconds.
#[test]
fn hostile_input_is_read_in_linear_time() {
    const MANY: usize = 30_000;
    #[rustfmt::skip]
    let pieces = [
        "(", ")", "$(", "${", "`", "\"", "'", "\\", "$'", "{ ", "<<E ", "<<E\n", "<(", "|", "&", ";", "\n",
        "#", "=", "- ", "ls;", "ls|", "sh -c '", "sh -c \"", "env ", "A=b ", "if ", "env -S '", "eval ",
        "python -m ", "\"$(", "-c ", "é", "${x:-$(", "case x in a) ", "find -exec ", "-oooo", "echo `",
        "a<<'", "🦀$(", "\0",
    ];
    for piece in ["(", "'", "\"$(", "sh -c '", "<<E\n"] {
        let text = piece.repeat(1 << 20);
        let _ = recommend_line(&text);
        let _ = name(&["sh".into(), "-c".into(), text]);
    }
    for piece in pieces {
        let text = piece.repeat(MANY / piece.len());
        let _ = recommend_line(&text);
        let _ = recommend_line(&format!("ls {text}"));
        let _ = recommend(&["bash".into(), "-c".into(), text.clone()]);
        let _ = name(&["bash".into(), "-c".into(), format!("ls {text}")]);
        let _ = name(&["eval".into(), text.clone()]);
        let _ = recommend(&["env".into(), "-S".into(), text.clone(), "ls".into()]);
        let _ = recommend(&["xargs".into(), format!("-{text}"), "cargo".into()]);
        let _ = recommend(&[text]);
    }
    for word in ["env", "--", "-", "+x", "-m", "A=b", "sh", "-c", "", "sudo", "npx", "find", "-exec"] {
        let argv = vec![word.to_owned(); MANY];
        let _ = (recommend(&argv), name(&argv));
        for first in ["env", "sh", "python", "cargo", "xargs", "make"] {
            let _ = recommend(&[&[first.to_owned()], &argv[..]].concat());
        }
    }
}

/// Every short text over the characters that matter, so that no combination at an end of input is left out.
#[test]
fn no_short_text_panics() {
    const SIGNS: &[u8] = b"a $(){}<>|&;'\"\\`#\n-=";
    let mut texts = vec![String::new()];
    for _ in 0..4 {
        texts = texts
            .iter()
            .flat_map(|text| SIGNS.iter().map(move |sign| format!("{text}{}", char::from(*sign))))
            .collect();
        for text in &texts {
            let _ = (parse(text, 1), parse(text, 0));
        }
    }
}
