//! A running sandbox as its supervisor sees it: one loop that passes signals and terminal bytes on, keeps the
//! time, and learns of the end. No thread, no handler; dropping it ends everything inside.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pinfold_core::plan::Limits;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, pidfd_send_signal};

use crate::backend::{Finished, Glance, RunError, Usage, exit_from_wait};
use pinfold_core::outcome::LimitKind;

use crate::cgroup::Group;
use crate::descriptors::Captured;
use crate::guest::{Channel, Ended, GuestError, Order, Report};
use crate::ids::{IdError, Ids};
use crate::monitor::{Monitor, Summary};
use crate::pty::Relay;
use crate::restore;
use crate::survey::watch::Watch;
use crate::survey::{EndReport, Survey, With};
use crate::sys;
use crate::sys::clone::Child;
use crate::sys::signal::Signals;
use crate::sys::wait::Reaped;

/// Signals that are meant for the command. The terminal's own go to the inside by themselves.
const FORWARDED: [i32; 9] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGWINCH,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCONT,
    libc::SIGTSTP,
];

/// Signals held back while a sandbox runs, readable from a descriptor; dropping it lets them act again.
#[derive(Debug)]
pub(crate) struct Waiting {
    descriptor: OwnedFd,
    before: Signals,
}

impl Waiting {
    pub(crate) fn begin() -> Result<Self, RunError> {
        let failed = |source| RunError::Supervise { action: "hold signals back", source };
        let signals = Signals::of(&FORWARDED);
        let descriptor = signals.descriptor().map_err(failed)?;
        let before = signals.block().map_err(failed)?;
        Ok(Self { descriptor, before })
    }

    /// What was blocked before, for the command.
    pub(super) fn before(&self) -> Signals {
        self.before
    }
}

impl AsFd for Waiting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // It takes a bad pointer to make this fail (sigprocmask(2)).
        self.before.block().map(drop).unwrap_or_default();
    }
}

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// It can be read from, or its other end is gone.
    Readable,
    /// It can be written to.
    Writable,
}

/// What happened in one turn of the loop.
#[derive(Debug)]
pub enum Turn {
    /// Something did, and the command goes on. The descriptors that the caller waits for, by position.
    Going {
        /// Which of them are ready.
        ready: Vec<usize>,
    },
    /// Everything inside is gone.
    Over,
}

/// A command behind the wall.
#[derive(Debug)]
pub struct Running {
    /// The guest, until it is reaped.
    child: Option<Child>,
    reaped: Option<Reaped>,
    channel: Channel,
    /// The end of the channel was read.
    silent: bool,
    /// The ids stay reserved for as long as anything runs.
    ids: Ids,
    signals: Waiting,
    captured: Captured,
    terminals: [bool; 3],
    relay: Option<Relay>,
    started: Instant,
    deadline: Option<Instant>,
    limit: Option<LimitKind>,
    monitor: Monitor,
    /// Its control groups, where there are some.
    group: Option<Group>,
    failure: Option<RunError>,
    ended: Option<Ended>,
    not_started: Option<io::Error>,
    confined: Option<String>,
    survey: Option<Survey>,
    /// For each cover that was mounted, its position in the survey, and where it is inside and with what.
    covers: (Vec<usize>, Vec<(PathBuf, With)>),
    /// The mount namespace inside, to put covers back in.
    namespace: Option<OwnedFd>,
    watch: Option<Watch>,
    busy: bool,
    wake: Option<Instant>,
    /// The guest has said that everything inside stands still.
    stopped: bool,
}

impl Running {
    pub(super) fn new(
        child: Child,
        channel: Channel,
        ids: Ids,
        signals: Waiting,
        (captured, terminals): (Captured, [bool; 3]),
        limits: &Limits,
    ) -> Self {
        let started = Instant::now();
        let timeout = Duration::from_millis(limits.timeout_ms.value);
        Self {
            child: Some(child),
            reaped: None,
            channel,
            silent: false,
            ids,
            signals,
            captured,
            terminals,
            relay: None,
            started,
            deadline: started.checked_add(timeout),
            limit: None,
            monitor: Monitor::new(limits, started),
            group: None,
            failure: None,
            ended: None,
            not_started: None,
            confined: None,
            survey: None,
            covers: (Vec::new(), Vec::new()),
            namespace: None,
            watch: None,
            busy: true,
            wake: None,
            stopped: false,
        }
    }

