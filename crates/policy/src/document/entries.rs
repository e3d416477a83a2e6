//! The entries of a policy document: values made of several keys.

use std::fmt;

use pinfold_core::glob::Glob;
use pinfold_core::host::Host;
use pinfold_core::zone::ZoneName;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Serialize};

use super::values::{Amount, EnvName, HeaderName, PolicyPath};

/// What may be done with the workspace. Ordered: a greater one allows more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkspaceAccess {
    /// It is not there.
    #[default]
    None,
    /// Reading.
    Ro,
    /// Reading and writing.
    Rw,
}

impl fmt::Display for WorkspaceAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Ro => "ro",
            Self::Rw => "rw",
        })
    }
}

/// How a zone behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ZoneMode {
    /// A host path, for reading.
    Ro,
    /// A host path, for reading and writing.
    Rw,
    /// Memory that goes away with the sandbox.
    Tmpfs,
}

/// A named place inside.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneEntry {
    /// Its name: `input` appears as `/input`.
    pub name: ZoneName,
    /// What it is.
    pub mode: ZoneMode,
    /// What of the host it shows, for `ro` and `rw`.
    #[serde(rename = "hostPath", default, skip_serializing_if = "Option::is_none")]
    pub host_path: Option<PolicyPath>,
    /// Its size, for `tmpfs`.
    #[serde(rename = "sizeMB", default, skip_serializing_if = "Option::is_none")]
    pub size_mb: Option<Amount>,
}

/// An HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs)] // each is named after itself
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

/// What may be said to one host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetRule {
    /// The host the rule is about; the rule alone allows it, on port 443.
    pub host: Host,
    /// Allowed methods; none stated means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<Method>,
    /// Allowed paths, as globs; none stated means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<Glob>,
    /// A secret that is put in on the way out and never enters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<CredentialEntry>,
    /// How much may be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetEntry>,
}

impl NetRule {
    /// Whether it takes anything away from what may be said to its host.
    pub(crate) fn bounds(&self) -> bool {
        !self.methods.is_empty() || !self.paths.is_empty() || self.budget.is_some()
    }
}

/// A secret of the host: where it goes, and where it is kept. One of each pair.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialEntry {
    /// The header it is put into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<HeaderName>,
    /// The user name of basic authentication, with the secret as password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic: Option<String>,
    /// An environment variable of the host that holds it.
    #[serde(rename = "fromEnv", default, skip_serializing_if = "Option::is_none")]
    pub from_env: Option<EnvName>,
    /// A file of the host that holds it.
    #[serde(rename = "fromFile", default, skip_serializing_if = "Option::is_none")]
    pub from_file: Option<PolicyPath>,
}

/// How much may be sent to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetEntry {
    /// Uploaded MB.
    #[serde(rename = "uploadMB", default, skip_serializing_if = "Option::is_none")]
    pub upload_mb: Option<Amount>,
    /// Number of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Amount>,
}

/// Patterns that a tool call must not contain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Patterns {
    /// Each refuses what it matches.
    #[serde(default)]
    pub deny: Vec<String>,
}

/// Rules about commands, the strongest last: allow, ask, deny.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Commands {
    /// These run unasked; with none stated, everything that is not asked about or denied does.
    #[serde(default)]
    pub allow: Vec<CommandRule>,
    /// A person is asked about these.
    #[serde(default)]
    pub ask: Vec<CommandRule>,
    /// These never run.
    #[serde(default)]
    pub deny: Vec<CommandRule>,
}

/// One rule: the command it means, and examples that it must match. Written as a map, or as the words alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CommandRule {
    /// The words that a command begins with.
    #[serde(rename = "match")]
    pub matches: String,
    /// Command lines that this rule must match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

/// A rule in full.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LongCommandRule {
    /// The words that a command begins with.
    #[serde(rename = "match")]
    #[schemars(extend("format" = "pinfold-words"))]
    matches: String,
    /// Command lines that this rule must match.
    #[serde(default)]
    examples: Vec<String>,
}

impl<'de> Deserialize<'de> for CommandRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = LongCommandRule;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the words of a command, or a map with `match` and `examples`")
            }

            fn visit_str<E: de::Error>(self, words: &str) -> Result<LongCommandRule, E> {
                Ok(LongCommandRule { matches: words.to_owned(), examples: Vec::new() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LongCommandRule, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map))
            }
        }

        let LongCommandRule { matches, examples } = deserializer.deserialize_any(Either)?;
        if matches.trim().is_empty() {
            return Err(de::Error::custom("a rule that matches no words would match every command"));
        }
        Ok(Self { matches, examples })
    }
}

impl JsonSchema for CommandRule {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CommandRule".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let long = generator.subschema_for::<LongCommandRule>();
        json_schema!({ "anyOf": [{ "type": "string", "format": "pinfold-words" }, long] })
    }
}
