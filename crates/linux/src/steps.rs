//! How a sandbox is made, step by step. This list is what runs, in this order, and what the documentation
//! shows.
//!
//! What a step does is in the module that it names. A step that fails ends the sandbox: no command runs, and
//! the supervisor is told which step it was and why. Debug builds fail at the step that `PINFOLD_FAIL_AT`
//! names.

use crate::backend::namespace::Start;
use crate::capabilities::CapabilityError;
use crate::cgroup::CgroupError;
use crate::descriptors::DescriptorError;
use crate::guest::{Command, Guest, GuestError};
use crate::ids::IdError;
use crate::landlock::LandlockError;
use crate::mounts::MountError;
use crate::namespaces::NamespaceError;
use crate::pty::PtyError;
use crate::rlimits::RlimitError;
use crate::seccomp::SeccompError;
use crate::survey::SurveyError;

/// One step of a set-up that works on `S`.
pub(crate) struct Step<S> {
    /// What failures and failpoints call it.
    pub(crate) name: &'static str,
    /// What it does, in one line.
    pub(crate) what: &'static str,
    run: fn(&mut S) -> Result<(), StepError>,
}

macro_rules! steps {
    ($(#[$doc:meta])* $list:ident$(<$life:lifetime>)?: $state:ty {
        $($name:literal, $what:literal => $run:expr;)*
    }) => {
        $(#[$doc])*
        pub(crate) fn $list$(<$life>)?() -> impl AsRef<[Step<$state>]> {
            [$(Step::<$state> { name: $name, what: $what, run: $run }),*]
        }
    };
}

steps! {
    /// On the host, before anything is made.
    host<'a>: Start<'a> {
        "stdio", "look at the standard descriptors; a directory among them is refused" => Start::stdio;
        "layout", "decide what is where inside; look every path of the host up, once" => Start::layout;
        "ids", "choose the command's ids" => Start::ids;
        "group", "on cgroup v2, make the sandbox's group, for it to be born in" => Start::group;
        "filters", "prepare rlimits, Landlock rules and the system-call filter" => Start::filters;
    }
}

steps! {
    /// On the host, while the guest builds the root.
    beside<'a>: Start<'a> {
        "maps", "map the ids" => Start::maps;
        "groups", "on cgroup v1, make the sandbox's groups and hand them to the guest" => Start::groups;
        "survey", "find what deny globs, protected names, sockets and FIFOs demand to be covered" => Start::survey;
        "owners", "as root, mount the zones with their owner mapped, and hand them to the guest" => Start::owners;
        "hand-over", "tell the guest what to cover" => Start::hand_over;
    }
}

steps! {
    /// In the new namespaces, as process 1.
    guest: Guest {
        "wipe", "overwrite the inherited arguments and environment; let every signal act as it does by default" => Guest::wipe;
        "follow", "die with the supervisor" => Guest::follow;
        "network", "begin to make a network namespace with nothing but loopback, beside what follows"
            => Guest::begin_network;
        "name", "set the host name" => Guest::name;
        "await-maps", "wait until the supervisor has mapped the ids" => Guest::await_maps;
        "identity", "take the ids on" => Guest::take_on_ids;
        "root", "as a user, open the zones; hang up a fresh root in memory" => Guest::root;
        "entries", "make directories, links and generated files" => Guest::entries;
        "system", "show the system's directories; make all of it read-only" => Guest::system;
        "proc", "mount a fresh /proc and cover its dangerous entries" => Guest::proc;
        "dev", "show a few devices; make terminals and shared memory of its own" => Guest::dev;
        "pivot", "change into the new root, and let go of the old one beside what follows" => Guest::pivot;
        "take-over", "take zones and covers from the supervisor" => Guest::take_over;
        "enter-groups", "on cgroup v1, move into the groups; all that follows is counted there" => Guest::enter_groups;
        "zones", "mount zones and shown paths" => Guest::zones;
        "covers", "cover what the survey found" => Guest::covers;
        "enter-network", "wait for the network namespace and enter it" => Guest::enter_network;
        "mounts", "let the supervisor watch the mounts" => Guest::show_mounts;
        "oom", "be among the first to go when memory runs out" => Guest::oom;
        "seal", "refuse to be traced" => Guest::seal;
        "no-new-privileges", "give up gaining privileges by exec" => Guest::no_new_privileges;
        "capabilities", "empty every capability set" => Guest::capabilities;
        "landlock", "restrict file access a second time, by path" => Guest::landlock;
        "seccomp", "load the system-call filter" => Guest::seccomp;
    }
}

steps! {
    /// In the process that becomes a command. All that confines it is inherited from the guest.
    command: Command {
        "session", "lead a session of its own, with the inner terminal if there is one" => Command::session;
        "streams", "set up the standard descriptors; nothing else survives exec" => Command::streams;
        "directory", "change to the working directory" => Command::directory;
        "limits", "set resource limits" => Command::limits;
    }
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// Standard descriptors.
    #[error(transparent)]
    Descriptors(#[from] DescriptorError),
    /// Files.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// What is covered.
    #[error(transparent)]
    Survey(#[from] SurveyError),
    /// Ids.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Namespaces.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The guest's own state.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// The terminal.
    #[error(transparent)]
    Pty(#[from] PtyError),
    /// Resource limits.
    #[error(transparent)]
    Rlimit(#[from] RlimitError),
    /// Control groups.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// Capabilities.
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    /// Landlock.
    #[error(transparent)]
    Landlock(#[from] LandlockError),
    /// The filter.
    #[error(transparent)]
    Seccomp(#[from] SeccompError),
    /// A test asked for it.
    #[error("PINFOLD_FAIL_AT asks for it")]
    Failpoint,
}

/// A step that failed.
#[derive(Debug, thiserror::Error)]
#[error("step `{step}` failed")]
pub struct StepFailed {
    /// Which step.
    pub step: &'static str,
    /// Why.
    #[source]
    pub error: StepError,
}

/// Runs `steps` in order; the first failure ends it.
pub(crate) fn run<S>(steps: impl AsRef<[Step<S>]>, state: &mut S) -> Result<(), StepFailed> {
    for step in steps.as_ref() {
        #[cfg(debug_assertions)]
        if crate::probe::fails_at(step.name) {
            return Err(StepFailed { step: step.name, error: StepError::Failpoint });
        }
        (step.run)(state).map_err(|error| StepFailed { step: step.name, error })?;
    }
    Ok(())
}

/// Every step with what it does, in the order they run.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut all: Vec<_> = host().as_ref().iter().map(|step| (step.name, step.what)).collect();
    all.extend(beside().as_ref().iter().map(|step| (step.name, step.what)));
    all.extend(guest().as_ref().iter().map(|step| (step.name, step.what)));
    all.extend(command().as_ref().iter().map(|step| (step.name, step.what)));
    all.into_iter()
}