    /// Who the command is.
    pub(super) fn ids(&self) -> &Ids {
        &self.ids
    }

    /// Maps its ids.
    pub(super) fn map_ids(&self) -> Result<(), IdError> {
        self.child.as_ref().map_or(Ok(()), |child| self.ids.write_maps(child.pid))
    }

    /// Counts what it uses by `group`, and removes that at the end.
    pub(super) fn count_in(&mut self, group: Group) {
        self.group = Some(group);
    }

    /// Keeps the survey for the end, and what to watch until then.
    pub(super) fn keep(&mut self, survey: Survey, numbers: Vec<usize>, places: Vec<(PathBuf, With)>) {
        self.survey = Some(survey);
        self.covers = (numbers, places);
    }

    /// Watches over what is written to these directories of the host.
    pub(super) fn watch_disk(&mut self, zones: Vec<OwnedFd>, max: u64) -> io::Result<()> {
        self.monitor.watch_disk(zones, max)
    }

    /// It serves clients, who keep the time of their commands themselves. As long as nothing runs, nothing is looked
    /// at.
    pub(super) fn serve(&mut self) {
        (self.deadline, self.busy) = (None, false);
        self.monitor.serve();
    }

    /// Whether a command runs and has done so for a while, or something that one left running.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Lets [`Running::turn`] return at this time, whatever happens.
    pub fn wake_at(&mut self, time: Option<Instant>) {
        self.wake = time;
    }

    /// Whether everything is set up and in force, and commands can run.
    pub fn is_ready(&self) -> bool {
        self.confined.is_some()
    }

    /// Lets one more client in.
    pub fn admit(&self, socket: OwnedFd) -> Result<(), RunError> {
        self.tell(Order::Door(socket))
    }

    pub(super) fn order(&self, order: Order) -> Result<(), GuestError> {
        match self.channel.order(order) {
            Ok(()) => Ok(()),
            // The guest is gone already; why is found when it is reaped.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET)) => Ok(()),
            Err(error) => Err(GuestError::Channel(error)),
        }
    }

    /// The number of the guest on the host, while it is not reaped.
    pub fn pid(&self) -> Option<i32> {
        self.child.as_ref().map(|child| Pid::as_raw_nonzero(child.pid).get())
    }

