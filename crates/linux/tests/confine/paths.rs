//! Landlock alone, with the whole host in sight: what lies outside the rules, and each ABI's own gaps.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use pinfold_linux::landlock::{Enforced, PRETEND_ABI, Rules, abi, restrict};

use super::runner::{Answers, User, Wall, answer, answers, command};
use super::users;

/// A host with a secret, a zone, something readable, and a listener that has only a name.
struct Host {
    directory: tempfile::TempDir,
    canary: String,
    name: String,
    _listener: UnixListener,
}

impl Host {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let random = uuid();
        let (canary, name) = (format!("canary {random}"), format!("pinfold-confine-{random}"));
        for below in ["zone/deep", "outside", "readable"] {
            fs::create_dir_all(directory.path().join(below)).unwrap();
        }
        for file in ["outside/secret", "outside/victim", "zone/file", "readable/file"] {
            fs::write(directory.path().join(file), &canary).unwrap();
        }
        open_to_all(directory.path());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        Self { directory, canary, name, _listener: listener }
    }

    fn attempts(&self, wall: Wall, user: User, pretended: Option<&str>) -> Answers {
        let mut command = command("paths", wall, user);
        command.env("CONFINE_ROOT", self.directory.path()).env("CONFINE_SOCKET", &self.name);
        if let Some(pretended) = pretended {
            command.env(PRETEND_ABI, pretended);
        }
        answers(&mut command)
    }

    fn unchanged(&self) -> bool {
        let outside = self.directory.path().join("outside");
        let names: BTreeSet<_> =
            fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names == BTreeSet::from(["secret".into(), "victim".into()])
            && names.iter().all(|name| fs::read_to_string(outside.join(name)).unwrap() == self.canary)
    }
}

fn uuid() -> String {
    let mut bytes = [0_u8; 8];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// File modes must not be what refuses: only Landlock is under test.
fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            open_to_all(&entry.unwrap().path());
        }
    }
}

#[test]
fn nothing_outside_the_rules_can_be_read_or_changed() {
    for user in users() {
        let host = Host::new();
        let held = host.attempts(Wall::Landlock, user, None);
        assert!(host.unchanged());
        for (name, said) in &held {
            match name.split_once(' ') {
                Some(("outside", what)) => assert_eq!(said, "refused", "{what} as {user:?}"),
                Some(("within", what)) => assert_eq!(said, "ok", "{what} as {user:?}"),
                _ => assert_eq!((name.as_str(), said.as_str()), ("enforced", "fully")),
            }
        }
        let open = Host::new();
        let control = open.attempts(Wall::None, user, None);
        assert!(!open.unchanged());
        for (name, said) in control.iter().filter(|(name, _)| name.starts_with("outside")) {
            assert_eq!(said, "ok", "{name} fails without Landlock as {user:?}");
        }
    }
}

#[test]
fn an_older_abi_says_what_it_leaves_open() {
    let newest = abi().expect("this test needs a kernel with Landlock");
    for pretended in 1..=newest {
        let host = Host::new();
        let held = host.attempts(Wall::Landlock, User::Same, Some(&pretended.to_string()));
        let truncated = held["outside truncate"] == "ok";
        assert_eq!(truncated, pretended < 3, "ABI {pretended}");
        assert_eq!(
            held["enforced"].contains("truncated"),
            truncated,
            "ABI {pretended}: {}",
            held["enforced"]
        );
        let signalled = held["outside signal"] == "ok";
        assert_eq!(signalled, pretended < 6, "ABI {pretended}");
        assert_eq!(held["enforced"].contains("signals"), signalled, "ABI {pretended}: {}", held["enforced"]);
        assert_eq!(held["outside ioctl of a device"] == "ok", pretended < 5, "ABI {pretended}");
        assert_eq!(held["within rename between directories"] == "ok", pretended >= 2, "ABI {pretended}");
        assert_eq!(held["enforced"] == "fully", pretended >= 6);
        for always in ["outside read", "outside write", "outside list", "outside create", "outside remove"] {
            assert_eq!(held[always], "refused", "{always} with ABI {pretended}");
        }
    }
}

#[test]
fn a_pretended_abi_only_lowers() {
    for absent in ["0", "none", "-1"] {
        let host = Host::new();
        let held = host.attempts(Wall::Landlock, User::Same, Some(absent));
        assert!(held["enforced"].starts_with("not: "), "{absent}");
    }
    let host = Host::new();
    assert_eq!(host.attempts(Wall::Landlock, User::Same, Some("4000"))["enforced"], "fully");
}

fn said<T>(name: &str, result: std::io::Result<T>) {
    answer(
        name,
        match result {
            Ok(_) => "ok".to_owned(),
            Err(error) => match error.raw_os_error() {
                Some(libc::EACCES | libc::EPERM | libc::EXDEV) => "refused".to_owned(),
                _ => error.to_string(),
            },
        },
    );
}

fn truncate(path: &Path, length: i64) -> std::io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the path outlives the call.
    checked(unsafe { libc::truncate(path.as_ptr(), length) }, last_error())
}

