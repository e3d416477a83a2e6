//! The controls: the promises that a plan asks for and a wall answers to, one by one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Declares [`Control`] with the name users see and one sentence that is documentation and output alike.
macro_rules! controls {
    ($($variant:ident = $name:literal: $promise:literal,)*) => {
        /// One promise about what runs inside.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Control {
            $(#[doc = $promise] $variant,)*
        }

        impl Control {
            /// Every control, in the order they are shown.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name in policies, receipts and the API.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// What is promised, in one sentence.
            pub const fn promise(self) -> &'static str {
                match self { $(Self::$variant => $promise),* }
            }
        }
    };
}

controls! {
    FilesOutside = "files.outside": "files outside the zones and the shown system directories cannot be read or written",
    FilesZones = "files.zones": "each zone has exactly the access its mode gives",
    FilesDeny = "files.deny": "what matches a deny glob can be neither read nor written",
    FilesProtected = "files.protected": "what the host would later execute or obey cannot be changed",
    FilesLayout = "files.layout": "zones appear at their fixed places such as /workspace",
    FilesSelf = "files.self": "Pinfold's own state, tokens, sockets and audit are unreachable",
    NetworkDirect = "network.direct": "no packet leaves except through the door",
    NetworkAllowlist = "network.allowlist": "the door opens only to the destinations allowed",
    NetworkCredentials = "network.credentials": "brokered secrets never enter",
    ProcessesIsolated = "processes.isolated": "processes outside are invisible and cannot be signalled or traced",
    ProcessesEnd = "processes.end": "everything started inside ends with the sandbox",
    IpcIsolated = "ipc.isolated": "shared memory, message queues and abstract sockets outside are unreachable",
    KernelSeccomp = "kernel.seccomp": "dangerous system calls are refused",
    KernelAbi = "kernel.abi": "system calls of foreign ABIs are refused",
    PrivilegesCapabilities = "privileges.capabilities": "every capability set is empty",
    PrivilegesNoNew = "privileges.no_new": "no program gains privileges by being executed",
    PrivilegesNonRoot = "privileges.non_root": "the command is an unprivileged user of the host",
    PrivilegesSetid = "privileges.setid": "no set-id file can be made",
    RootReadonly = "root.readonly": "nothing outside writable zones can be written, not even temporarily",
    EnvClean = "env.clean": "only the variables listed in the plan are set",
    DescriptorsClean = "descriptors.clean": "no descriptor but the standard three is open",
    TerminalOwn = "terminal.own": "the caller's terminal is never inside",
    LimitCpu = "limit.cpu": "CPU time of all processes together is bounded",
    LimitMemory = "limit.memory": "memory of all processes and tmpfs together is bounded",
    LimitDisk = "limit.disk": "what is written to disk is bounded",
    LimitWall = "limit.wall": "elapsed time is bounded",
    LimitProcesses = "limit.processes": "the number of processes and threads is bounded",
    LimitFds = "limit.fds": "open descriptors per process are bounded",
    LimitOutput = "limit.output": "output is bounded",
}

impl Control {
    /// True for the seven resource limits.
    pub fn is_limit(self) -> bool {
        self.name().starts_with("limit.")
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no control.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no control is named `{0}`")]
pub struct UnknownControl(pub String);

impl FromStr for Control {
    type Err = UnknownControl;

    fn from_str(name: &str) -> Result<Self, UnknownControl> {
        Self::ALL
            .iter()
            .copied()
            .find(|control| control.name() == name)
            .ok_or_else(|| UnknownControl(name.to_owned()))
    }
}

impl Serialize for Control {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Control {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Control {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Control".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<&str> = Self::ALL.iter().map(|control| control.name()).collect();
        schemars::json_schema!({ "type": "string", "enum": names })
    }
}

/// How much a plan insists on a control. Ordered: a greater one asks for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Requirement {
    /// Wanted; the run goes on without it, and the receipt says so.
    BestEffort,
    /// Must be enforced at least in part.
    AtLeastPartial,
    /// Must be enforced, or nothing runs.
    Required,
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::BestEffort => "best_effort",
            Self::AtLeastPartial => "at_least_partial",
            Self::Required => "required",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_and_are_unique() {
        for control in Control::ALL {
            assert_eq!(control.name().parse::<Control>(), Ok(*control));
        }
        assert_eq!(Control::ALL.len(), 29);
        assert!("files.Outside".parse::<Control>().is_err());
    }

    #[test]
    fn requirements_are_ordered_by_how_much_they_ask() {
        assert!(Requirement::Required > Requirement::AtLeastPartial);
        assert!(Requirement::AtLeastPartial > Requirement::BestEffort);
    }
}