    /// The command's output, when it is captured.
    pub fn stdout(&self) -> Option<BorrowedFd<'_>> {
        self.captured.stdout.as_ref().map(AsFd::as_fd)
    }

    /// The command's errors, when they are captured.
    pub fn stderr(&self) -> Option<BorrowedFd<'_>> {
        self.captured.stderr.as_ref().map(AsFd::as_fd)
    }

    /// Takes the captured pipes, to read from while turning.
    pub fn take_output(&mut self) -> (Option<OwnedFd>, Option<OwnedFd>) {
        (self.captured.stdout.take(), self.captured.stderr.take())
    }

    /// What it uses now, and a way to show that below what it says.
    pub fn glance(&mut self) -> Glance<'_> {
        Glance::new(self.started.elapsed(), self.monitor.latest(), self.relay.as_mut())
    }

    /// Ends everything inside, now.
    pub fn kill(&mut self) -> Result<(), RunError> {
        let Some(child) = &self.child else { return Ok(()) };
        match pidfd_send_signal(&child.pidfd, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(RunError::Supervise { action: "kill the guest", source: error.into() }),
        }
    }

    /// Waits until something happens, to the sandbox or to a descriptor in `watched`, and
    /// deals with what is the sandbox's.
    pub fn turn(&mut self, watched: &[(BorrowedFd<'_>, Until)]) -> Result<Turn, RunError> {
        let Some(child) = self.child.as_ref().filter(|_| !self.is_over()) else { return Ok(Turn::Over) };
        let mut fds = Vec::with_capacity(5 + watched.len());
        fds.push(PollFd::new(&child.pidfd, PollFlags::IN));
        fds.push(PollFd::new(&self.signals.descriptor, PollFlags::IN));
        let channel = (!self.silent).then(|| push(&mut fds, self.channel.as_fd(), PollFlags::IN));
        let inner = self.relay.as_ref().and_then(Relay::inner).map(|(fd, wanted)| push(&mut fds, fd, wanted));
        let typing = self.relay.as_ref().and_then(Relay::typing).map(|fd| push(&mut fds, fd, PollFlags::IN));
        let screen = self.relay.as_ref().and_then(Relay::screen).map(|fd| push(&mut fds, fd, PollFlags::OUT));
        let mounts = self.watch.as_ref().map(|watch| push(&mut fds, watch.fd(), PollFlags::PRI));
        let first = fds.len();
        fds.extend(watched.iter().map(|(fd, until)| {
            let wanted = if *until == Until::Readable { PollFlags::IN } else { PollFlags::OUT };
            PollFd::from_borrowed_fd(*fd, wanted)
        }));

        match poll(&mut fds, self.time_left().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(RunError::Supervise { action: "wait", source: error.into() }),
        }
        let happened = |at: Option<usize>| at.map_or(PollFlags::empty(), |at| fds[at].revents());
        let (gone, signal) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        let (report, inner, typing) = (happened(channel), happened(inner), happened(typing));
        let (mounts, screen) = (happened(mounts), happened(screen));
        let ready = (0..watched.len()).filter(|at| !fds[first + at].revents().is_empty()).collect::<Vec<_>>();
        drop(fds);

        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) && self.ended.is_none() {
            self.deadline = None;
            self.exceed(LimitKind::Wall)?;
        }
        if self.busy && Instant::now() >= self.monitor.due() {
            self.look()?;
        }
        if signal {
            self.signalled()?;
        }
        if !report.is_empty() {
            self.hear()?;
        }
        if mounts.intersects(PollFlags::PRI | PollFlags::ERR) && !gone {
            self.check_covers()?;
        }
        Relay::turn(&mut self.relay, inner | (screen & PollFlags::OUT), !typing.is_empty())?;
        if gone {
            self.bury()?;
        }
        Ok(if self.is_over() { Turn::Over } else { Turn::Going { ready } })
    }

    /// Nothing runs inside any more. The guest says so when it has reaped the last process, and its own end
    /// takes the kernel another quarter of a millisecond, which need not be waited for yet.
    fn is_over(&self) -> bool {
        self.child.is_none() || self.ended.is_some_and(|ended| ended.alone)
    }

    /// Looks at what is in use, and ends everything inside if that is more than may be.
    pub fn look(&mut self) -> Result<(), RunError> {
        if let Some(pid) = self.pid().filter(|_| self.limit.is_none())
            && let Some(limit) = self.monitor.look(self.group.as_ref(), pid)?
        {
            self.exceed(limit)?;
        }
        Ok(())
    }

    /// A limit is passed: everything inside ends. The first one is the one that is told; where the kernel has killed for
    /// want of memory already, it was first.
    pub fn exceed(&mut self, limit: LimitKind) -> Result<(), RunError> {
        if self.limit.is_none() {
            let killed = self.group.as_ref().map_or(Ok(0), Group::oom_kills)?;
            self.limit = Some(if killed > 0 { LimitKind::Memory } else { limit });
        }
        self.kill()
    }

    /// Whether a limit was passed, so that everything inside ends.
    pub fn is_ended(&self) -> bool {
        self.limit.is_some()
    }

    fn time_left(&self) -> Option<Timespec> {
        // Once it is being ended there is nothing to look at.
        let look = (self.busy && self.limit.is_none()).then(|| self.monitor.due());
        let next = [self.deadline, self.wake, look].into_iter().flatten().min()?;
        Timespec::try_from(next.saturating_duration_since(Instant::now())).ok()
    }

    /// Passes on the signals that came.
    fn signalled(&mut self) -> Result<(), RunError> {
        let failed = |source| RunError::Supervise { action: "read a signal", source };
        while let Some(signal) = sys::signal::next(&self.signals.descriptor).map_err(failed)? {
            match (signal, &self.relay) {
                (libc::SIGWINCH, Some(relay)) => relay.resize()?,
                (libc::SIGWINCH, None) => {}
                (libc::SIGTSTP, _) => {
                    self.tell(Order::Signal(signal))?;
                    // Stopped until SIGCONT, which is then waiting here, to be passed on.
                    rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)
                        .map_err(|error| failed(error.into()))?;
                }
                _ => self.tell(Order::Signal(signal))?,
            }
        }
        Ok(())
    }

    fn tell(&self, order: Order) -> Result<(), RunError> {
        let failed = |error: GuestError| RunError::Supervise {
            action: "talk to the guest",
            source: io::Error::other(error),
        };
        self.order(order).map_err(failed)
    }

    /// Looks for lost covers one last time and lets go of the mounts inside, which the watch keeps. Placeholders are
    /// removed after that: removing one that is still covered detaches it alone, and each such detachment waits for
    /// every processor (`namespace_unlock` of the kernel).
    fn stop_watching(&mut self) -> Result<(), RunError> {
        let failed = |source| RunError::Supervise { action: "read the mounts inside", source };
        if let Some(watch) = &mut self.watch
            && watch.has_changed().map_err(failed)?
        {
            let gone = watch.check().map_err(failed)?;
            self.distrust(&gone);
        }
        (self.watch, self.namespace) = (None, None);
        Ok(())
    }

    /// What lost covers covered is distrusted at the end.
    fn distrust(&mut self, covers: &[usize]) {
        for number in covers {
            if let (Some(survey), Some(position)) = (&mut self.survey, self.covers.0.get(*number)) {
                survey.lost([*position]);
            }
        }
    }

    /// Has covers put back, while everything inside stands still. Where that fails or came too late, it ends.
    fn restore(&mut self, covers: &[usize]) -> Result<(), RunError> {
        if covers.is_empty() {
            return Ok(());
        }
        self.distrust(covers);
        self.stopped = false;
        self.tell(Order::Stop)?;
        while !self.stopped && !self.silent {
            self.hear()?;
        }
        let Some(namespace) = self.namespace.as_ref().filter(|_| self.stopped) else { return Ok(()) };
        let places = covers.iter().filter_map(|number| self.covers.1.get(*number));
        match restore::put_back(namespace, &self.ids, places) {
            Ok(()) => self.tell(Order::Continue),
            Err(message) => {
                self.failure.get_or_insert(RunError::Uncovered { message });
                self.kill()
            }
        }
    }

    /// Looks which covers are gone, and has them put back.
    fn check_covers(&mut self) -> Result<(), RunError> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let gone = watch
            .check()
            .map_err(|source| RunError::Supervise { action: "read the mounts inside", source })?;
        self.restore(&gone)
    }

    /// Takes one report of the inside.
    fn hear(&mut self) -> Result<(), RunError> {
        let report = self
            .channel
            .next_report()
            .map_err(|source| RunError::Supervise { action: "hear the guest", source })?;
        match report {
            None => self.silent = true,
            Some(Report::Failed { step, message }) => {
                self.failure.get_or_insert(RunError::Inside { step, message });
            }
            Some(Report::Terminal(outer)) => {
                self.relay = Some(Relay::new(outer, self.terminals)?);
                self.tell(Order::Go)?;
            }
            Some(Report::Mounts(mounts)) => {
                let paths = self.covers.1.iter().map(|(path, _)| path.clone());
                let watch = Watch::new(mounts.into(), paths);
                let failed = |source| RunError::Supervise { action: "read the mounts inside", source };
                let watch = watch.map_err(failed)?;
                let missing = watch.missing();
                self.watch = Some(watch);
                self.restore(&missing)?;
            }
            Some(Report::Namespace(namespace)) => self.namespace = Some(namespace),
            Some(Report::Stopped) => self.stopped = true,
            Some(Report::Busy(busy)) => self.busy = busy,
            Some(Report::Confined(status)) => self.confined = Some(status),
            Some(Report::NoExec(errno)) => self.not_started = Some(io::Error::from_raw_os_error(errno)),
            Some(Report::Ended(ended)) => self.ended = Some(ended),
        }
        Ok(())
    }

    /// Reaps the guest and takes what is still to be heard and shown.
    fn bury(&mut self) -> Result<(), RunError> {
        let Some(child) = self.child.take() else { return Ok(()) };
        let reaped = sys::wait::reap(child.pid);
        self.reaped =
            Some(reaped.map_err(|source| RunError::Supervise { action: "reap the guest", source })?);
        while !self.silent {
            self.hear()?;
        }
        if let Some(relay) = &mut self.relay {
            relay.show_rest()?;
        }
        Ok(())
    }

    /// Gives up during set-up because of `error`: ends it and takes away what was made. What the guest itself
    /// reports came first, and is then the reason; something left behind is worse than either.
    pub(super) fn abandon(mut self, error: RunError) -> RunError {
        let ended = self.kill().and_then(|()| self.bury());
        let cleared = self.survey.take().map_or(Ok(()), |survey| survey.finish().map(drop));
        let cleared = cleared.map_err(RunError::End).and(self.remove_group());
        match (cleared, ended, self.failure.take()) {
            (Err(left), ..) => left,
            (Ok(()), Err(error), _) => error,
            (Ok(()), Ok(()), failure) => failure.unwrap_or(error),
        }
    }

    fn remove_group(&mut self) -> Result<(), RunError> {
        Ok(self.group.take().map_or(Ok(()), Group::remove)?)
    }

    /// What came of it, once everything inside is gone; ends it first if need be.
    pub fn finish(mut self) -> Result<Finished, RunError> {
        let wall = self.started.elapsed();
        if !self.is_over() {
            self.kill()?;
        }
        self.bury()?;
        self.stop_watching()?;
        if let Some(relay) = &mut self.relay {
            relay.show_rest()?;
        }
        // The caller's terminal is its own again before anything is said.
        self.relay = None;
        let left = self.survey.as_ref().map(Survey::left_open).unwrap_or_default();
        let end = self.survey.take().map_or_else(|| Ok(EndReport::default()), Survey::finish);
        if let Some(mut failure) = self.failure.take() {
            // What was moved out of the host's way is told all the same.
            if let (RunError::Uncovered { message }, Ok(end)) = (&mut failure, &end) {
                end.findings().for_each(|finding| message.push_str(&format!("; {finding}")));
            }
            self.remove_group()?;
            return Err(failure);
        }
        let told = match (self.ended, self.reaped) {
            (Some(ended), _) => (ended.status, Duration::from_micros(ended.cpu_us), ended.peak_memory_bytes),
            (None, Some(reaped)) => (reaped.status, reaped.cpu, reaped.peak_memory_bytes),
            (None, None) => return Err(RunError::Vanished { status: 0 }),
        };
        let (status, cpu, peak_memory_bytes) = told;
        let exit = exit_from_wait(status);
        let usage = Usage { wall, cpu, peak_memory_bytes, peak_processes: 1 };
        let summary = self.monitor.sum_up(self.group.as_ref(), (self.limit, exit), usage)?;
        self.remove_group()?;
        // It may be killed without a word of the guest's: by a limit, by the caller, or from outside.
        if self.ended.is_none() && summary.limit.is_none() && self.confined.is_none() {
            return Err(RunError::Vanished { status });
        }
        let Summary { limit, refused_forks, usage, warnings } = summary;
        Ok(Finished {
            exit,
            limit,
            left,
            warnings,
            refused_forks,
            not_started: self.not_started.take(),
            usage,
            landlock: self.confined.take().unwrap_or_default(),
            end: end.map_err(RunError::End)?,
        })
    }
}

impl Drop for Running {
    /// For the ways out that are errors: nothing inside outlives its supervisor's interest.
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            // A guest that cannot be signalled has ended, and the kernel reaps it when this process ends.
            if pidfd_send_signal(&child.pidfd, Signal::KILL).is_ok() {
                drop(sys::wait::reap(child.pid));
            }
        }
        if let Some(survey) = self.survey.take() {
            drop(survey.finish());
        }
    }
}

pub(crate) fn push<'a>(fds: &mut Vec<PollFd<'a>>, fd: BorrowedFd<'a>, wanted: PollFlags) -> usize {
    fds.push(PollFd::from_borrowed_fd(fd, wanted));
    fds.len() - 1
}
