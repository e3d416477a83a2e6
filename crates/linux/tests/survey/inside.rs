//! A small wall for these tests: one zone, bound at a directory of a fresh mount namespace, with the survey's covers
//! on it. The test program starts itself again under unshare(1) to get there, so it needs no privilege.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pinfold_core::glob::Glob;
use pinfold_core::path::AbsPath;
use pinfold_core::plan::{Files, Protect, Reads, Zone as PlanZone, ZoneSource};
use pinfold_core::zone::Access;
use pinfold_linux::survey::{self, Cover, StateDir, Survey, SurveyError, With, Zone};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags};

/// Names as a planner would give them, fewer.
pub(crate) const NAMES: &[&str] =
    &[".bashrc", ".envrc", ".vscode", ".mcp.json", ".gitmodules", ".config/fish", "mise.toml"];
/// Names in git directories.
pub(crate) const GIT: &[&str] = &[
    "config",
    "config.worktree",
    "hooks",
    "info/attributes",
    "objects/info/alternates",
    "commondir",
    "gitdir",
];

/// A workspace of its own, and a state directory beside it.
pub(crate) struct Workspace {
    /// The directory of everything here, removed at the end.
    pub(crate) temp: tempfile::TempDir,
    pub(crate) files: Files,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        for name in ["ws", "state", "view", "lower", "empty"] {
            fs::create_dir(temp.path().join(name)).unwrap();
        }
        let host = AbsPath::new(temp.path().join("ws")).unwrap();
        let zone = PlanZone {
            name: "workspace".to_owned(),
            inside: AbsPath::new("/workspace").unwrap(),
            source: ZoneSource::Host { path: host, access: Access::ReadWrite },
        };
        let text = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let files = Files {
            reads: Reads::System,
            zones: vec![zone],
            read: Vec::new(),
            write: Vec::new(),
            deny: Vec::new(),
            protect: Protect { names: text(NAMES), git: text(GIT), extra: Vec::new() },
            own: Vec::new(),
            readonly_root: false,
        };
        Self { temp, files }
    }

    pub(crate) fn deny(mut self, globs: &[&str]) -> Self {
        self.files.deny = globs.iter().map(|glob| Glob::parse(glob).unwrap()).collect();
        self
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.temp.path().join("ws")
    }

    pub(crate) fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.root().join(below)
    }

    pub(crate) fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs a shell script on the host, in the workspace.
    pub(crate) fn host(&self, script: &str) -> String {
        shell(Command::new("sh").arg("-c").arg(script).current_dir(self.root()))
    }

    /// Waits until the coarse clock has passed this moment, so that what was made before is older than what follows:
    /// file times can be finer than that clock, and then lie ahead of it by up to a tick or two.
    pub(crate) fn settle(&self) {
        let read = |clock| {
            let time = rustix::time::clock_gettime(clock);
            (time.tv_sec, time.tv_nsec)
        };
        let now = read(rustix::time::ClockId::Realtime);
        while read(rustix::time::ClockId::RealtimeCoarse) <= now {
            std::hint::spin_loop();
        }
    }

    pub(crate) fn state(&self) -> StateDir {
        let path = self.temp.path().join("state");
        rustix::fs::chmod(&path, Mode::RWXU).unwrap();
        StateDir::open(&path).unwrap()
    }

    pub(crate) fn zone(&self, access: Access) -> Zone {
        let host = AbsPath::new(self.root()).unwrap();
        Zone { root: path_fd(&self.root()), host, inside: AbsPath::new("/workspace").unwrap(), access }
    }

    pub(crate) fn try_take(&self) -> Result<Survey, SurveyError> {
        survey::take(&self.files, &[self.zone(Access::ReadWrite)], &self.state())
    }

    pub(crate) fn take(&self) -> Survey {
        self.try_take().unwrap()
    }

    /// Runs `script` in the workspace as seen from inside, with these covers.
    pub(crate) fn inside(&self, covers: &[Cover], script: &str) -> String {
        shell(&mut self.command(covers, script))
    }

    /// Starts `script` inside and leaves it running; it is to read its standard input to be told what to do.
    pub(crate) fn start(&self, covers: &[Cover], script: &str) -> Child {
        self.command(covers, script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    fn command(&self, covers: &[Cover], script: &str) -> Command {
        let mut list = Vec::new();
        for cover in covers {
            list.push(match cover.with {
                With::Pinned => b'p',
                With::Itself => b'i',
                With::Absent => b'a',
                With::EmptyFile => b'f',
                With::EmptyDir => b'd',
            });
            list.extend(cover.path.as_os_str().as_bytes());
            list.push(0);
        }
        let number = self.temp.path().join(format!("covers-{}", covers.len()));
        fs::write(&number, list).unwrap();
        let mut command = Command::new("unshare");
        command.args(["-Urm", "--propagation", "private", "--kill-child"]);
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", "inside::helper", "--nocapture", "--test-threads=1"]);
        command
            .env("SURVEY_INSIDE", self.temp.path())
            .env("SURVEY_COVERS", number)
            .env("SURVEY_SCRIPT", script);
        command
    }
}

pub(crate) fn path_fd(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

/// The output of a command, standard error included; the words of the test harness are cut off.
fn shell(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    after_start(&text)
}

/// What a script wrote, without what the test harness wrote before it.
pub(crate) fn after_start(text: &str) -> String {
    text.split_once("~~~\n").map_or(text, |(_, rest)| rest).to_owned()
}

/// What covers `path`.
pub(crate) fn with(covers: &[Cover], path: impl AsRef<Path>) -> Option<With> {
    covers.iter().find(|cover| cover.path == path.as_ref()).map(|cover| cover.with)
}

/// Not a test: the inner half of [`Workspace::inside`].
#[test]
fn helper() {
    let Some(temp) = std::env::var_os("SURVEY_INSIDE").map(PathBuf::from) else { return };
    let (zone, view, lower) = (temp.join("ws"), temp.join("view"), temp.join("lower"));
    rustix::mount::mount_bind_recursive(&zone, &view).unwrap();
    // A read-only copy of the zone, to take read-only mounts from.
    rustix::mount::mount_bind_recursive(&zone, &lower).unwrap();
    rustix::mount::mount_remount(&lower, MountFlags::BIND | MountFlags::RDONLY, c"").unwrap();
    let empty = temp.join("empty");
    rustix::mount::mount("none", &empty, "tmpfs", MountFlags::empty(), None).unwrap();
    fs::write(empty.join("file"), "").unwrap();
    fs::create_dir(empty.join("directory")).unwrap();
    std::os::unix::fs::symlink("/proc/protected-by-pinfold", empty.join("link")).unwrap();
    rustix::mount::mount_remount(&empty, MountFlags::RDONLY, c"").unwrap();
    let list = fs::read(std::env::var_os("SURVEY_COVERS").unwrap()).unwrap();
    for line in list.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let path = Path::new(OsStr::from_bytes(&line[1..]));
        let source = match line[0] {
            b'p' => view.join(path),
            b'i' => lower.join(path),
            b'a' => empty.join("link"),
            b'f' => empty.join("file"),
            _ => empty.join("directory"),
        };
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
            | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = rustix::mount::open_tree(rustix::fs::CWD, &source, flags).unwrap();
        let to = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(&tree, "", rustix::fs::CWD, view.join(path), to)
            .unwrap_or_else(|error| panic!("{} {error}", path.display()));
    }
    let script = format!("echo '~~~'; {}", std::env::var("SURVEY_SCRIPT").unwrap());
    let error = Command::new("bash").arg("-c").arg(script).current_dir(&view).env("HOME", &empty).exec();
    panic!("{error}");
}
