//! Sandboxes with a name, which outlive the command that made them. No daemon: each is kept by its holder, and known by
//! a directory with three sockets. A connection to one is a way in for a command; a connection to another ends it; whoever
//! connects to the third is told which limit was passed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pinfold_core::coverage::ReceiptLine;
use pinfold_core::id::SandboxId;
use pinfold_core::outcome::LimitKind;
use pinfold_core::path::AbsPath;
use pinfold_core::plan::BackendName;
use pinfold_linux::backend::namespace::{Running, Turn, Until};
use pinfold_linux::holder::Holder;
use pinfold_linux::link::{Link, Received};
use pinfold_linux::live::Door;
use rustix::fs::{FlockOperation, flock};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};
use serde::{Deserialize, Serialize};

use super::holder::{self, Over, failed};
use super::spawner::Info;
use crate::asked::Prepared;
use crate::dirs::Dirs;
use crate::failure::Failure;

/// How long one lives that nobody uses and in which nothing runs.
pub const IDLE: Duration = Duration::from_secs(30 * 60);

/// The name that a person gives a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

impl std::str::FromStr for Name {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            && !text.starts_with(['.', '-']);
        match fits {
            true => Ok(Self(text.to_owned())),
            false => Err(Failure::new("PF-LIVE-010", format!("{text:?} cannot be the name of a sandbox"))
                .hint("use up to 64 letters, digits, -, _ and ., beginning with a letter or digit")),
        }
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is known of a sandbox with a name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct About {
    /// Its name.
    pub name: String,
    /// The name of its kind that every sandbox has.
    pub id: SandboxId,
    /// The wall.
    pub backend: BackendName,
    /// What is `/workspace` inside.
    pub workspace: Option<AbsPath>,
    /// When it was made, in milliseconds since 1970.
    pub since_ms: u64,
    /// Its holder.
    pub pid: i32,
    info: Info,
}

impl About {
    /// Requested beside actual.
    pub fn receipt(&self) -> &[ReceiptLine] {
        &self.info.receipt
    }