pub(crate) fn inside() {
    let root = PathBuf::from(std::env::var_os("CONFINE_ROOT").unwrap());
    let at = |path: &str| root.join(path);
    let neighbour = neighbour();
    if std::env::var("CONFINE_WALL").as_deref() == Ok("Landlock") {
        let system = ["/usr", "/bin", "/lib", "/lib64", "/etc/passwd", "/proc"].map(PathBuf::from);
        let rules = Rules {
            list: Vec::new(),
            read: system
                .into_iter()
                .filter(|path| path.exists())
                .chain([at("readable"), RANDOM.into()])
                .collect(),
            write: vec![at("zone")],
            devices: vec!["/dev/null".into()],
            scoped: true,
        };
        answer(
            "enforced",
            match restrict(&rules).unwrap().enforced {
                Enforced::Fully => "fully".to_owned(),
                Enforced::Partially(reason) => reason,
                Enforced::Not(reason) => format!("not: {reason}"),
            },
        );
    }

    said("within read", fs::read(at("readable/file")));
    said("within read of a file rule", fs::read("/etc/passwd"));
    said("within write", fs::write(at("zone/new"), "new"));
    said("within truncate", truncate(&at("zone/new"), 1));
    said("within mkdir", fs::create_dir_all(at("zone/a/b")));
    said("within rename between directories", fs::rename(at("zone/new"), at("zone/a/b/new")));
    said("within link", fs::hard_link(at("zone/file"), at("zone/other")));
    said("within remove", fs::remove_file(at("zone/other")));
    said("within list", fs::read_dir(at("zone")));
    said("within exec", std::process::Command::new("/bin/true").status());
    said("within socket", UnixListener::bind(at("zone/socket")));
    said("within device", fs::File::options().write(true).truncate(true).open("/dev/null"));

    fs::copy("/bin/cat", at("zone/cat")).unwrap();
    let read = std::process::Command::new(at("zone/cat")).arg(at("outside/secret")).output().unwrap();
    said(
        "outside read by a copied program",
        checked(if read.status.success() { 0 } else { 1 }, libc::EACCES),
    );
    said("outside read", fs::read(at("outside/secret")));
    said("outside read through ..", fs::read(at("zone/../outside/secret")));
    said(
        "outside read through /proc",
        fs::read(Path::new("/proc/self/root").join(at("outside/secret").strip_prefix("/").unwrap())),
    );
    std::os::unix::fs::symlink(at("outside/secret"), at("zone/link")).unwrap();
    said("outside read through a link", fs::read(at("zone/link")));
    said(
        "outside write through a link",
        fs::File::options().append(true).open(at("zone/link")).and_then(|mut file| file.write_all(b"x")),
    );
    said("outside list", fs::read_dir(at("outside")));
    said("outside list of the root", fs::read_dir("/"));
    said(
        "outside write",
        fs::File::options().append(true).open(at("outside/victim")).and_then(|mut file| file.write_all(b"x")),
    );
    said(
        "outside write where only reading is allowed",
        fs::File::options().append(true).open(at("readable/file")),
    );
    said("outside truncate", truncate(&at("outside/victim"), 3));
    said("outside create", fs::write(at("outside/new"), "new"));
    said("outside mkdir", fs::create_dir(at("outside/directory")));
    said("outside symlink", std::os::unix::fs::symlink("x", at("outside/symlink")));
    said("outside link out", fs::hard_link(at("zone/file"), at("outside/linked")));
    said("outside link in", fs::hard_link(at("outside/secret"), at("zone/stolen")));
    said("outside rename out", fs::rename(at("zone/file"), at("outside/renamed")));
    said("outside rename in", fs::rename(at("outside/secret"), at("zone/moved")));
    said("outside remove", fs::remove_file(at("outside/victim")));
    let device = fs::File::open(RANDOM).unwrap();
    let mut entropy = 0_i32;
    // SAFETY: RNDGETENTCNT of random(4) fills one int, which outlives the call.
    let asked = unsafe { libc::ioctl(device.as_raw_fd(), 0x8004_5200, &raw mut entropy) };
    said("outside ioctl of a device", checked(asked, last_error()));
    // SAFETY: ends the process made above, which only waits for that.
    said("outside signal", checked(unsafe { libc::kill(neighbour, libc::SIGTERM) }, last_error()));
    let address = SocketAddr::from_abstract_name(std::env::var("CONFINE_SOCKET").unwrap()).unwrap();
    said("outside abstract socket", UnixStream::connect_addr(&address));
}

/// A device that the rules allow to be read, and no more.
const RANDOM: &str = "/dev/urandom";

fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or_default()
}

fn checked(returned: i32, error: i32) -> std::io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(error)) }
}

/// A process of the same user outside the rules. It ends with this one.
fn neighbour() -> i32 {
    // SAFETY: the child asks to be killed with its parent, then waits for signals.
    match unsafe { libc::fork() } {
        0 => loop {
            // SAFETY: neither call touches memory.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::pause();
            }
        },
        neighbour => neighbour,
    }
}
