//! Who runs Pinfold. Run by root, the suite is both root and an ordinary user with nobody's id; run by anyone
//! else, it is that user alone.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Who runs Pinfold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Whoever runs the tests.
    Oneself,
    /// An ordinary user with this id, and a group of the same number.
    User(u32),
}

/// Where the search for an id without an account begins.
const FIRST: u32 = 23456;

impl Caller {
    /// Every caller that this process can be.
    pub fn all() -> Vec<Self> {
        if is_root() { vec![Self::Oneself, Self::User(free_id())] } else { vec![Self::Oneself] }
    }

    /// True for root, whose commands are another user inside.
    pub fn is_root(self) -> bool {
        self == Self::Oneself && is_root()
    }

    /// The caller's id.
    pub fn id(self) -> u32 {
        match self {
            Self::Oneself => rustix::process::getuid().as_raw(),
            Self::User(id) => id,
        }
    }

    /// A command that runs `program` as this caller: the process that is started becomes it, with no fork
    /// between.
    pub fn command(self, program: impl AsRef<OsStr>) -> Command {
        match self {
            Self::Oneself => Command::new(program),
            Self::User(id) => {
                let mut command = Command::new("setpriv");
                command.args([
                    "--reuid",
                    &id.to_string(),
                    "--regid",
                    &id.to_string(),
                    "--clear-groups",
                    "--",
                ]);
                command.arg(program);
                command
            }
        }
    }

    /// Gives `path` to this caller; links themselves, never what they lead to.
    pub fn own(self, path: &Path) {
        if let Self::User(id) = self {
            std::os::unix::fs::lchown(path, Some(id), Some(id))
                .unwrap_or_else(|error| panic!("give {} to {id}: {error}", path.display()));
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oneself if is_root() => f.write_str("root"),
            Self::Oneself => f.write_str("oneself"),
            Self::User(id) => write!(f, "user {id}"),
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// An id that no account of this host has.
fn free_id() -> u32 {
    static ID: OnceLock<u32> = OnceLock::new();
    *ID.get_or_init(|| {
        let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let taken = |id: &u32| accounts.lines().any(|line| line.split(':').nth(2) == Some(&id.to_string()));
        (FIRST..).find(|id| !taken(id)).expect("a free id")
    })
}
