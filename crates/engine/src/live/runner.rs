//! What an agent's developer holds: a runner, the blueprints it made, and the sandboxes made by them.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_core::coverage::ReceiptLine;
use pinfold_core::id::SandboxId;
use pinfold_core::outcome::{LimitKind, Outcome, Usage};
use pinfold_linux::link::{Link, Received};
use pinfold_linux::live::Door;

use super::command::Command;
use super::execution::{ExecError, Execution};
use super::holder::{END, Over, USAGE, Word};
use super::pool::Pool;
use super::spawner::{Answer, Ask, Info};
use crate::asked::Asked;
use crate::failure::Failure;
use crate::record::Record;

/// Makes sandboxes, for a program of any kind and from any thread.
#[derive(Clone, Debug)]
pub struct SandboxRunner(Arc<Spawner>);

/// The spawner, as its client sees it.
#[derive(Debug)]
struct Spawner {
    link: Mutex<Link>,
    process: Mutex<Child>,
}

impl SandboxRunner {
    /// Starts the spawner: the `pinfold` that `PINFOLD_PROGRAM` names, or the one beside this program, or the first in
    /// `PATH`.
    pub fn start() -> Result<Self, Failure> {
        let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("pinfold")));
        let program = std::env::var_os("PINFOLD_PROGRAM").map(PathBuf::from);
        let program = program.or(beside.filter(|path| path.is_file())).unwrap_or_else(|| "pinfold".into());
        Self::start_with(&program)
    }

    /// Starts the spawner with this `pinfold`, which must be of the same version as this library.
    pub fn start_with(program: &Path) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new("PF-LIVE-002", format!("cannot start {}: {error}", program.display()))
                .hint("install pinfold, or name it by PINFOLD_PROGRAM")
        };
        let (ours, theirs) = Link::pair().map_err(failed)?;
        let process = std::process::Command::new(program)
            .args(["spawner", env!("CARGO_PKG_VERSION")])
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .map_err(failed)?;
        Ok(Self(Arc::new(Spawner { link: Mutex::new(ours), process: Mutex::new(process) })))
    }

    /// Reads the policy in force and plans; nothing is made yet.
    pub fn blueprint(&self, asked: &Asked) -> Result<Blueprint, Failure> {
        let asked = Asked {
            workspace: absolute(&asked.workspace)?,
            policy: asked.policy.as_deref().map(absolute).transpose()?,
            settings: asked.settings.clone(),
        };
        let mut link = lock(&self.0.link);
        send(&link, &Ask::Prepare(Box::new(asked)), &[])?;
        let answer = loop {
            match link.receive(true).map_err(|error| lost(&error))? {
                Received::Message(message, _) => break message,
                Received::Part | Received::Nothing => {}
                Received::End => return Err(lost(&"it is gone")),
            }
        };
        match serde_json::from_slice(&answer).map_err(|error| lost(&error))? {
            Answer::Prepared(number, info) => {
                Ok(Blueprint(Arc::new(Plan { spawner: self.0.clone(), number, info: *info })))
            }
            Answer::Refused(failure) => Err(failure),
        }
    }

    /// Runs one command in a sandbox of its own.
    pub fn run(&self, asked: &Asked, command: &Command) -> Result<Outcome, ExecError> {
        let sandbox = self.blueprint(asked)?.boot()?;
        let outcome = sandbox.exec(command)?.output()?;
        let over = sandbox.end()?;
        Ok(Outcome { violations: over.violations, receipt: over.receipt, ..outcome })
    }
}

impl Drop for Spawner {
    /// Its link is closed first, which is how it learns that it is not needed any more.
    fn drop(&mut self) {
        let (link, _) = match Link::pair() {
            Ok(pair) => pair,
            Err(_) => return,
        };
        drop(std::mem::replace(&mut *lock(&self.link), link));
        // It has nothing left to do, and is not in anybody's way if it cannot be waited for.
        drop(lock(&self.process).wait());
    }
}

