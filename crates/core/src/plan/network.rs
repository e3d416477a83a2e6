//! The network of a plan: which destinations the door opens to, under which rules.

use serde::Serialize;

use crate::destination::Destination;
use crate::glob::Glob;
use crate::host::Host;
use crate::origin::Origin;

/// What can be reached. Without `enabled` nothing can, and the lists are empty.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Network {
    /// Whether there is a door at all.
    pub enabled: bool,
    /// Where the door opens to.
    pub allow: Vec<Allowed>,
    /// Where it never opens to, whatever `allow` says.
    pub block: Vec<Destination>,
    /// What may be said to some of the destinations.
    pub rules: Vec<HttpRule>,
}

/// One allowed destination.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Allowed {
    /// Where to.
    pub destination: Destination,
    /// The group it came in with, such as `@registries`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<&'static str>,
    /// Who allowed it.
    pub because: Origin,
}

/// What may be said to one host, and with which secret.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HttpRule {
    /// The host the rule is about.
    pub host: Host,
    /// Allowed methods; empty means all.
    pub methods: Vec<String>,
    /// Allowed paths; empty means all.
    pub paths: Vec<Glob>,
    /// A secret put in on the way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<Credential>,
    /// How much may be sent.
    pub budget: Budget,
    /// Who stated the rule.
    pub because: Origin,
}

/// A secret of the host that the door puts into requests. Only its whereabouts are in a plan, never its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Credential {
    /// Where it goes in the request.
    pub placement: CredentialPlacement,
    /// Where the door finds it.
    pub source: CredentialSource,
}

/// Where a secret goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialPlacement {
    /// The named header.
    Header(String),
    /// The password of basic authentication, with this user name.
    Basic(String),
}

/// Where a secret is kept on the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialSource {
    /// An environment variable of the host.
    Env(String),
    /// A file of the host.
    File(crate::path::AbsPath),
}

/// How much may be sent to a host; none means no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Budget {
    /// Uploaded MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload_mb: Option<u64>,
    /// Number of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}
