//! Every key of a policy, in one table: its name, what it means, its type, and how layers meet in it.
//!
//! The table becomes the document (every key may be missing), the policy (every key has a value and an origin),
//! the merge of one into the other, and the rows that `policy show` prints.

use std::collections::BTreeMap;

use pinfold_core::control::{Control, Requirement};
use pinfold_core::destination::Destination;
use pinfold_core::glob::Glob;
use pinfold_core::plan::{BackendChoice, IsolationLevel, OnOutputLimit, Reads};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    Amount, Commands, Cpus, EnvMap, EnvName, NetEntry, NetRule, Patterns, PolicyPath, SeccompChoice,
    WorkspaceAccess, ZoneEntry,
};
use crate::rule::{
    Adds, AllowList, AtLeast, AtMost, Chosen, Fewer, Grants, Off, On, Rule, Same, SamePath, Stricter,
    Stronger,
};
use crate::setting::Setting;

/// Merges one key of a document into the policy.
pub(crate) trait Merge {
    fn merge<T: Clone + PartialEq, R: Rule<T>>(&mut self, key: &str, current: &mut Setting<T>, new: T);
}

/// One key as `policy show` prints it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The key, with its section.
    pub key: String,
    /// The value in force.
    pub value: serde_json::Value,
    /// Who stated it; several where layers add up.
    pub origins: Vec<pinfold_core::origin::Origin>,
}