    /// What a command gets that says nothing else.
    pub fn defaults(&self) -> &Info {
        &self.info
    }
}

/// The directory of one.
struct Place(PathBuf);

impl Place {
    fn of(dirs: &Dirs, name: &Name) -> Self {
        Self(dirs.runtime.as_path().join("live").join(&name.0))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn failed(&self, what: &'static str) -> impl Fn(io::Error) -> Failure + '_ {
        move |error| Failure::new("PF-LIVE-011", format!("cannot {what} {}: {error}", self.0.display()))
    }

    /// Makes it and locks it; refused while another holder has it. What one left that was killed is taken over.
    fn take(&self, name: &Name) -> Result<File, Failure> {
        let failed = self.failed("make");
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(&failed)?;
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(false).mode(0o600);
        let lock = options.open(self.file("lock")).map_err(&failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(Failure::new("PF-LIVE-012", format!("there is a sandbox named {name} already"))
                    .hint(format!("use it: pinfold exec {name} -- …, or end it: pinfold stop {name}")));
            }
            Err(error) => return Err(failed(error.into())),
        }
        for socket in ["door", "stop", "look", "about.json"] {
            match fs::remove_file(self.file(socket)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(lock)
    }

    /// Whether a holder has it.
    fn is_held(&self) -> bool {
        let Ok(lock) = File::open(self.file("lock")) else { return false };
        flock(&lock, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
    }

    /// The address of a socket, and what must stay open while it is used: by a descriptor of the directory, since an
    /// address is shorter than a path may be (unix(7)).
    fn address(&self, name: &str) -> io::Result<(File, SocketAddrUnix)> {
        let directory = File::open(&self.0)?;
        let path = format!("/proc/self/fd/{}/{name}", directory.as_raw_fd());
        Ok((directory, SocketAddrUnix::new(path)?))
    }

    fn listen(&self, name: &str) -> Result<OwnedFd, Failure> {
        let listening = || -> io::Result<OwnedFd> {
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
            bind(&socket, &self.address(name)?.1)?;
            listen(&socket, 64)?;
            Ok(socket)
        };
        listening().map_err(self.failed("listen in"))
    }

    fn connect(&self, name: &str, shown: &Name) -> Result<OwnedFd, Failure> {
        let connected = || -> io::Result<OwnedFd> {
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
            connect(&socket, &self.address(name)?.1)?;
            Ok(socket)
        };
        connected().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                Failure::new("PF-LIVE-013", format!("there is no sandbox named {shown}"))
                    .hint(format!("`pinfold ps` lists them; make it: pinfold run --name {shown} -- …"))
            }
            _ => self.failed("connect to")(error),
        })
    }

    fn about(&self) -> Result<About, Failure> {
        let text = fs::read(self.file("about.json")).map_err(self.failed("read"))?;
        serde_json::from_slice(&text).map_err(|error| self.failed("read")(error.into()))
    }

    /// Takes away what makes it known. The lock goes last, with the directory.
    fn leave(&self) -> Result<(), Failure> {
        fs::remove_dir_all(&self.0).map_err(self.failed("remove"))
    }
}

/// Makes a sandbox with a name, in a holder that goes on when the caller ends. Returns when it can be used. The caller
/// must be single-threaded.
pub fn start(prepared: &Prepared, name: &Name, id: SandboxId, idle: Duration) -> Result<About, Failure> {
    let place = Place::of(&prepared.dirs, name);
    let lock = place.take(name)?;
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|error| place.failed("make")(error.into()))?;
    let (mut lock, mut reader) = (Some(lock), Some(reader));
    Holder::start(|| {
        drop(reader.take());
        let (ready, _lock) = (File::from(writer), lock.take());
        i32::from(keep(prepared, name, id, &place, idle, ready).is_err())
    })
    .map_err(place.failed("make"))?;
    drop(lock.take());
    let mut said = Vec::new();
    let reader = reader.take().map(File::from);
    reader.map_or(Ok(0), |mut reader| reader.read_to_end(&mut said)).map_err(place.failed("make"))?;
    match serde_json::from_slice(&said) {
        Ok(Ok(about)) => Ok(about),
        Ok(Err(failure)) => Err(failure),
        Err(_) => Err(wordless(name)),
    }
}

/// The holder: makes the sandbox, says so, and keeps it.
fn keep(
    prepared: &Prepared,
    name: &Name,
    id: SandboxId,
    place: &Place,
    idle: Duration,
    ready: File,
) -> Result<(), Failure> {
    let begun = begin(prepared, name, id, place).or_else(|failure| place.leave().and(Err(failure)));
    let said = serde_json::to_vec(&begun.as_ref().map(|(about, _)| about)).map_err(Failure::from)?;
    // A caller that was killed meanwhile gets no sandbox, and nothing is left of it.
    if let Err(error) = { ready }.write_all(&said) {
        drop(begun);
        return place.leave().and(Err(place.failed("make")(error)));
    }
    let (_, (mut running, sockets)) = begun?;
    let mut watchers = Vec::new();
    let stopper = attend(&mut running, &sockets, &mut watchers, idle);
    let over = running.finish().map(|finished| holder::over(prepared, finished)).map_err(failed);
    place.leave()?;
    let said = serde_json::to_vec(&over).map_err(Failure::from)?;
    watchers.extend(stopper?.map(Link::from));
    for listener in watchers {
        // Whoever asked for it may have left.
        drop(listener.send(&said, &[]));
    }
    over.map(drop)
}

type Begun = (About, (Running, Sockets));

/// What a watcher is told when no limit was passed.
const NOTHING: &[u8] = b"null";

/// What a holder listens on.
struct Sockets {
    doors: OwnedFd,
    stops: OwnedFd,
    looks: OwnedFd,
}

fn begin(prepared: &Prepared, name: &Name, id: SandboxId, place: &Place) -> Result<Begun, Failure> {
    detach().map_err(place.failed("make"))?;
    let mut running = holder::start(prepared, id, None, true)?;
    while !running.is_ready() {
        if let Turn::Over = running.turn(&[]).map_err(failed)? {
            return running
                .finish()
                .map_err(failed)
                .and_then(|_| Err(Failure::new("PF-LIVE-014", "it ended at once")));
        }
    }
    let about = About {
        name: name.0.clone(),
        id,
        backend: prepared.chosen.backend,
        workspace: prepared.workspace().cloned(),
        since_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
        pid: rustix::process::getpid().as_raw_nonzero().get(),
        info: Info::of(prepared),
    };
    let text = serde_json::to_vec(&about).map_err(Failure::from)?;
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(place.file("about.json"))
        .map_err(place.failed("write in"))?;
    file.write_all(&text).map_err(place.failed("write in"))?;
    pinfold_linux::holder::give_memory_back();
    let (stops, looks) = (place.listen("stop")?, place.listen("look")?);
    Ok((about, (running, Sockets { doors: place.listen("door")?, stops, looks })))
}

/// Leaves the caller's session, directory and streams.
fn detach() -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::chdir("/")?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    pinfold_linux::descriptors::replace_standard(null.as_fd())
}

