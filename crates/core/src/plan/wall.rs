//! Which wall a plan asks for, and what the processes behind it may be.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::origin::Origin;
use crate::path::AbsPath;

/// The kind of wall asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wall {
    /// At least this much isolation.
    pub isolation: IsolationLevel,
    /// Who asked for that level.
    pub because: Origin,
    /// A backend by name, or the choice of one.
    pub backend: BackendChoice,
    /// The image, for walls that have one.
    pub image: String,
    /// The wasm runtime, or the container engine's runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Whether the attack suite runs before the command does.
    pub prove_on_boot: bool,
}

/// How much isolation, as the policy names it. A minimum, ordered; `wasm` stands beside `vm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum IsolationLevel {
    /// The host itself; only ever chosen explicitly.
    None,
    /// An operating-system process wall.
    #[default]
    Process,
    /// Namespaces or a container.
    Container,
    /// A virtual machine.
    Vm,
    /// A WebAssembly runtime.
    Wasm,
}

impl IsolationLevel {
    /// The name in policies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Process => "process",
            Self::Container => "container",
            Self::Vm => "vm",
            Self::Wasm => "wasm",
        }
    }

    /// True when a wall of this level is at least as strong as `asked`.
    pub fn satisfies(self, asked: Self) -> bool {
        match asked {
            Self::Wasm => self == Self::Wasm,
            Self::Vm => self == Self::Vm,
            asked => self >= asked,
        }
    }
}

impl fmt::Display for IsolationLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A backend by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // each is named after the thing it drives
pub enum BackendName {
    Namespace,
    Chroot,
    Bubblewrap,
    Firejail,
    Landlock,
    Ulimit,
    Seatbelt,
    Docker,
    Podman,
    Gvisor,
    Wasm,
    Microvm,
    Kubernetes,
}

impl BackendName {
    /// Every backend.
    pub const ALL: [Self; 13] = [
        Self::Namespace,
        Self::Chroot,
        Self::Bubblewrap,
        Self::Firejail,
        Self::Landlock,
        Self::Ulimit,
        Self::Seatbelt,
        Self::Docker,
        Self::Podman,
        Self::Gvisor,
        Self::Wasm,
        Self::Microvm,
        Self::Kubernetes,
    ];

    /// The name users type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Chroot => "chroot",
            Self::Bubblewrap => "bubblewrap",
            Self::Firejail => "firejail",
            Self::Landlock => "landlock",
            Self::Ulimit => "ulimit",
            Self::Seatbelt => "seatbelt",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Gvisor => "gvisor",
            Self::Wasm => "wasm",
            Self::Microvm => "microvm",
            Self::Kubernetes => "kubernetes",
        }
    }

    /// The isolation level this kind of wall gives.
    pub const fn level(self) -> IsolationLevel {
        match self {
            Self::Chroot | Self::Landlock | Self::Ulimit | Self::Seatbelt => IsolationLevel::Process,
            Self::Namespace
            | Self::Bubblewrap
            | Self::Firejail
            | Self::Docker
            | Self::Podman
            | Self::Gvisor
            | Self::Kubernetes => IsolationLevel::Container,
            Self::Microvm => IsolationLevel::Vm,
            Self::Wasm => IsolationLevel::Wasm,
        }
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for BackendName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|backend| backend.name() == name).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|backend| backend.name()).collect();
            format!("no backend is named `{name}`; there are: auto, {}", known.join(", "))
        })
    }
}

/// A backend by name, or whichever covers the plan best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// The strongest usable wall that covers the plan.
    #[default]
    Auto,
    /// This one or none.
    Named(BackendName),
}

impl fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Named(backend) => backend.fmt(f),
        }
    }
}

impl FromStr for BackendChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "auto" { Ok(Self::Auto) } else { name.parse().map(Self::Named) }
    }
}

impl Serialize for BackendChoice {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BackendChoice {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for BackendChoice {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BackendChoice".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<&str> =
            std::iter::once("auto").chain(BackendName::ALL.iter().map(|backend| backend.name())).collect();
        schemars::json_schema!({ "type": "string", "enum": names })
    }
}

/// What the processes inside may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Privileges {
    /// Capability sets are emptied.
    pub drop_capabilities: bool,
    /// No program gains privileges by being executed.
    pub no_new_privileges: bool,
    /// The command is no root of the host.
    pub non_root: bool,
    /// The user id seen inside, where the wall can choose it.
    pub user_id: u32,
    /// Which system calls are refused.
    pub seccomp: SeccompProfile,
}

/// A table of refused system calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SeccompProfile {
    /// Everything ordinary programs use.
    Default,
    /// What pure computation uses.
    Strict,
    /// The default, and tracing one's own children.
    Debug,
    /// The default, and what a file refuses on top.
    File(AbsPath),
}

/// The variables inside: these, and none else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Environment {
    /// Variables with their values.
    pub set: BTreeMap<String, String>,
    /// Names whose values are copied from the caller at start; a plan never holds them.
    pub pass: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_minimums_and_the_special_ones_are_exact() {
        assert!(IsolationLevel::Container.satisfies(IsolationLevel::Process));
        assert!(IsolationLevel::Vm.satisfies(IsolationLevel::Container));
        assert!(!IsolationLevel::Process.satisfies(IsolationLevel::Container));
        assert!(!IsolationLevel::Vm.satisfies(IsolationLevel::Wasm));
        assert!(!IsolationLevel::Wasm.satisfies(IsolationLevel::Vm));
    }

    #[test]
    fn backend_names_parse_back() {
        for backend in BackendName::ALL {
            assert_eq!(backend.name().parse(), Ok(backend));
        }
    }
}
