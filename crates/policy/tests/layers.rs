//! What must hold whatever the documents say: who may only narrow never widens, a lock holds, and nothing that can be
//! written takes more than its share of time and memory. Policies are compared here by what they permit, not by the
//! rules that the engine goes by.
#![allow(clippy::unwrap_used)] // all of it is a test

mod compare;
mod random;

use pinfold_core::path::AbsPath;
use pinfold_core::request::{Request, Surroundings};
use pinfold_policy::document::Base;
use pinfold_policy::layer::{Layer, LayerKind, Settled, Trust, settle};
use pinfold_policy::planner::{LimitsMode, plan};
use pinfold_policy::problem::{Code, Problems, Source};
use proptest::prelude::*;
use serde_json::Value;

fn load(kind: LayerKind, trust: Trust, text: &str) -> Result<Vec<Layer>, Problems> {
    let directory = AbsPath::new("/home/me/project").unwrap();
    let home = AbsPath::new("/home/me").unwrap();
    let base = Base { directory: &directory, home: Some(&home) };
    let source = Source::new(format!("{kind}"), text);
    Layer::load(kind, trust, source, base, &|_| Err("no file is read here".to_owned()))
}

/// The layers of trusted documents, where each is valid by itself.
fn trusted(documents: &[(LayerKind, &Value)]) -> Option<Vec<Layer>> {
    let mut layers = Vec::new();
    for (kind, document) in documents {
        layers.extend(load(*kind, Trust::Full, &document.to_string()).ok()?);
    }
    Some(layers)
}

fn request(command: &[&str]) -> Request {
    Request {
        command: command.iter().map(Into::into).collect(),
        workspace: AbsPath::new("/home/me/project").unwrap(),
        directory: AbsPath::new("/home/me/project").unwrap(),
        terminal: false,
        surroundings: Surroundings { home: AbsPath::new("/home/me").ok(), ..Surroundings::default() },
    }
}