/// Lets clients in until somebody ends it or nobody uses it; who ended it.
fn attend(
    running: &mut Running,
    Sockets { doors, stops, looks }: &Sockets,
    watchers: &mut Vec<Link>,
    idle: Duration,
) -> Result<Option<OwnedFd>, Failure> {
    let mut used = Instant::now();
    loop {
        if running.is_busy() {
            used = Instant::now();
        }
        let end = used.checked_add(idle);
        if end.is_some_and(|end| Instant::now() >= end) {
            running.kill().map_err(failed)?;
        }
        running.wake_at(end.filter(|_| !running.is_busy()));
        let mut watched = [doors, stops, looks].map(|socket| (socket.as_fd(), Until::Readable)).to_vec();
        watched.extend(watchers.iter().map(|watcher| (watcher.as_fd(), Until::Readable)));
        let Turn::Going { ready } = running.turn(&watched).map_err(failed)? else { return Ok(None) };
        let accept = |socket| {
            let broken = |error: rustix::io::Errno| {
                Failure::new("PF-LIVE-015", format!("cannot let a client in: {error}"))
            };
            accept_with(socket, SocketFlags::CLOEXEC).map_err(broken)
        };
        if ready.contains(&0) {
            used = Instant::now();
            running.admit(accept(doors)?).map_err(failed)?;
        }
        if ready.contains(&1) {
            let stopper = accept(stops)?;
            running.kill().map_err(failed)?;
            return Ok(Some(stopper));
        }
        if ready.contains(&2) {
            watchers.push(accept(looks)?.into());
        }
        for at in ready.into_iter().rev().filter(|at| *at > 2) {
            let Ok(Received::Message(..)) = watchers[at - 3].receive(false) else {
                watchers.remove(at - 3);
                continue;
            };
            running.look().map_err(failed)?;
            // One that ends for it tells so when it has. A watcher that is gone is found gone next time.
            if !running.is_ended() {
                drop(watchers[at - 3].send(NOTHING, &[]));
            }
        }
    }
}

/// A way into one, and what is known of it.
pub fn enter(dirs: &Dirs, name: &Name) -> Result<(Door, About), Failure> {
    let place = Place::of(dirs, name);
    let socket = place.connect("door", name)?;
    Ok((Door::from_socket(socket), place.about()?))
}

/// Ends one, and returns what came of it.
pub fn stop(dirs: &Dirs, name: &Name) -> Result<Over, Failure> {
    let place = Place::of(dirs, name);
    let mut link = Link::from(place.connect("stop", name)?);
    loop {
        match link.receive(true).map_err(place.failed("hear from"))? {
            Received::Message(said, _) => {
                return serde_json::from_slice(&said).unwrap_or_else(|_| Err(wordless(name)));
            }
            Received::Part | Received::Nothing => {}
            Received::End => return Err(wordless(name)),
        }
    }
}

/// Somebody who wants to know which limit ended a sandbox, from before it does.
pub(super) struct Watcher(Link);

impl Watcher {
    pub(super) fn new(dirs: &Dirs, name: &Name) -> Result<Self, Failure> {
        Place::of(dirs, name).connect("look", name).map(|socket| Self(socket.into()))
    }

    /// The limit that was passed, if one was: the holder looks.
    pub(super) fn limit(mut self) -> Option<LimitKind> {
        // A holder that is gone has told before, or nothing.
        drop(self.0.send(b"look", &[]));
        loop {
            match self.0.receive(true).ok()? {
                Received::Message(said, _) => {
                    let over: Result<Over, Failure> = serde_json::from_slice(&said).ok()?;
                    return over.ok()?.limit;
                }
                Received::Part | Received::Nothing => {}
                Received::End => return None,
            }
        }
    }
}

/// Every one that lives. What is left of those that were killed is taken away.
pub fn list(dirs: &Dirs) -> Result<Vec<About>, Failure> {
    let all = dirs.runtime.as_path().join("live");
    let entries = match fs::read_dir(&all) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| unreadable(&all, &error))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let place = Place(entry.map_err(|error| unreadable(&all, &error))?.path());
        if place.is_held() {
            // One that is being made, or is just ending, is not listed.
            found.extend(place.about());
        } else if let Some(name) = place.0.file_name().and_then(|name| name.to_str()?.parse::<Name>().ok())
            && let Ok(_lock) = place.take(&name)
        {
            // Somebody else may sweep at the same time; what stays is swept next time.
            drop(place.leave());
        }
    }
    found.sort_by_key(|about| about.since_ms);
    Ok(found)
}

fn wordless(name: &Name) -> Failure {
    Failure::new("PF-LIVE-014", format!("the holder of {name} ended without a word"))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new("PF-LIVE-011", format!("cannot read {}: {error}", path.display()))
}
