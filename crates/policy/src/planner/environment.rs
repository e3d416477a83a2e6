//! The variables inside: a short fixed list, what zones and toolchains add, and what the policy says.

use std::collections::BTreeMap;

use pinfold_core::plan::{Environment, Files, Reads};
use pinfold_core::request::Request;

use crate::document::Policy;

const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(super) fn environment(request: &Request, policy: &Policy, files: &Files) -> Environment {
    let facts = &request.surroundings;
    let mut set = BTreeMap::new();
    let mut say = |name: &str, value: String| set.insert(name.to_owned(), value);
    let mut path = Vec::new();
    if files.reads == Reads::Toolchains {
        for toolchain in &facts.toolchains {
            path.extend(toolchain.path.iter().filter_map(|path| path.as_path().to_str().map(str::to_owned)));
            for (name, value) in &toolchain.environment {
                say(name, value.clone());
            }
        }
    }
    path.push(SYSTEM_PATH.to_owned());
    say("PATH", path.join(":"));
    say("HOME", "/scratch/home".to_owned());
    say("USER", facts.user.clone());
    say("TMPDIR", "/tmp".to_owned());
    say("LANG", "C.UTF-8".to_owned());
    for (name, value) in &facts.environment {
        if name != "TERM" || request.terminal {
            say(name, value.clone());
        }
    }
    for (name, value) in &policy.env.set.value {
        say(name.as_str(), value.as_str().to_owned());
    }
    say("PINFOLD", "1".to_owned());
    for zone in &files.zones {
        let name = zone.name.to_uppercase().replace('-', "_");
        say(&format!("PINFOLD_ZONE_{name}"), zone.inside.to_string());
    }
    // A value that is set is known here; one that is passed is whatever the caller has. The known one holds.
    let set_by_policy = &policy.env.set.value;
    let passed = policy.env.pass.value.iter().filter(|name| !set_by_policy.contains_key(name));
    let pass = passed.map(ToString::to_string).collect();
    Environment { set, pass }
}