/// A plan that sandboxes can be made by.
#[derive(Clone, Debug)]
pub struct Blueprint(Arc<Plan>);

#[derive(Debug)]
struct Plan {
    spawner: Arc<Spawner>,
    number: usize,
    info: Info,
}

impl Drop for Plan {
    fn drop(&mut self) {
        // A spawner that is gone has forgotten it already.
        drop(send(&lock(&self.spawner.link), &Ask::Forget(self.number), &[]));
    }
}

impl Blueprint {
    /// What will hold, and by what.
    pub fn receipt(&self) -> &[ReceiptLine] {
        &self.0.info.receipt
    }

    /// Makes a sandbox and waits until it is there.
    pub fn boot(&self) -> Result<Sandbox, Failure> {
        let sandbox = self.order()?;
        sandbox.wait_until_ready()?;
        Ok(sandbox)
    }

    /// Orders a sandbox without waiting for it. Commands may be sent in at once; they begin when it is there, and if
    /// it cannot be made they fail with the reason.
    pub fn order(&self) -> Result<Sandbox, Failure> {
        let failed = |error: std::io::Error| lost(&error);
        let id = crate::run::name().map_err(failed)?;
        let (door, inner) = Door::pair().map_err(failed)?;
        let (status, theirs) = Link::pair().map_err(failed)?;
        let ask = Ask::Boot { number: self.0.number, id };
        send(&lock(&self.0.spawner.link), &ask, &[inner.as_fd(), theirs.as_fd()])?;
        let null = std::fs::File::open("/dev/null").map_err(failed)?;
        let record = Record::in_directory(&self.0.info.state)?;
        let status = Status { link: status, ready: false, ended: None };
        Ok(Sandbox(Arc::new(Inner {
            id,
            blueprint: self.clone(),
            door,
            null: null.into(),
            status: Mutex::new(status),
            record: Mutex::new(record),
        })))
    }

    /// Keeps `size` sandboxes ready.
    pub fn pool(&self, size: usize) -> Result<Pool, Failure> {
        Pool::new(self.clone(), size)
    }

    pub(super) fn info(&self) -> &Info {
        &self.0.info
    }

    pub(super) fn environment(&self) -> Vec<(OsString, OsString)> {
        let text = |bytes: &Vec<u8>| OsString::from_vec(bytes.clone());
        self.0.info.environment.iter().map(|(name, value)| (text(name), text(value))).collect()
    }
}

/// A live sandbox. When the last clone of it is dropped, and no command of it is held any more, everything in it ends.
#[derive(Clone, Debug)]
pub struct Sandbox(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) id: SandboxId,
    pub(super) blueprint: Blueprint,
    pub(super) door: Door,
    pub(super) null: OwnedFd,
    status: Mutex<Status>,
    pub(super) record: Mutex<Record>,
}

/// What the holder has told so far.
#[derive(Debug)]
struct Status {
    link: Link,
    ready: bool,
    ended: Option<Result<Over, Failure>>,
}

impl Sandbox {
    /// Its name.
    pub fn id(&self) -> SandboxId {
        self.0.id
    }

    /// Sends a command in. Commands may run at the same time; dropping what this returns ends the command.
    pub fn exec(&self, command: &Command) -> Result<Execution, ExecError> {
        Execution::start(self.clone(), command)
    }

    /// What everything in it uses now.
    pub fn usage(&self) -> Result<Usage, Failure> {
        let mut status = lock(&self.0.status);
        match status.look()? {
            Some(usage) => Ok(usage),
            None => status.over().map(|over| over.usage),
        }
    }

    /// Ends everything in it and returns what came of it. Others that hold it find it gone.
    pub fn end(self) -> Result<Over, Failure> {
        self.0.end()
    }

