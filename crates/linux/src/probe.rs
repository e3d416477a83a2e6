//! What this host can do, with the reason and the cure where it cannot. Looking is cheap and starts nothing;
//! what a plan makes of it is decided in `backend`.
//!
//! For tests, `PINFOLD_PRETEND_MISSING=userns,landlock,…` makes a mechanism count as missing: it only ever
//! narrows. In debug builds alone, `PINFOLD_WITHOUT=<defence>,…` switches a defence off, so that its test can
//! be seen to fail.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::CWD;
use rustix::io::Errno;

use crate::cgroup::Places;

/// Whether a mechanism is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is; the text says which version or kind.
    Yes(String),
    /// It is not.
    No {
        /// Why not.
        reason: String,
        /// What would enable it; empty when nothing short of another kernel does.
        cure: String,
    },
}

impl Found {
    /// Whether it is there.
    pub fn is_there(&self) -> bool {
        matches!(self, Self::Yes(_))
    }

    fn no(reason: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::No { reason: reason.into(), cure: cure.into() }
    }

    /// Reason and cure in one line; empty when it is there.
    pub fn why_not(&self) -> String {
        match self {
            Self::Yes(_) => String::new(),
            Self::No { reason, cure } if cure.is_empty() => reason.clone(),
            Self::No { reason, cure } => format!("{reason}; {cure}"),
        }
    }
}

/// The mechanisms of the native wall on this host.
#[derive(Clone, Debug)]
pub struct Probe {
    /// User namespaces for this caller.
    pub user_namespaces: Found,
    /// `fsopen`, `open_tree`, `move_mount`, `mount_setattr`.
    pub mount_api: Found,
    /// Mounts that map owners; needed by root alone.
    pub idmapped_mounts: Found,
    /// Landlock, with its ABI.
    pub landlock: Found,
    /// System-call filters.
    pub seccomp: Found,
    /// Where control groups can be made.
    pub cgroups: &'static Places,
    /// Whether the command can be another user of the host than root.
    pub non_root: Found,
}

impl Probe {
    /// Looks.
    pub fn new() -> Self {
        Self {
            user_namespaces: user_namespaces(),
            mount_api: mount_api(),
            idmapped_mounts: pretended("idmap").unwrap_or_else(idmapped_mounts),
            landlock: landlock(),
            seccomp: pretended("seccomp").unwrap_or_else(seccomp),
            cgroups: Places::here(),
            non_root: non_root(),
        }
    }
}

impl Default for Probe {
    fn default() -> Self {
        Self::new()
    }
}

fn user_namespaces() -> Found {
    if let Some(pretended) = pretended("userns") {
        return pretended;
    }
    let setting = |name: &str| fs::read_to_string(Path::new("/proc/sys").join(name)).ok();
    let is = |name: &str, value: &str| setting(name).is_some_and(|text| text.trim() == value);
    if !Path::new("/proc/self/ns/user").exists() {
        return Found::no("the kernel has no user namespaces", "use one built with CONFIG_USER_NS");
    }
    if is("user/max_user_namespaces", "0") {
        return Found::no(
            "user namespaces are switched off (user.max_user_namespaces is 0)",
            "`sysctl user.max_user_namespaces=15000` enables them",
        );
    }
    if rustix::process::geteuid().is_root() {
        return Found::Yes("as root".to_owned());
    }
    if is("kernel/unprivileged_userns_clone", "0") {
        return Found::no(
            "user namespaces are for root alone (kernel.unprivileged_userns_clone is 0)",
            "`sysctl kernel.unprivileged_userns_clone=1` enables them",
        );
    }
    if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        return Found::no(
            "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)",
            "an AppArmor profile for pinfold with the rule `userns,` or \
             `sysctl kernel.apparmor_restrict_unprivileged_userns=0` enables them",
        );
    }
    Found::Yes("as an ordinary user".to_owned())
}

/// `mount_setattr` is the youngest of the calls: Linux 5.12.
fn mount_api() -> Found {
    let nothing = crate::sys::mount::Attributes::default();
    // A descriptor that is no mount's root: a kernel that knows the call says so, another says ENOSYS.
    match crate::sys::mount::set_attributes(CWD, crate::sys::mount::Reach::Mount, nothing) {
        Err(error) if error.raw_os_error() == Some(Errno::NOSYS.raw_os_error()) => {
            Found::no("the kernel has no mount_setattr", "Linux 5.12 or newer is needed")
        }
        _ => Found::Yes("fsopen, open_tree, mount_setattr".to_owned()),
    }
}

fn idmapped_mounts() -> Found {
    if !crate::ids::may_map() {
        return Found::no("only root can map owners", "files belong to the caller anyway");
    }
    Found::Yes("mount_setattr".to_owned())
}

fn landlock() -> Found {
    if let Some(pretended) = pretended("landlock") {
        return pretended;
    }
    match crate::landlock::abi() {
        Some(abi) => Found::Yes(format!("ABI {abi}")),
        None => Found::no(
            "the kernel has no Landlock or it is not enabled",
            "Linux 5.13 or newer with `landlock` in the lsm= boot parameter enables it",
        ),
    }
}

fn seccomp() -> Found {
    match fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) if actions.contains("errno") => Found::Yes("filter".to_owned()),
        _ => Found::no("the kernel has no seccomp filters", "use one built with CONFIG_SECCOMP_FILTER"),
    }
}

fn non_root() -> Found {
    if !rustix::process::geteuid().is_root() {
        return Found::Yes("the caller's own id".to_owned());
    }
    if crate::ids::may_map() {
        return Found::Yes("an id of nobody's, of this sandbox alone".to_owned());
    }
    Found::no(
        "the caller is root without CAP_SYS_ADMIN, CAP_SETUID and CAP_SETGID",
        "run as an ordinary user, or as root with these capabilities",
    )
}

fn pretended(name: &str) -> Option<Found> {
    pretends_missing(name)
        .then(|| Found::no(format!("{name} is pretended to be missing"), "unset PINFOLD_PRETEND_MISSING"))
}

/// Whether a test wants the mechanism `name` to count as missing.
pub(crate) fn pretends_missing(name: &str) -> bool {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    listed(&NAMES, "PINFOLD_PRETEND_MISSING", name)
}

/// Whether a test wants the defence `name` to be off. Release builds have no such switch.
#[cfg(debug_assertions)]
pub(crate) fn without(name: &str) -> bool {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    listed(&NAMES, "PINFOLD_WITHOUT", name)
}

/// Whether a test wants the defence `name` to be off: never, in a release build.
#[cfg(not(debug_assertions))]
pub(crate) const fn without(_: &str) -> bool {
    false
}

/// Whether a test wants the set-up to fail at the step `name`.
#[cfg(debug_assertions)]
pub(crate) fn fails_at(name: &str) -> bool {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    listed(&NAMES, "PINFOLD_FAIL_AT", name)
}

/// Reads a list of names once: the guest wipes its environment but keeps what was read.
fn listed(names: &OnceLock<Vec<String>>, variable: &str, name: &str) -> bool {
    names
        .get_or_init(|| {
            let value = std::env::var(variable).unwrap_or_default();
            value.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
        })
        .iter()
        .any(|listed| listed == name)
}
