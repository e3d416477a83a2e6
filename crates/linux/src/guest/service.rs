//! Any number of commands, one after another or at once, until the supervisor ends the sandbox.
//!
//! A client sends one message to a door with the descriptors of a command: a link of its own and the three streams.
//! What is to run comes over that link, and so does all that is said about it; when the client lets go of the link,
//! the command and all that it started end.
//!
//! When a command ends, so does what it left running. Of the commands that run at the same time, one has no minder:
//! what it left is then whatever inside belongs to no other. The others each have one, to which their orphans fall.

use std::error::Error;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, set_child_subreaper};

use super::command::Unstarted;
use super::{Channel, Command, GuestError, Order, Program, Report, leftovers, pass_on, reasons};
use crate::descriptors::Streams;
use crate::link::{Link, Received};
use crate::rlimits::Rlimits;
use crate::sys;
use crate::sys::clone::Stack;
use crate::sys::signal::Signals;
use crate::sys::wait::{Next, Reaped};
use crate::wire::{Ended, Event, Exec, Request};

/// What a live sandbox is given.
pub(crate) struct Service {
    /// The way in for the client that the sandbox belongs to and ends with, if there is one.
    pub(crate) owner: Option<Link>,
    /// Limits that no command may exceed.
    pub(crate) limits: Rlimits,
}

/// How long commands run before the supervisor is told: most are over by then, and it sleeps through them.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// A command, from the moment a client asks for it.
struct Task {
    link: Link,
    stage: Stage,
}

enum Stage {
    /// What to run has not come yet; its streams have.
    Asked(Vec<OwnedFd>),
    /// It runs, and its process is a child of this one.
    Running(Pid),
    /// It runs below a minder, which speaks for it.
    Minded(Pid),
    /// It has ended, and the client has not been told.
    Ended(Reaped),
    /// Nothing is left to be done for it.
    Over,
}

/// The guest at work.
struct Desk<'a> {
    service: &'a mut Service,
    channel: &'a Channel,
    signals: OwnedFd,
    visitors: Vec<Link>,
    tasks: Vec<Task>,
    stack: Stack,
    busy: bool,
}

/// What a descriptor that is ready belongs to.
#[derive(Clone, Copy)]
enum At {
    Channel,
    Signals,
    Owner,
    Visitor(usize),
    Task(usize),
}

impl Service {
    /// Serves until the supervisor or the owner is gone.
    pub(super) fn run(&mut self, channel: &Channel, lock: Option<BorrowedFd<'_>>) -> Result<(), GuestError> {
        let waiting = Signals::of(&[libc::SIGCHLD]);
        waiting.block().map_err(GuestError::Signals)?;
        let owner = self.owner.as_ref();
        sys::descriptors::close_all_but(&[Some(channel.as_fd()), owner.map(Link::as_fd), lock])
            .map_err(GuestError::Descriptors)?;
        let signals = waiting.descriptor().map_err(GuestError::Signals)?;
        sys::descriptors::occupy_standard(&signals).map_err(GuestError::Descriptors)?;
        let mut desk = Desk {
            service: self,
            channel,
            signals,
            visitors: Vec::new(),
            tasks: Vec::new(),
            stack: Stack::new(),
            busy: false,
        };
        sys::memory::trim();
        while desk.turn()? {}
        Ok(())
    }
}