    /// Whether it is known to be gone: its holder has said so, or is gone itself.
    pub(super) fn is_over(&self) -> bool {
        let mut status = lock(&self.0.status);
        loop {
            if status.ended.is_some() {
                return true;
            }
            match status.link.receive(false) {
                Ok(Received::Message(message, _)) => drop(status.note(&message)),
                Ok(Received::Part) => {}
                Ok(Received::Nothing) => return false,
                Ok(Received::End) | Err(_) => return true,
            }
        }
    }

    pub(super) fn wait_until_ready(&self) -> Result<(), Failure> {
        let mut status = lock(&self.0.status);
        while !status.ready {
            if status.hear()?.is_none() {
                return status.over().map(drop);
            }
        }
        Ok(())
    }
}

impl Inner {
    /// The limit that has ended it, if one has: asked when a command was killed by nobody in particular.
    pub(super) fn limit(&self) -> Option<LimitKind> {
        let mut status = lock(&self.status);
        match (status.look(), &status.ended) {
            (Ok(None), Some(Ok(over))) => over.limit,
            _ => None,
        }
    }

    /// Ends everything in it, whatever the guest is doing.
    pub(super) fn end(&self) -> Result<Over, Failure> {
        // A holder that is gone has ended it already; nobody comes in any more in either case.
        drop(lock(&self.status).link.send(END, &[]));
        rustix::net::shutdown(&self.door, rustix::net::Shutdown::Both).unwrap_or_default();
        self.over()
    }

    /// Why it is gone, once it is.
    pub(super) fn over(&self) -> Result<Over, Failure> {
        let mut status = lock(&self.status);
        while status.ended.is_none() && status.hear()?.is_some() {}
        status.over()
    }
}

impl Status {
    /// Has the holder look at what is in use now; nothing when it is over, or is now because of that.
    fn look(&mut self) -> Result<Option<Usage>, Failure> {
        // A holder that is gone is heard of next.
        drop(self.link.send(USAGE, &[]));
        while self.ended.is_none() {
            match self.hear()? {
                Some(Word::Usage(usage)) => return Ok(Some(usage)),
                Some(_) => {}
                None => break,
            }
        }
        Ok(None)
    }

    /// The next word; nothing when there will be none any more.
    fn hear(&mut self) -> Result<Option<Word>, Failure> {
        loop {
            let message = match self.link.receive(true).map_err(|error| lost(&error))? {
                Received::Message(message, _) => message,
                Received::Part | Received::Nothing => continue,
                Received::End => return Ok(None),
            };
            return self.note(&message).map(Some);
        }
    }

    /// Takes a word in.
    fn note(&mut self, message: &[u8]) -> Result<Word, Failure> {
        let word: Word = serde_json::from_slice(message).map_err(|error| lost(&error))?;
        match &word {
            Word::Ready => self.ready = true,
            Word::Failed(failure) => self.ended = Some(Err(failure.clone())),
            Word::Over(over) => self.ended = Some(Ok((**over).clone())),
            Word::Usage(_) => {}
        }
        Ok(word)
    }

    fn over(&self) -> Result<Over, Failure> {
        let killed = || {
            Err(Failure::new("PF-LIVE-003", "the sandbox was ended from outside: its holder is gone")
                .hint("what it left is swept when the next one starts"))
        };
        self.ended.clone().unwrap_or_else(killed)
    }
}

fn send(link: &Link, ask: &Ask, fds: &[std::os::fd::BorrowedFd<'_>]) -> Result<(), Failure> {
    let text = serde_json::to_vec(ask).map_err(|error| lost(&error))?;
    link.send(&text, fds).map_err(|error| lost(&error))
}

fn lost(why: &dyn std::fmt::Display) -> Failure {
    Failure::new("PF-LIVE-004", format!("the spawner does not answer: {why}"))
        .hint("its own message is on standard error, if it had one")
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::new("PF-CLI-003", format!("{}: {error}", path.display())))
}

/// What a panic of another thread left is still whole: nothing here is changed in steps.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