macro_rules! keys {
    ($(
        $(#[doc = $section_doc:literal])*
        $section:ident: $Document:ident, $Policy:ident {
            $( $(#[doc = $doc:literal])* $field:ident = $key:literal: $type:ty, $rule:ty; )*
        }
    )*) => {
        $(
            $(#[doc = $section_doc])*
            #[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
            #[serde(deny_unknown_fields)]
            pub struct $Document {
                $(
                    $(#[doc = $doc])*
                    #[serde(rename = $key, default, deserialize_with = "stated")]
                    pub $field: Option<$type>,
                )*
            }

            $(#[doc = $section_doc])*
            #[derive(Clone, Debug, Default, PartialEq)]
            pub struct $Policy {
                $( $(#[doc = $doc])* pub $field: Setting<$type>, )*
            }

            impl $Policy {
                fn merge(&mut self, document: &$Document, by: &mut impl Merge) {
                    $(
                        if let Some(new) = &document.$field {
                            by.merge::<$type, $rule>(
                                concat!(stringify!($section), ".", $key), &mut self.$field, new.clone(),
                            );
                        }
                    )*
                }

                fn rows(&self, rows: &mut Vec<Row>) {
                    $( rows.push(self.$field.row(concat!(stringify!($section), ".", $key))); )*
                }
            }
        )*

        /// Everything a policy document may say. Strict: what is not listed here is an error.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(title = "Pinfold sandbox policy")]
        pub struct Document {
            /// The version of this format: 1.
            #[serde(default)]
            #[schemars(range(min = 1, max = 1))]
            pub version: Option<u64>,
            /// A profile (default, strict, compute, dev, build, test) or a file to build on.
            #[serde(default)]
            pub extends: Option<String>,
            /// Sections or keys that lower layers may narrow but not widen: `net`, `proc.maxMemoryMB`.
            #[serde(default)]
            pub lock: Vec<String>,
            $(
                $(#[doc = $section_doc])*
                #[serde(default)]
                pub $section: Option<$Document>,
            )*
            /// How much is insisted on, control by control.
            #[serde(default)]
            pub requirements: Option<BTreeMap<Control, Requirement>>,
        }

        /// A policy in force: every key has a value, and every value an origin.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Policy {
            $( $(#[doc = $section_doc])* pub $section: $Policy, )*
            /// How much is insisted on, where it differs from the default.
            pub requirements: BTreeMap<Control, Setting<Requirement>>,
        }

        impl Policy {
            /// Merges `document` into this policy, key by key.
            pub(crate) fn merge(&mut self, document: &Document, by: &mut impl Merge) {
                $(
                    if let Some(section) = &document.$section {
                        self.$section.merge(section, by);
                    }
                )*
                for (control, asked) in document.requirements.iter().flatten() {
                    // Where nothing is stated the default may be the strongest, so only the strongest narrows it.
                    let current = self.requirements.entry(*control).or_insert_with(|| Setting::new(Requirement::Required));
                    by.merge::<Requirement, AtLeast>(&format!("requirements.{control}"), current, *asked);
                }
            }

            /// Every key with its value and origin.
            pub fn rows(&self) -> Vec<Row> {
                let mut rows = Vec::new();
                $( self.$section.rows(&mut rows); )*
                for (control, asked) in &self.requirements {
                    rows.push(asked.row(&format!("requirements.{control}")));
                }
                rows
            }
        }

        /// The name of every key that layers meet in.
        pub(crate) const KEYS: &[&str] = &[
            $( $( concat!(stringify!($section), ".", $key), )* )*
            "requirements",
        ];

        impl Document {
            /// This document with `over` on top: what `over` states replaces.
            pub(crate) fn overlay(mut self, over: &Self) -> Self {
                $(
                    if let Some(section) = &over.$section {
                        let mine = self.$section.get_or_insert_default();
                        $( if section.$field.is_some() { mine.$field = section.$field.clone(); } )*
                    }
                )*
                if over.requirements.is_some() {
                    self.requirements = over.requirements.clone();
                }
                self
            }
        }
    };
}

keys! {
    /// The wall itself.
    sandbox: SandboxDocument, SandboxPolicy {
        /// At least this much isolation: none, process, container, vm or wasm.
        isolation_level = "isolationLevel": IsolationLevel, Stronger;
        /// The wall to use; `auto` takes the strongest one here that covers the plan.
        backend = "backend": BackendChoice, Chosen;
        /// The image, for walls that have one.
        image = "image": String, Same;
        /// The wasm runtime, or the container engine's runtime: wasmtime, runc, runsc, kata.
        runtime = "runtime": String, Same;
        /// Run the attack suite inside before the first command.
        prove_on_boot = "proveOnBoot": bool, On;
        /// Named places inside. A lower layer's zone replaces the one of the same name.
        zones = "zones": Vec<ZoneEntry>, Grants;
    }
    /// Files.
    fs: FsDocument, FsPolicy {
        /// What may be done with the workspace, which appears as /workspace: none, ro or rw.
        workspace = "workspace": WorkspaceAccess, AtMost;
        /// Dependencies to show read-only as /deps.
        deps = "deps": Option<PolicyPath>, SamePath;
        /// How much of the system is shown read-only: minimal, system or toolchains.
        reads = "reads": Reads, AtMost;
        /// Host paths to show read-only at their own place.
        allowed_read_paths = "allowedReadPaths": Vec<PolicyPath>, Grants;
        /// Host paths to show writable at their own place.
        allowed_write_paths = "allowedWritePaths": Vec<PolicyPath>, Grants;
        /// Globs of files that are masked: neither read nor written. Layers add up.
        deny = "deny": Vec<Glob>, Adds;
        /// Globs of files that can be read but not changed, besides the built-in names. Layers add up.
        protect = "protect": Vec<Glob>, Adds;
    }
    /// The network.
    net: NetDocument, NetPolicy {
        /// Whether there is any.
        enabled = "enabled": bool, Off;
        /// Where to: hosts, `*.suffix`, addresses and networks with an optional port, `@registries`.
        allowlist = "allowlist": Vec<NetEntry>, Grants;
        /// Where never to, whatever is allowed. Layers add up.
        blocklist = "blocklist": Vec<Destination>, Adds;
        /// What may be said to a host, and with which secret.
        rules = "rules": Vec<NetRule>, Grants;
    }
    /// Limits on what runs.
    proc: ProcDocument, ProcPolicy {
        /// CPU seconds of all processes together.
        max_cpu_seconds = "maxCpuSeconds": Amount, AtMost;
        /// How many CPUs may be busy at once; none stated means all.
        cpus = "cpus": Option<Cpus>, Fewer;
        /// Memory of all processes and tmpfs together, in MB.
        max_memory_mb = "maxMemoryMB": Amount, AtMost;
        /// What may be written to disk, in MB.
        max_disk_mb = "maxDiskMB": Amount, AtMost;
        /// Elapsed time, in milliseconds.
        timeout_ms = "timeoutMs": Amount, AtMost;
        /// Processes and threads together.
        max_processes = "maxProcesses": Amount, AtMost;
        /// Open descriptors per process.
        max_file_descriptors = "maxFileDescriptors": Amount, AtMost;
        /// Bytes of standard output and of standard error, each.
        max_output_bytes = "maxOutputBytes": Amount, AtMost;
        /// What happens at the output limit: kill or truncate.
        on_output_limit = "onOutputLimit": OnOutputLimit, AtMost;
    }
    /// What the processes may be.
    security: SecurityDocument, SecurityPolicy {
        /// Empty every capability set.
        drop_capabilities = "dropCapabilities": bool, On;
        /// Never run as root of the host.
        run_as_non_root = "runAsNonRoot": bool, On;
        /// The user id inside.
        user_id = "userId": u32, Same;
        /// Nothing outside writable zones can be written, not even in memory.
        read_only_root_filesystem = "readOnlyRootFilesystem": bool, On;
        /// No program gains privileges by being executed.
        no_new_privileges = "noNewPrivileges": bool, On;
        /// Refused system calls: default, strict, debug, or a file that refuses more.
        seccomp_profile = "seccompProfile": SeccompChoice, Stricter;
    }
    /// Environment variables.
    env: EnvDocument, EnvPolicy {
        /// Names copied from the caller.
        pass = "pass": Vec<EnvName>, Grants;
        /// Names with their values.
        set = "set": EnvMap, Grants;
    }
    /// Tools an agent may call.
    tools: ToolsDocument, ToolsPolicy {
        /// Tools allowed; none stated means those of the session's level.
        allow = "allow": Vec<String>, AllowList;
        /// Tools denied. Layers add up.
        deny = "deny": Vec<String>, Adds;
        /// Patterns that no call may contain. Layers add up.
        patterns = "patterns": Patterns, Adds;
        /// Rules about commands.
        commands = "commands": Commands, AllowList;
    }
}

/// Reads a key that is present: its value, never an absence.
fn stated<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
