//! Starts this test binary again behind a wall and reads what it reports. What is tried is in `attempts` and
//! `paths`.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Output};

use pinfold_core::plan::SeccompProfile;
use pinfold_linux::capabilities;
use pinfold_linux::rlimits::Rlimits;
use pinfold_linux::seccomp::{Filter, Network, Options};

use super::{attempts, modes, paths};

/// What an attempt is made behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wall {
    None,
    Default,
    Strict,
    Debug,
    /// The default filter of a wall without namespaces.
    Shared,
    Capabilities,
    Limits,
    Landlock,
}

/// Who makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Same,
    Nobody,
}

const WALLS: [Wall; 8] = [
    Wall::None,
    Wall::Default,
    Wall::Strict,
    Wall::Debug,
    Wall::Shared,
    Wall::Capabilities,
    Wall::Limits,
    Wall::Landlock,
];

pub(crate) const NOBODY: u32 = 65534;

/// Answers by name of the attempt.
pub(crate) type Answers = BTreeMap<String, String>;

/// A process that will make the attempts called `what`.
pub(crate) fn command(what: &str, wall: Wall, user: User) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "inside", "--nocapture", "--test-threads=1"])
        .env("CONFINE_TRY", what)
        .env("CONFINE_WALL", format!("{wall:?}"))
        .env("CONFINE_USER", format!("{user:?}"));
    command
}

pub(crate) fn start(what: &str, wall: Wall, user: User) -> Output {
    command(what, wall, user).output().unwrap()
}

/// Makes the attempts called `what` and returns their answers.
pub(crate) fn run(what: &str, wall: Wall, user: User) -> Answers {
    answers(&mut command(what, wall, user))
}

pub(crate) fn answers(command: &mut Command) -> Answers {
    let output = command.output().unwrap();
    let complete = output.status.success();
    let said = String::from_utf8_lossy(&output.stderr);
    let answers: Answers = said
        .lines()
        .filter_map(|line| line.strip_prefix("answer ")?.split_once(": "))
        .map(|(name, answer)| (name.to_owned(), answer.to_owned()))
        .collect();
    assert!(complete && !answers.is_empty(), "{said}");
    answers
}

/// Reports one answer to the process that asked. One write, so that a thread cannot come between.
pub(crate) fn answer(name: &str, answer: impl AsRef<str>) {
    let line = format!("answer {name}: {}\n", answer.as_ref());
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// The other side: takes on the user and the wall that the environment names, then tries.
pub(crate) fn inside() {
    let Ok(what) = std::env::var("CONFINE_TRY") else { return };
    let named = |variable: &str| std::env::var(variable).unwrap();
    let wall = WALLS.into_iter().find(|wall| format!("{wall:?}") == named("CONFINE_WALL")).unwrap();
    if named("CONFINE_USER") == "Nobody" {
        become_nobody();
    }
    let early = attempts::start_early(&what);
    rustix::thread::set_no_new_privs(true).unwrap();
    put_up(wall);
    match what.as_str() {
        "refused" => attempts::refused(),
        "namespaces" => attempts::namespaces(),
        "sockets" => attempts::sockets(),
        "modes" => modes::inside(),
        "terminal" => attempts::terminal(),
        "int80" => attempts::int80(),
        "numbers" => attempts::numbers(),
        "profiles" => attempts::profiles(),
        "threads" => attempts::threads(early),
        "capabilities" => attempts::capabilities(),
        "limits" => attempts::limits(),
        "paths" => paths::inside(),
        program => super::programs::inside(program),
    }
}

fn put_up(wall: Wall) {
    let filter = |profile, shares_host| {
        let options = Options { network: Network::Loopback, shares_host };
        Filter::compile(&profile, options).unwrap().install().unwrap();
    };
    match wall {
        Wall::None | Wall::Landlock => {}
        Wall::Default => filter(SeccompProfile::Default, false),
        Wall::Strict => filter(SeccompProfile::Strict, false),
        Wall::Debug => filter(SeccompProfile::Debug, false),
        Wall::Shared => filter(SeccompProfile::Default, true),
        Wall::Capabilities => capabilities::drop_all().unwrap(),
        Wall::Limits => {
            let limits = Rlimits { descriptors: Some(20), file_size: Some(4096), ..Rlimits::default() };
            limits.apply().unwrap();
        }
    }
}

fn become_nobody() {
    // SAFETY: none of these takes a pointer that is read; libc changes all threads together.
    let done = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setresgid(NOBODY, NOBODY, NOBODY) == 0
            && libc::setresuid(NOBODY, NOBODY, NOBODY) == 0
    };
    assert!(done, "{}", std::io::Error::last_os_error());
}
