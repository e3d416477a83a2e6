//! Random documents: a few keys each, with values from small pools, so that layers often meet and often agree.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

type Key = (&'static str, &'static str, Value);

type Entry = (&'static str, BoxedStrategy<Key>);

fn one(section: &'static str, key: &'static str, values: Vec<Value>) -> Entry {
    (section, select(values).prop_map(move |value| (section, key, value)).boxed())
}

fn some(section: &'static str, key: &'static str, values: Vec<Value>) -> Entry {
    let most = values.len();
    let list = subsequence(values, 0..=most).prop_map(move |values| (section, key, Value::Array(values)));
    (section, list.boxed())
}

fn words(words: &[&str]) -> Vec<Value> {
    words.iter().map(|word| Value::from(*word)).collect()
}

fn numbers(around: u64) -> Vec<Value> {
    [1, around / 2, around - 1, around, around + 1, around * 4]
        .into_iter()
        .map(|n| Value::from(n.max(1)))
        .collect()
}

fn switch() -> Vec<Value> {
    vec![true.into(), false.into()]
}

/// Every key, with the section it is in.
fn keys() -> Vec<Entry> {
    let zones = vec![
        json!({"name": "a", "mode": "ro", "hostPath": "/srv/a"}),
        json!({"name": "b", "mode": "rw", "hostPath": "/srv/b"}),
        json!({"name": "c", "mode": "tmpfs", "sizeMB": 8}),
        json!({"name": "scratch", "mode": "tmpfs"}),
    ];
    let other_zones = vec![
        json!({"name": "a", "mode": "rw", "hostPath": "/srv/a"}),
        json!({"name": "b", "mode": "ro", "hostPath": "/srv/b"}),
        json!({"name": "c", "mode": "tmpfs", "sizeMB": 16}),
        json!({"name": "d", "mode": "ro", "hostPath": "~/.ssh"}),
    ];
    let moved_zones = vec![
        json!({"name": "a", "mode": "ro", "hostPath": "/srv/moved"}),
        json!({"name": "b", "mode": "tmpfs", "sizeMB": 4}),
    ];
    let rules = vec![
        json!({"host": "api.example.com", "methods": ["GET"]}),
        json!({"host": "api.example.com", "methods": ["GET", "POST"]}),
        json!({"host": "b.example", "credential": {"header": "X-Key", "fromEnv": "KEY"}}),
        json!({"host": "example.com", "paths": ["/v1/**"]}),
    ];
    let hosts = words(&[
        "*",
        "example.com",
        "*.example.com",
        "api.example.com:443",
        "10.0.0.0/8",
        "10.1.2.3:1-1000",
        "b.example",
    ]);
    let blocked = words(&["*.example.com:80", "10.1.0.0/16", "evil.example", "b.example:443"]);
    let commands = words(&["git", "git push", "rm", "ls"]);
    let rules_about_commands = (
        subsequence(commands.clone(), 0..3),
        subsequence(commands.clone(), 0..2),
        subsequence(commands, 0..2),
    )
        .prop_map(|(allow, ask, deny)| json!({"allow": allow, "ask": ask, "deny": deny}));
    let requirement = ("limit.cpu", "files.outside", "root.readonly");
    let mut keys = vec![
        one("", "extends", words(&["default", "strict", "compute", "dev", "build", "test"])),
        one("sandbox", "isolationLevel", words(&["none", "process", "container", "vm", "wasm"])),
        one("sandbox", "backend", words(&["auto", "namespace", "docker", "wasm"])),
        one("sandbox", "image", words(&["pinfold/base", "other/base"])),
        one("sandbox", "runtime", words(&["runc", "runsc"])),
        one("sandbox", "proveOnBoot", switch()),
        some("sandbox", "zones", zones),
        some("sandbox", "zones", other_zones),
        some("sandbox", "zones", moved_zones),
        one("fs", "workspace", words(&["none", "ro", "rw"])),
        one("fs", "deps", words(&["./vendor", "/srv/deps"])),
        one("fs", "reads", words(&["minimal", "system", "toolchains"])),
        some("fs", "allowedReadPaths", words(&["/opt", "/opt/a", "/srv/data"])),
        some("fs", "allowedWritePaths", words(&["/opt", "/srv/out"])),
        some("fs", "deny", words(&["**/.env", "*.pem", "~/.ssh"])),
        some("fs", "protect", words(&["Makefile", "ci/**"])),
        one("net", "enabled", switch()),
        some("net", "allowlist", hosts),
        some("net", "blocklist", blocked),
        some("net", "rules", rules),
        one("proc", "cpus", vec![json!(0.5), json!(1), json!(4)]),
        one("proc", "onOutputLimit", words(&["kill", "truncate"])),
        one("security", "userId", vec![json!(65534), json!(1000)]),
        one("security", "seccompProfile", words(&["default", "strict", "debug", "./calls.txt"])),
        some("env", "pass", words(&["A", "B", "C"])),
        one("env", "set", vec![json!({}), json!({"X": "1"}), json!({"X": "2", "Y": "1"})]),
        some("tools", "allow", words(&["read", "write", "bash"])),
        some("tools", "deny", words(&["browser", "fetch"])),
        one("tools", "patterns", vec![json!({"deny": ["curl"]}), json!({"deny": []})]),
        ("tools", rules_about_commands.prop_map(|rules| ("tools", "commands", rules)).boxed()),
    ];
    for control in [requirement.0, requirement.1, requirement.2] {
        keys.push(one("requirements", control, words(&["required", "at_least_partial", "best_effort"])));
    }
    for (key, usual) in [
        ("maxCpuSeconds", 30),
        ("maxMemoryMB", 256),
        ("maxDiskMB", 512),
        ("timeoutMs", 60_000),
        ("maxProcesses", 10),
        ("maxFileDescriptors", 256),
        ("maxOutputBytes", 65_536),
    ] {
        keys.push(one("proc", key, numbers(usual)));
    }
    for key in ["dropCapabilities", "runAsNonRoot", "readOnlyRootFilesystem", "noNewPrivileges"] {
        keys.push(one("security", key, switch()));
    }
    keys
}

fn any_of(keys: Vec<Entry>) -> impl Strategy<Value = Key> {
    proptest::strategy::Union::new(keys.into_iter().map(|(_, key)| key))
}

fn built(keys: Vec<Key>) -> Value {
    let mut document = json!({});
    for (section, key, value) in keys {
        match section {
            "" => document[key] = value,
            section => document[section][key] = value,
        }
    }
    document
}

/// A document of up to `most` keys.
pub(crate) fn document(most: usize) -> impl Strategy<Value = Value> {
    prop::collection::vec(any_of(keys()), 0..=most).prop_map(built)
}

/// Two documents that are about the same section, so that the lower one says something about what the upper one says.
fn about(section: &'static str) -> BoxedStrategy<(Value, Value)> {
    let of = || any_of(keys().into_iter().filter(|(name, _)| *name == section).collect());
    let upper = prop::collection::vec(of(), 1..8).prop_map(move |keys| {
        let mut upper = built(keys);
        // A network that is off hides what the lists say.
        if section == "net" {
            upper["net"]["enabled"] = true.into();
        }
        upper
    });
    (upper, prop::collection::vec(of(), 1..3).prop_map(built)).boxed()
}

/// A profile whose limits are not raised, of which documents state all that other profiles widen; and another profile.
fn profiles() -> BoxedStrategy<(Value, Value)> {
    let upper = json!({
        "extends": "compute",
        "fs": {"workspace": "ro", "reads": "toolchains"},
        "proc": {"timeoutMs": 30000, "maxDiskMB": 256},
        "security": {"readOnlyRootFilesystem": true},
    });
    let names = select(vec!["default", "strict", "compute", "dev"]);
    names.prop_map(move |name| (upper.clone(), json!({"extends": name}))).boxed()
}

/// An upper document and a lower one.
pub(crate) fn pair() -> impl Strategy<Value = (Value, Value)> {
    prop_oneof![
        4 => (document(8), document(4)),
        2 => about("sandbox"),
        1 => about("fs"),
        3 => about("net"),
        1 => about("proc"),
        1 => about("security"),
        1 => about("env"),
        1 => about("tools"),
        1 => about("requirements"),
        1 => profiles(),
    ]
}
