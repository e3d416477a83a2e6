//! The network of a plan: groups opened up, rules with the destination each of them opens.

use std::collections::HashMap;
use std::hash::Hash;

use pinfold_core::origin::Origin;
use pinfold_core::plan::{
    Allowed, Budget, Credential, CredentialPlacement, CredentialSource, HttpRule, Network,
};
use pinfold_core::request::Request;

use super::{PlanError, files};
use crate::Setting;
use crate::document::{Amount, CredentialEntry, NetEntry, NetRule, Policy};

pub(super) fn network(request: &Request, policy: &Policy) -> Result<Network, PlanError> {
    let net = &policy.net;
    if !net.enabled.value {
        return Ok(Network { enabled: false, allow: Vec::new(), block: Vec::new(), rules: Vec::new() });
    }
    let (allowed_by, ruled_by) = (by_item(&net.allowlist), by_item(&net.rules));
    let mut allow = Vec::new();
    for entry in &net.allowlist.value {
        let because = allowed_by.get(entry).copied().unwrap_or(net.allowlist.origin());
        match entry {
            NetEntry::Destination(destination) => {
                allow.push(Allowed {
                    destination: destination.clone(),
                    group: None,
                    because: because.clone(),
                });
            }
            NetEntry::Registries => {
                allow.extend(request.surroundings.registries.iter().map(|destination| Allowed {
                    destination: destination.clone(),
                    group: Some("@registries"),
                    because: because.clone(),
                }));
            }
        }
    }
    let mut rules = Vec::new();
    for rule in &net.rules.value {
        let because = ruled_by.get(rule).copied().unwrap_or(net.rules.origin());
        let destination = destination(rule)?;
        allow.push(Allowed { destination, group: None, because: because.clone() });
        rules.push(HttpRule {
            host: rule.host.clone(),
            methods: rule.methods.iter().map(|method| format!("{method:?}").to_uppercase()).collect(),
            paths: rule.paths.clone(),
            credential: rule.credential.as_ref().map(credential).transpose()?.flatten(),
            budget: Budget {
                upload_mb: rule.budget.and_then(|budget| budget.upload_mb).map(Amount::get),
                requests: rule.budget.and_then(|budget| budget.requests).map(Amount::get),
            },
            because: because.clone(),
        });
    }
    Ok(Network { enabled: true, allow, block: net.blocklist.value.clone(), rules })
}

/// Who stated each item of a list: the lowest layer that did.
fn by_item<T: Eq + Hash>(list: &Setting<Vec<T>>) -> HashMap<&T, &Origin> {
    list.stated().flat_map(|(items, origin)| items.iter().map(move |item| (item, origin))).collect()
}

/// A rule opens its host on the port of HTTPS.
fn destination(rule: &NetRule) -> Result<pinfold_core::destination::Destination, PlanError> {
    let host = match rule.host.as_ip() {
        Some(std::net::IpAddr::V6(address)) => format!("[{address}]"),
        _ => rule.host.to_string(),
    };
    format!("{host}:443").parse().map_err(|error| PlanError::BadPath {
        what: format!("net.rules for {host}"),
        why: format!("{error}"),
    })
}

fn credential(entry: &CredentialEntry) -> Result<Option<Credential>, PlanError> {
    let placement = match (&entry.header, &entry.basic) {
        (Some(header), _) => CredentialPlacement::Header(header.to_string()),
        (None, Some(user)) => CredentialPlacement::Basic(user.clone()),
        (None, None) => return Ok(None),
    };
    let source = match (&entry.from_env, &entry.from_file) {
        (Some(name), _) => CredentialSource::Env(name.to_string()),
        (None, Some(path)) => CredentialSource::File(files::absolute("net.rules.credential.fromFile", path)?),
        (None, None) => return Ok(None),
    };
    Ok(Some(Credential { placement, source }))
}
