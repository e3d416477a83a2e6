//! The directory of one case: a home, a configuration, a workspace, something outside it, and the binaries.
//! Nothing of whoever runs the tests is around it.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::backends::Backend;
use crate::{Caller, Canary, Run};

/// Words that stand for something that only the case knows, in the rows of tables: `{canary}` and the like.
pub type Vars = Vec<(&'static str, String)>;

/// One case's directory, on one backend, for one caller.
#[derive(Debug)]
pub struct Place {
    directory: tempfile::TempDir,
    /// The wall.
    pub backend: &'static Backend,
    /// Who runs Pinfold.
    pub caller: Caller,
}

/// The probe, as it is seen inside.
pub const PROBE: &str = "/tools/pinfold-probe";

/// Where places are, unless `PINFOLD_CONFORMANCE_DIR` says otherwise: on disk, open to everyone, and not the
/// `/tmp` that every sandbox has one of its own of.
const BASE: &str = "/var/tmp";

/// What the caller owns in its place.
const DIRECTORIES: &[&str] = &["home", "config", "state", "run", "etc", "workspace", "outside"];

impl Place {
    /// Makes one.
    pub fn new(backend: &'static Backend, caller: Caller) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("pinfold-conformance-")
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in(std::env::var_os("PINFOLD_CONFORMANCE_DIR").unwrap_or(BASE.into()))
            .expect("make a directory for the case");
        // Asked for again: the process's mask may have taken rights away.
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("open the directory");
        let place = Self { directory, backend, caller };
        for name in DIRECTORIES {
            place.mkdir(name);
        }
        for (name, program) in [("bin", "pinfold"), ("tools", "pinfold-probe")] {
            fs::create_dir(place.path(name)).expect("make a directory");
            fs::set_permissions(place.path(name), Permissions::from_mode(0o755)).expect("open a directory");
            let (from, to) = (built(program), place.path(name).join(program));
            // A name of its own for the same file, so that its processes can be told from all others.
            if fs::hard_link(&from, &to).is_err() {
                install(&from, &to, &[]);
            }
        }
        place.write("workspace/control", "control");
        place
    }

    /// A path below the place.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A path below the workspace.
    pub fn workspace(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path("workspace").join(name)
    }

    /// The name of this place, found in the paths of everything that belongs to it.
    pub fn name(&self) -> &str {
        self.directory.path().file_name().and_then(|name| name.to_str()).expect("a name in plain letters")
    }

    /// Makes a directory of the caller's, and those above it.
    pub fn mkdir(&self, name: impl AsRef<Path>) {
        let mut path = self.directory.path().to_owned();
        for part in name.as_ref().components() {
            path.push(part);
            match fs::create_dir(&path) {
                Ok(()) => {
                    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("open a directory");
                    self.caller.own(&path);
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("make {}: {error}", path.display()),
            }
        }
    }

    /// Writes a file of the caller's, making the directories above it.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let name = name.as_ref();
        self.mkdir(name.parent().unwrap_or(Path::new("")));
        let path = self.path(name);
        fs::write(&path, content).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        self.caller.own(&path);
    }

    /// Writes a program of the caller's.
    pub fn script(&self, name: impl AsRef<Path>, text: &str) {
        self.mkdir(name.as_ref().parent().unwrap_or(Path::new("")));
        install(Path::new("/dev/stdin"), &self.path(&name), text.as_bytes());
        self.caller.own(&self.path(name));
    }

    /// Copies a program, which then belongs to whoever runs the tests.
    pub fn copy(&self, from: &Path, name: impl AsRef<Path>) {
        install(from, &self.path(name), &[]);
    }

    /// Makes a link of the caller's.
    pub fn symlink(&self, target: impl AsRef<Path>, name: impl AsRef<Path>) {
        let path = self.path(name);
        std::os::unix::fs::symlink(target, &path)
            .unwrap_or_else(|error| panic!("link {}: {error}", path.display()));
        self.caller.own(&path);
    }

    /// A file of the host as text.
    pub fn read(&self, name: impl AsRef<Path>) -> String {
        let path = self.path(name);
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether something, even a link that leads nowhere, is there.
    pub fn exists(&self, name: impl AsRef<Path>) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok()
    }

    /// A file of the caller's that must stay as it is.
    pub fn canary(&self, name: impl AsRef<Path>) -> Canary {
        self.mkdir(name.as_ref().parent().unwrap_or(Path::new("")));
        Canary::new(self.path(name), self.caller)
    }

    /// A program of the host, run by the caller in the workspace with nothing of the tester's environment.
    pub fn host(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.caller.command(program);
        command
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.path("home"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("PINFOLD_ETC", self.path("etc"))
            .current_dir(self.path("workspace"))
            .stdin(Stdio::null());
        command
    }

    /// Runs a program of the host to its successful end, and gives its output.
    pub fn host_output(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.host(program).args(arguments).output().expect("start a program of the host");
        assert_ok(program, &output);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The binary, ready to run as the caller in the workspace.
    pub fn pinfold(&self, arguments: &[&str]) -> Command {
        let mut command = self.host(self.path("bin/pinfold"));
        command.args(arguments);
        command
    }

    /// The probe on the host, for what the host's side of a case needs.
    pub fn probe(&self) -> PathBuf {
        self.path("tools/pinfold-probe")
    }

    /// A run behind the wall, to be described further.
    pub fn run(&self) -> Run<'_> {
        Run::new(self)
    }
}

/// Copies a program, by a process of its own: a file that this one has open for writing, while another of its
/// threads starts something, could not be executed for a moment (execve(2), `ETXTBSY`).
fn install(from: &Path, to: &Path, input: &[u8]) {
    let mut command = Command::new("install");
    let mut child =
        command.args(["-m", "755"]).args([from, to]).stdin(Stdio::piped()).spawn().expect("start install");
    child.stdin.take().expect("a pipe").write_all(input).expect("write a program");
    assert!(child.wait().expect("wait for install").success(), "copy {} to {}", from.display(), to.display());
}

/// Fails with what a program said unless it succeeded.
pub fn assert_ok(what: &str, output: &Output) {
    assert!(
        output.status.success(),
        "{what} ended with {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A binary of this workspace: beside the directory of the test that runs, unless a variable names it.
fn built(program: &str) -> PathBuf {
    if program == "pinfold"
        && let Some(named) = std::env::var_os("PINFOLD_BIN")
    {
        return named.into();
    }
    let test = std::env::current_exe().expect("the path of the test");
    let directory = test.parent().and_then(Path::parent).expect("the target directory");
    let path = directory.join(program);
    assert!(path.exists(), "{} is not there: `cargo build -p pinfold-cli` makes it", path.display());
    path
}