/// Asserts that `new` permits nothing that `old` does not, in the policy and in the plan that it makes.
fn assert_narrower(new: &Settled, old: &Settled) -> Result<(), TestCaseError> {
    if let Err(what) = compare::policies(&new.policy, &old.policy) {
        return Err(TestCaseError::fail(what));
    }
    for command in [&["true"][..], &["cargo", "build"], &["npm", "ci"]] {
        let request = request(command);
        let plans = (plan(&request, new, LimitsMode::Auto), plan(&request, old, LimitsMode::Auto));
        if let (Ok(new), Ok(old)) = plans
            && let Err(what) = compare::plans(&new, &old)
        {
            return Err(TestCaseError::fail(what));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_policy_that_was_found_never_permits_more(
        machine in random::document(2), (user, found) in random::pair(),
    ) {
        let Some(mut layers) = trusted(&[(LayerKind::Machine, &machine), (LayerKind::User, &user)]) else { return Ok(()) };
        let Ok(old) = settle(&layers) else { return Ok(()) };
        let Ok(added) = load(LayerKind::Workspace, Trust::NarrowOnly, &found.to_string()) else { return Ok(()) };
        layers.extend(added);
        if let Ok(new) = settle(&layers) {
            assert_narrower(&new, &old)?;
        }
    }

    #[test]
    fn what_is_locked_is_never_widened((user, file) in random::pair()) {
        let mut user = user;
        user["lock"] = serde_json::json!(["sandbox", "fs", "net", "proc", "security", "env", "tools", "requirements"]);
        let Some(mut layers) = trusted(&[(LayerKind::User, &user)]) else { return Ok(()) };
        let Ok(old) = settle(&layers) else { return Ok(()) };
        let Some(lower) = trusted(&[(LayerKind::File, &file)]) else { return Ok(()) };
        layers.extend(lower);
        match settle(&layers) {
            Ok(new) => assert_narrower(&new, &old)?,
            Err(problems) => {
                for problem in problems.iter() {
                    prop_assert_eq!(problem.code, Code::Widens);
                    let named = problem.message.contains("policy file") && problem.message.contains("user policy");
                    prop_assert!(named, "both layers are named: {}", problem);
                }
            }
        }
    }

    #[test]
    fn one_locked_key_leaves_the_others_free(memory in 1u64..2000, locked in 1u64..2000, time in 1u64..100_000) {
        let user = serde_json::json!({"lock": ["proc.maxMemoryMB"], "proc": {"maxMemoryMB": locked}});
        let file = serde_json::json!({"proc": {"maxMemoryMB": memory, "timeoutMs": time}});
        let layers = trusted(&[(LayerKind::User, &user), (LayerKind::File, &file)]).unwrap();
        match settle(&layers) {
            Ok(settled) => {
                prop_assert!(memory <= locked);
                prop_assert_eq!(settled.policy.proc.max_memory_mb.value.get(), memory);
                prop_assert_eq!(settled.policy.proc.timeout_ms.value.get(), time);
            }
            Err(_) => prop_assert!(memory > locked),
        }
    }

    #[test]
    fn the_order_in_which_layers_are_given_does_not_matter(
        machine in random::document(4), user in random::document(4), file in random::document(4),
        order in Just(vec![0usize, 1, 2]).prop_shuffle(),
    ) {
        let documents = [(LayerKind::Machine, &machine), (LayerKind::User, &user), (LayerKind::File, &file)];
        let shuffled: Vec<_> = order.iter().map(|i| documents[*i]).collect();
        let (Some(layers), Some(shuffled)) = (trusted(&documents), trusted(&shuffled)) else { return Ok(()) };
        let shown = |settled: Result<Settled, Problems>| {
            settled.map(|settled| settled.policy.rows()).map_err(|problems| problems.to_string())
        };
        prop_assert_eq!(shown(settle(&layers)), shown(settle(&shuffled)));
        prop_assert_eq!(shown(settle(&layers)), shown(settle(&layers)));
    }

    #[test]
    fn nothing_that_is_found_opens_what_is_shut(found in random::document(6)) {
        let layers = load(LayerKind::User, Trust::Full, SHUT).unwrap();
        let Ok(added) = load(LayerKind::Workspace, Trust::NarrowOnly, &found.to_string()) else { return Ok(()) };
        let Ok(settled) = settle(&[layers, added].concat()) else { return Ok(()) };
        let Ok(plan) = plan(&request(&["cargo", "build"]), &settled, LimitsMode::Auto) else { return Ok(()) };
        prop_assert!(!plan.network.enabled && plan.network.allow.is_empty());
        prop_assert!(plan.files.read.is_empty() && plan.files.write.is_empty());
        prop_assert!(plan.files.zones.iter().all(|zone| zone.host().is_none()));
        prop_assert!(plan.environment.pass.is_empty());
        prop_assert!(plan.limits.max_memory_mb.value <= 64 && plan.limits.max_processes.value <= 1);
    }

    #[test]
    fn text_of_any_kind_is_read_or_refused_with_a_place(text in "\\PC{0,200}|[ \\t\\n:\\-{}\\[\\],&*!|>'\"#%@`a\u{feff}\u{85}\u{2028}]{0,200}") {
        if let Err(problems) = load(LayerKind::Workspace, Trust::NarrowOnly, &text) {
            prop_assert!(!problems.is_empty());
            for problem in problems.iter() {
                prop_assert!(problem.place().is_some_and(|place| place.line >= 1 && place.column >= 1));
            }
            prop_assert!(problems.to_string().chars().all(|c| c == '\n' || !pinfold_core::text::is_hidden(c)));
        }
    }
}

/// Nothing of the host, nothing of the network.
const SHUT: &str = "\
extends: strict
fs: {workspace: none, reads: minimal}
net: {enabled: false}
";

/// How often random documents settle, so that the properties above say something.
#[test]
fn random_documents_settle_often_enough() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut settled = 0;
    for _ in 0..500 {
        let mut next = |keys| random::document(keys).new_tree(&mut runner).unwrap().current();
        let (user, found) = (next(8), next(4));
        let Some(mut layers) = trusted(&[(LayerKind::User, &user)]) else { continue };
        let Ok(added) = load(LayerKind::Workspace, Trust::NarrowOnly, &found.to_string()) else { continue };
        layers.extend(added);
        settled += usize::from(settle(&layers).is_ok());
    }
    assert!(settled > 50, "{settled} of 500");
}

/// Where values are few, every pair of them: what narrows passes, and nothing else does.
#[test]
fn every_pair_of_names_is_judged() {
    for (section, key, names) in [
        ("sandbox", "isolationLevel", &["none", "process", "container", "vm", "wasm"][..]),
        ("fs", "workspace", &["none", "ro", "rw"]),
        ("fs", "reads", &["minimal", "system", "toolchains"]),
        ("proc", "onOutputLimit", &["kill", "truncate"]),
        ("security", "seccompProfile", &["default", "strict", "debug", "./a.txt", "./b.txt"]),
        ("sandbox", "image", &["pinfold/base", "other/base"]),
    ] {
        for (old_name, new_name) in names.iter().flat_map(|old| names.iter().map(move |new| (old, new))) {
            let document = |name: &str| format!("{section}: {{{key}: {name}}}");
            let stated =
                |name| settle(&load(LayerKind::User, Trust::Full, &document(name)).unwrap()).unwrap();
            let narrower = compare::policies(&stated(new_name).policy, &stated(old_name).policy).is_ok();
            let user = load(LayerKind::User, Trust::Full, &document(old_name)).unwrap();
            let found = load(LayerKind::Workspace, Trust::NarrowOnly, &document(new_name)).unwrap();
            let passes = settle(&[user, found].concat()).is_ok();
            assert_eq!(passes, narrower, "{section}.{key}: {old_name}, then {new_name}");
        }
    }
}

/// The first problem's code; a document that is not refused has none.
fn code(text: &str) -> Option<Code> {
    load(LayerKind::Workspace, Trust::NarrowOnly, text)
        .err()
        .and_then(|problems| problems.iter().next().map(|p| p.code))
}

#[test]
fn large_documents_are_refused_before_they_are_read() {
    assert_eq!(code(&"a".repeat(10 << 20)), Some(Code::Unreadable));
    assert_eq!(code(&"fs: {deny: [a]}\n".repeat(700_000)), Some(Code::Unreadable));
    assert_eq!(code(&"#".repeat((4 << 20) - 1)), None);
    assert_eq!(code(&"\u{2028}".repeat(1 << 20)), Some(Code::WrongType));
}

#[test]
fn a_document_full_of_one_thing_is_read_or_refused() {
    let much = 4 << 20;
    for thing in [
        "{", "[", "- ", "? ", "a:\n", "a: ", "\"", "'", "|\n", "&a ", "*a ", "!!x ", "%\n", "---\n", "\t",
        "\r", ",", "k: v\n",
    ] {
        let text = thing.repeat(much / thing.len());
        assert!(code(&text).is_some() || thing == "\r" || thing == "\t", "{thing:?}");
    }
    let keys: String = (0..200_000).map(|i| format!("k{i}: 1\n")).collect();
    assert_eq!(code(&keys), Some(Code::UnknownKey));
    let deep: String = (0..1000).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    assert_eq!(code(&deep), Some(Code::Unreadable));
}

/// Lists as long as a document can hold: what is done with them must not grow with the square of their length.
#[test]
fn long_lists_are_settled() {
    let list =
        |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
    let many = 40_000;
    for text in [
        format!("fs: {{deny: [{}]}}", list(many, &|i| format!("f{i}/**"))),
        format!("net: {{blocklist: [{}]}}", list(many, &|i| format!("h{i}.example"))),
        format!(
            "tools: {{deny: [{}], allow: [{}]}}",
            list(many, &|i| format!("t{i}")),
            list(many, &|i| format!("u{i}"))
        ),
        format!("sandbox: {{zones: [{}]}}", list(many, &|i| format!("{{name: z{i},mode: tmpfs}}"))),
        format!("env: {{set: {{{}}}}}", list(many, &|i| format!("V{i}: v"))),
        format!("tools: {{commands: {{deny: [{}]}}}}", list(many, &|i| format!("c{i}"))),
    ] {
        let layers = load(LayerKind::Workspace, Trust::NarrowOnly, &text);
        if let Err(problems) = layers.and_then(|layers| settle(&layers)) {
            panic!("{problems}");
        }
    }
    let locks = format!("lock: [{}]", list(many, &|i| format!("x{i}")));
    let problems = load(LayerKind::Workspace, Trust::NarrowOnly, &locks).unwrap_err();
    assert!(problems.len() <= 50 && problems.to_string().len() < 50_000);
    let both = format!(
        "net: {{enabled: true, allowlist: [{0}], blocklist: [{0}]}}",
        list(many / 2, &|i| format!("h{i}.example"))
    );
    assert!(load(LayerKind::Workspace, Trust::NarrowOnly, &both).unwrap_err().len() <= 50);
}

/// Braces multiply: a pattern of thirty bytes stands for sixty-four.
#[test]
fn braces_cannot_make_a_small_document_large() {
    let pattern = "\"{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}\",";
    let text = format!("fs: {{deny: [{}]}}", pattern.repeat(100_000));
    assert_eq!(code(&text), Some(Code::Unreadable));
    let text = format!("fs: {{deny: [{}]}}", pattern.repeat(100));
    assert_eq!(code(&text), None);
    let rules: String = (0..10_000).map(|i| format!("\"**/f{i}.{{pem,key}}\",")).collect();
    assert_eq!(code(&format!("fs: {{deny: [{rules}]}}")), None);
}

#[test]
fn encodings_make_no_difference() {
    let memory = |text: &str| {
        let settled = settle(&load(LayerKind::File, Trust::Full, text).unwrap()).unwrap();
        settled.policy.proc.max_memory_mb.value.get()
    };
    assert_eq!(memory("\u{feff}proc: {maxMemoryMB: 7}\n"), 7);
    assert_eq!(memory("proc:\r\n  maxMemoryMB: 7\r\n"), 7);
    assert_eq!(memory("proc:\r  maxMemoryMB: 7\r"), 7);
    // Neither ends a line: what looks like a second line is part of the first.
    assert_eq!(memory("proc: {maxMemoryMB: 7} #\u{85}proc: {maxMemoryMB: 8}"), 7);
    assert_eq!(memory("proc: {maxMemoryMB: 7} #\u{2028}proc: {maxMemoryMB: 8}"), 7);
    assert!(code("proc: {maxMemoryMB: 7}\u{85}net: {enabled: true}\n").is_some());
    assert_eq!(code("proc: {max\u{200b}MemoryMB: 7}\n"), Some(Code::UnknownKey));
    assert_eq!(code("proc: {mахMemoryMB: 7}\n"), Some(Code::UnknownKey), "Cyrillic letters");
}
