//! Starts sandboxes: a place of its own for each test, and every kind of caller there is.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// An ordinary user's id, which needs no account.
pub(crate) const USER: u32 = 12_345;

/// Who starts the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Whoever runs the tests.
    Me,
    /// An ordinary user, when the tests run as root.
    User,
}

/// Everyone who can be tried here.
pub(crate) fn callers() -> &'static [Caller] {
    if is_root() { &[Caller::Me, Caller::User] } else { &[Caller::Me] }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The example that starts sandboxes, where every caller can execute it.
fn launch() -> &'static Path {
    static LAUNCH: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = LAUNCH.get_or_init(|| {
        let built = std::env::current_exe().unwrap();
        let built = built.parent().unwrap().parent().unwrap().join("examples/launch");
        let directory = TempDir::new().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = directory.path().join("launch");
        fs::copy(built, &path).unwrap();
        (directory, path)
    });
    path
}

/// A workspace, and around it what must stay out of reach.
pub(crate) struct Place {
    directory: TempDir,
    caller: Caller,
}

impl Place {
    pub(crate) fn new(caller: Caller) -> Self {
        // Not in /tmp, which the inside has its own of.
        let directory = TempDir::new_in("/var/tmp").unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let place = Self { directory, caller };
        for name in ["workspace", "state", "outside"] {
            fs::create_dir(place.path(name)).unwrap();
            place.give(&place.path(name));
        }
        fs::set_permissions(place.path("state"), fs::Permissions::from_mode(0o700)).unwrap();
        place
    }

    /// A path beside the workspace.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A path in the workspace.
    pub(crate) fn workspace(&self, name: &str) -> PathBuf {
        self.path("workspace").join(name)
    }

    /// Makes the caller the owner.
    pub(crate) fn give(&self, path: &Path) {
        if self.caller == Caller::User {
            chown(path, Some(USER), Some(USER)).unwrap();
        }
    }

    /// A file of the caller's own outside the workspace, with a text nobody can guess.
    pub(crate) fn canary(&self) -> (PathBuf, String) {
        let path = self.path("outside/canary");
        let text = format!("canary {}", self.directory.path().display());
        fs::write(&path, &text).unwrap();
        self.give(&path);
        (path, text)
    }

    /// The example with `options`, ready to be given a command and started by the caller.
    pub(crate) fn launch(&self, options: &[&str], command: &[&str]) -> Command {
        let mut launch = Command::new(launch());
        launch.arg("--state").arg(self.path("state")).arg("--workspace").arg(self.path("workspace"));
        launch.args(options).arg("--").args(command);
        self.as_caller(&mut launch);
        launch
    }

    /// Makes the caller start `command`.
    pub(crate) fn as_caller(&self, command: &mut Command) {
        if self.caller == Caller::User {
            command.uid(USER).gid(USER);
        }
        command.stdin(Stdio::null());
    }

    /// Where the example is.
    pub(crate) fn program(&self) -> &'static Path {
        launch()
    }

    /// Runs a shell script inside.
    pub(crate) fn sh(&self, script: &str) -> Ran {
        self.run(&[], script, &[])
    }

    /// Runs a shell script inside with a defence off.
    pub(crate) fn sh_without(&self, defence: &str, script: &str) -> Ran {
        self.run(&[], script, &[("PINFOLD_WITHOUT", defence)])
    }

    /// Runs a shell script inside.
    pub(crate) fn run(&self, options: &[&str], script: &str, environment: &[(&str, &str)]) -> Ran {
        let mut launch = self.launch(options, &["sh", "-c", script]);
        Ran::from(launch.envs(environment.iter().copied()).output().unwrap())
    }
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ran {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}

/// How many processes of the host have `marker` among their arguments.
pub(crate) fn processes_with(marker: &str) -> usize {
    let is_one = |entry: &fs::DirEntry| {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let own = entry.file_name().to_str() == Some(&std::process::id().to_string());
        !own && command.windows(marker.len()).any(|part| part == marker.as_bytes())
    };
    fs::read_dir("/proc").unwrap().flatten().filter(is_one).count()
}