impl Desk<'_> {
    /// Waits until something happens and deals with it; false when there is nobody left to serve.
    fn turn(&mut self) -> Result<bool, GuestError> {
        let ready = self.wait()?;
        let late = ready.is_empty();
        for at in ready {
            let goes_on = match at {
                At::Channel => self.obey()?,
                At::Signals => self.reap().map(|()| true)?,
                At::Owner => self.answer_owner()?,
                At::Visitor(number) => self.answer_visitor(number).map(|()| true)?,
                At::Task(number) => self.hear(number).map(|()| true)?,
            };
            if !goes_on {
                return Ok(false);
            }
        }
        self.tasks.retain(|task| !matches!(task.stage, Stage::Over));
        self.announce(late).map(|()| true)
    }

    fn wait(&self) -> Result<Vec<At>, GuestError> {
        let mut from = vec![At::Channel, At::Signals];
        let mut fds =
            vec![PollFd::new(self.channel, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
        let mut add = |at, link| {
            from.push(at);
            fds.push(PollFd::new(link, PollFlags::IN));
        };
        if let Some(owner) = &self.service.owner {
            add(At::Owner, owner);
        }
        self.visitors.iter().enumerate().for_each(|(number, link)| add(At::Visitor(number), link));
        for (number, task) in self.tasks.iter().enumerate() {
            if !matches!(task.stage, Stage::Minded(_)) {
                add(At::Task(number), &task.link);
            }
        }
        let soon = (!self.busy && !self.tasks.is_empty()).then_some(&PATIENCE);
        match poll(&mut fds, soon) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(GuestError::Signals(error.into())),
        }
        // Visitors that leave are taken out of the list, so those behind them come first.
        let ready = from.into_iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        let mut ready: Vec<At> = ready.map(|(at, _)| at).collect();
        ready.reverse();
        // How commands ended is looked at before what is wanted of them, or a request would meet a number that is
        // nobody's any more.
        ready.sort_by_key(|at| !matches!(at, At::Signals));
        Ok(ready)
    }

    /// An order of the supervisor's; false when it is gone.
    fn obey(&mut self) -> Result<bool, GuestError> {
        match self.channel.next_order().map_err(GuestError::Channel)? {
            Some(Order::Door(socket)) => self.visitors.push(socket.into()),
            Some(Order::Stop) => return self.stand_still(),
            // Signals that the supervisor gets are not meant for anybody in particular here.
            Some(Order::Signal(_)) => {}
            Some(_) => return Err(GuestError::Channel(io::ErrorKind::InvalidData.into())),
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Lets everything inside stand still until the supervisor says otherwise; false when it is gone. Nothing is
    /// begun meanwhile: a command that started now would find bare what is being covered.
    fn stand_still(&mut self) -> Result<bool, GuestError> {
        super::hold(self.channel, &Order::Stop)?;
        loop {
            match self.channel.next_order().map_err(GuestError::Channel)? {
                Some(Order::Door(socket)) => self.visitors.push(socket.into()),
                Some(Order::Signal(_)) => {}
                Some(order @ Order::Continue) => return super::hold(self.channel, &order).map(|()| true),
                Some(_) => return Err(GuestError::Channel(io::ErrorKind::InvalidData.into())),
                None => return Ok(false),
            }
        }
    }

    fn answer_owner(&mut self) -> Result<bool, GuestError> {
        let Some(owner) = &mut self.service.owner else { return Ok(true) };
        match owner.receive(false) {
            Ok(Received::Message(_, fds)) => self.take_in(fds),
            Ok(Received::Part | Received::Nothing) => {}
            Ok(Received::End) | Err(_) => return Ok(false),
        }
        Ok(true)
    }

    fn answer_visitor(&mut self, number: usize) -> Result<(), GuestError> {
        match self.visitors[number].receive(false) {
            Ok(Received::Message(_, fds)) => self.take_in(fds),
            Ok(Received::Part | Received::Nothing) => {}
            // One that says nonsense is shown out like one that leaves.
            Ok(Received::End) | Err(_) => drop(self.visitors.remove(number)),
        }
        Ok(())
    }

    /// A client asks: the link, and the streams that are not to be a terminal.
    fn take_in(&mut self, mut fds: Vec<OwnedFd>) {
        if !fds.is_empty() {
            let link = fds.remove(0).into();
            self.tasks.push(Task { link, stage: Stage::Asked(fds) });
        }
    }

    /// Something of a client about its command.
    fn hear(&mut self, number: usize) -> Result<(), GuestError> {
        let task = &mut self.tasks[number];
        let request = match task.link.receive(false) {
            Ok(Received::Part | Received::Nothing) => return Ok(()),
            heard => request(heard),
        };
        match (&mut task.stage, request) {
            (Stage::Asked(streams), Some(Request::Exec(exec))) => {
                let streams = std::mem::take(streams);
                self.begin(number, *exec, streams)
            }
            (Stage::Asked(_), _) => {
                task.stage = Stage::Over;
                Ok(())
            }
            (Stage::Running(pid), Some(Request::Signal(signal))) => pass_on(*pid, signal),
            (Stage::Running(pid), Some(Request::Exec(_) | Request::Go | Request::Kill) | None) => {
                task.stage = Stage::Ended(end(*pid)?);
                self.settle(false)
            }
            (Stage::Minded(_) | Stage::Ended(_) | Stage::Over, _) => Ok(()),
        }
    }

    /// Starts a command, with a minder if it needs one.
    fn begin(&mut self, number: usize, exec: Exec, streams: Vec<OwnedFd>) -> Result<(), GuestError> {
        // The guest stands still while a process that it starts itself becomes a program. That one could be stopped by
        // anything that runs beside it, so it is started here only when nothing does.
        let taken = self.tasks.iter().any(|task| task.process().is_some());
        let keeps = exec.keeps_background;
        let task = &mut self.tasks[number];
        let mut command = match prepare(exec, streams, &self.service.limits) {
            Ok(command) => command,
            Err(why) => {
                task.tell(&why);
                task.stage = Stage::Over;
                return Ok(());
            }
        };
        // One with a terminal waits for its client, which may take its time.
        if keeps || taken || command.streams.wants_terminal() {
            task.stage = match sys::clone::fork() {
                Ok(None) => mind(task, &mut command, keeps),
                Ok(Some(pid)) => Stage::Minded(pid),
                Err(error) => {
                    task.refuse("fork", &GuestError::Fork(error));
                    Stage::Over
                }
            };
            return Ok(());
        }
        task.stage = match task.start(&mut command, &mut self.stack)? {
            Some(pid) => Stage::Running(pid),
            None => Stage::Over,
        };
        Ok(())
    }

    /// Reaps all that has ended.
    fn reap(&mut self) -> Result<(), GuestError> {
        while sys::signal::next(&self.signals).map_err(GuestError::Signals)?.is_some() {}
        loop {
            match sys::wait::next_ended().map_err(GuestError::Signals)? {
                Next::Ended(pid, reaped) => self.note(pid, reaped)?,
                Next::Stopped(pid) => self.end_stopped(pid)?,
                Next::NoneYet => return self.settle(false),
                Next::NoneLeft => return self.settle(true),
            }
        }
    }

    fn note(&mut self, pid: Pid, reaped: Reaped) -> Result<(), GuestError> {
        let Some(task) = self.tasks.iter_mut().find(|task| task.process() == Some(pid)) else {
            return Ok(());
        };
        let minded = matches!(task.stage, Stage::Minded(_));
        match (minded, reaped.status) {
            (false, _) => task.stage = Stage::Ended(reaped),
            (true, 0) => task.stage = Stage::Over,
            // Somebody inside ended a minder: whose is what it minded cannot be told any more.
            (true, _) => self.end_everything()?,
        }
        Ok(())
    }

    /// A minder does not stop by itself. One that is stopped would neither hear its client nor end what it minds.
    fn end_stopped(&mut self, pid: Pid) -> Result<(), GuestError> {
        let minds = |task: &Task| matches!(task.stage, Stage::Minded(minder) if minder == pid);
        match self.tasks.iter().any(minds) {
            true => end(pid).and_then(|reaped| self.note(pid, reaped)),
            false => Ok(()),
        }
    }

    /// Ends every command, and whatever else runs inside.
    fn end_everything(&mut self) -> Result<(), GuestError> {
        leftovers::end_all()?;
        for task in self.tasks.iter_mut().filter(|task| task.process().is_some()) {
            task.stage = Stage::Ended(Reaped { status: libc::SIGKILL, ..Reaped::default() });
        }
        Ok(())
    }

    /// Tells of commands that have ended, once what they left running is gone too. `alone`: it is known that nothing
    /// runs.
    fn settle(&mut self, alone: bool) -> Result<(), GuestError> {
        if !self.tasks.iter().any(|task| matches!(task.stage, Stage::Ended(_))) {
            return Ok(());
        }
        let minders: Vec<Pid> = self.tasks.iter().filter_map(Task::process).collect();
        match (alone, minders.is_empty()) {
            (true, _) => {}
            (false, true) => leftovers::end_all()?,
            (false, false) => match leftovers::end_below(&minders) {
                Err(GuestError::Leftovers) => self.end_everything()?,
                ended => ended?,
            },
        }
        for task in &mut self.tasks {
            if let Stage::Ended(reaped) = task.stage {
                task.tell(&Event::Ended(reaped.into()));
                task.stage = Stage::Over;
            }
        }
        Ok(())
    }

    /// Tells the supervisor that there is something to watch over, or nothing any more. `late`: what runs has done so
    /// for a while.
    fn announce(&mut self, late: bool) -> Result<(), GuestError> {
        let busy = !self.tasks.is_empty();
        if busy != self.busy && (late || !busy) {
            self.channel.report(Report::Busy(busy)).map_err(GuestError::Channel)?;
            self.busy = busy;
        }
        Ok(())
    }
}

impl Task {
    /// Starts its command and says so; nothing when it did not start, and that is said.
    fn start(&mut self, command: &mut Command, stack: &mut Stack) -> Result<Option<Pid>, GuestError> {
        match command.open_terminal() {
            Ok(None) => {}
            Ok(Some(outer)) => {
                // A client that is gone is noticed when its link is read.
                drop(self.link.send(&Event::Terminal.encode(), &[outer.as_fd()]));
                let Some(Request::Go) = request(self.link.receive(true)) else { return Ok(None) };
            }
            Err(error) => {
                self.refuse("terminal", &error);
                return Ok(None);
            }
        }
        let (pid, unstarted) = match command.start(stack) {
            Ok(started) => started,
            // A fork that a limit refuses is the command's misfortune and not the sandbox's.
            Err(error) => {
                self.refuse("fork", &error);
                return Ok(None);
            }
        };
        let why = match unstarted {
            None => {
                self.tell(&Event::Started);
                return Ok(Some(pid));
            }
            Some(Unstarted::Exec(errno)) => Event::NotStarted(errno),
            Some(Unstarted::Step(failed)) => {
                Event::Failed { step: failed.step.to_owned(), message: reasons(&failed.error) }
            }
        };
        sys::wait::reap(pid).map_err(GuestError::Signals)?;
        self.tell(&why);
        Ok(None)
    }

    /// Tells the client. One that is gone is noticed when its link is read.
    fn tell(&self, event: &Event) {
        drop(self.link.send(&event.encode(), &[]));
    }

    /// Tells the client why it cannot run.
    fn refuse(&self, step: &str, error: &dyn Error) {
        self.tell(&Event::Failed { step: step.to_owned(), message: reasons(error) });
    }

    /// The child of this process that it runs in.
    fn process(&self) -> Option<Pid> {
        match self.stage {
            Stage::Running(pid) | Stage::Minded(pid) => Some(pid),
            Stage::Asked(_) | Stage::Ended(_) | Stage::Over => None,
        }
    }
}

/// What a client wants; nothing when it is gone or talks nonsense, which comes to the same.
fn request(heard: io::Result<Received>) -> Option<Request> {
    match heard {
        Ok(Received::Message(message, _)) => Request::decode(&message).ok(),
        _ => None,
    }
}

/// Ends a command's first process and returns how it ended.
fn end(pid: Pid) -> Result<Reaped, GuestError> {
    match rustix::process::kill_process(pid, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => sys::wait::reap(pid).map_err(GuestError::Signals),
        Err(error) => Err(GuestError::Signals(error.into())),
    }
}

/// The command that a client describes, within the sandbox's limits; or what to tell the client.
fn prepare(exec: Exec, streams: Vec<OwnedFd>, limits: &Rlimits) -> Result<Command, Event> {
    let program = Program::new(&exec.arguments, &exec.environment).ok_or(Event::NotStarted(libc::EINVAL))?;
    let streams = Streams::given(streams, exec.terminals);
    let streams =
        streams.map_err(|error| Event::Failed { step: "streams".to_owned(), message: reasons(&error) })?;
    let lower = |asked: Option<u64>, held: Option<u64>| asked.into_iter().chain(held).min();
    Ok(Command {
        program,
        directory: exec.directory,
        streams,
        limits: Rlimits {
            descriptors: lower(exec.max_descriptors, limits.descriptors),
            processes: lower(exec.max_processes, limits.processes),
            file_size: lower(exec.max_file_bytes, limits.file_size),
            cpu_seconds: lower(exec.max_cpu_seconds, limits.cpu_seconds),
        },
        mask: Signals::of(&[]),
        terminal: None,
    })
}

/// The minder of one command: a copy of the guest to which that command's orphans fall. Ends with the last of them.
fn mind(task: &mut Task, command: &mut Command, keeps: bool) -> ! {
    let minded = (|| {
        set_child_subreaper(Some(getpid())).map_err(|error| GuestError::Signals(error.into()))?;
        let waiting = Signals::of(&[libc::SIGCHLD]);
        let signals = waiting.descriptor().map_err(GuestError::Signals)?;
        let Some(pid) = task.start(command, &mut Stack::new())? else { return Ok(()) };
        sys::descriptors::close_all_but(&[Some(task.link.as_fd()), Some(signals.as_fd())])
            .map_err(GuestError::Descriptors)?;
        attend(task, &signals, pid, keeps)
    })();
    sys::clone::exit_now(i32::from(minded.is_err()))
}

/// Waits for the end of a minded command, and of all that it left.
fn attend(task: &mut Task, signals: &OwnedFd, pid: Pid, keeps: bool) -> Result<(), GuestError> {
    let mut stage = Stage::Running(pid);
    loop {
        let listens = matches!(stage, Stage::Running(_));
        let mut ready = vec![PollFd::new(signals, PollFlags::IN)];
        if listens {
            ready.push(PollFd::new(&task.link, PollFlags::IN));
        }
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(GuestError::Signals(error.into())),
        }
        let asked = ready.get(1).is_some_and(|fd| !fd.revents().is_empty());
        while sys::signal::next(signals).map_err(GuestError::Signals)?.is_some() {}
        let mut alone = false;
        while !alone {
            match sys::wait::next_ended().map_err(GuestError::Signals)? {
                Next::Ended(ended, reaped) if ended == pid => stage = Stage::Ended(reaped),
                Next::Ended(..) | Next::Stopped(_) => {}
                Next::NoneYet => break,
                Next::NoneLeft => alone = true,
            }
        }
        if asked && matches!(stage, Stage::Running(_)) {
            match task.link.receive(false) {
                Ok(Received::Part | Received::Nothing) => {}
                heard => match request(heard) {
                    Some(Request::Signal(signal)) => pass_on(pid, signal)?,
                    _ => {
                        let reaped = end(pid)?;
                        leftovers::end_below(&[])?;
                        task.tell(&Event::Ended(reaped.into()));
                        return Ok(());
                    }
                },
            }
        }
        if let Stage::Ended(reaped) = stage {
            if !keeps {
                leftovers::end_below(&[])?;
                alone = true;
            }
            task.tell(&Event::Ended(reaped.into()));
            stage = Stage::Over;
        }
        if alone {
            return Ok(());
        }
    }
}

impl From<Reaped> for Ended {
    fn from(reaped: Reaped) -> Self {
        Self {
            status: reaped.status,
            cpu_us: reaped.cpu.as_micros() as u64,
            peak_memory_bytes: reaped.peak_memory_bytes,
        }
    }
}
