//! The policy commands as a newcomer and an attacker use them: the real binary in a directory of its own.

mod place;

use place::{Place, stderr, stdout};

#[test]
fn a_newcomer_writes_a_policy_makes_a_mistake_and_mends_it() {
    let place = Place::new();
    place.write("project/Cargo.toml", "[package]\n");
    let init = place.run(&["policy", "init"]);
    assert!(init.status.success(), "{}", stderr(&init));
    assert!(place.read("project/sandbox.policy.yaml").contains("extends: dev"));
    assert!(place.read("project/.pinfold/policy.schema.json").contains("maxMemoryMB"));
    assert!(place.run(&["policy", "check"]).status.success());

    let text = place.read("project/sandbox.policy.yaml") + "proc:\n  maxMemoryMb: 2048\n";
    place.write("project/sandbox.policy.yaml", &text);
    let check = place.run(&["policy", "check"]);
    assert_eq!(check.status.code(), Some(125));
    let said = stderr(&check);
    let line = text.lines().count();
    assert!(said.contains(&format!("sandbox.policy.yaml:{line}:3")), "{said}");
    assert!(said.contains("  maxMemoryMb: 2048") && said.contains("did you mean `maxMemoryMB`?"), "{said}");

    place.write("project/sandbox.policy.yaml", &text.replace("Mb", "MB"));
    assert!(place.run(&["policy", "check"]).status.success());
    let explain = place.run(&["explain", "--", "true"]);
    assert_eq!(explain.status.code(), Some(125), "changed content is no longer trusted");
    assert!(stderr(&explain).contains("pinfold policy trust sandbox.policy.yaml"));
    assert!(place.run(&["policy", "trust"]).status.success());
    let explain = place.run(&["explain", "--", "true"]);
    let line = line.to_string();
    let memory =
        stdout(&explain).lines().find(|line| line.contains("memory  ")).unwrap_or_default().to_owned();
    assert!(
        memory.contains("2048 MB") && memory.contains(&format!("sandbox.policy.yaml:{line}:3")),
        "{memory}"
    );
}

#[test]
fn init_asks_nobody_who_is_not_there_and_overwrites_nothing() {
    let place = Place::new();
    assert!(place.run(&["policy", "init", "--profile", "strict"]).status.success());
    let before = place.read("project/sandbox.policy.yaml");
    assert!(before.contains("extends: strict"));
    let again = place.run(&["policy", "init", "--profile", "dev"]);
    assert_eq!(again.status.code(), Some(125));
    assert!(stderr(&again).contains("--force"));
    assert_eq!(place.read("project/sandbox.policy.yaml"), before);
    assert_eq!(place.run(&["policy", "init", "--profile", "nope"]).status.code(), Some(125));
    assert!(place.run(&["policy", "init", "--profile", "dev", "--force"]).status.success());
}

#[test]
fn a_policy_found_in_the_workspace_only_narrows_until_trusted() {
    let place = Place::new();
    place.write("project/sandbox.policy.yaml", "net: {enabled: true, allowlist: [evil.example]}\n");
    let refused = place.run(&["explain", "--json", "--", "true"]);
    assert_eq!(refused.status.code(), Some(125));
    let error = place::json(&refused);
    assert_eq!(error["error"]["code"], "PF-POLICY-008");
    assert_eq!(error["error"]["details"]["problems"][0]["line"], 1);

    place.write("project/sandbox.policy.yaml", "proc: {maxMemoryMB: 32}\nfs: {workspace: ro}\n");
    let narrowed = place::json(&place.run(&["explain", "--json", "--", "true"]));
    assert_eq!(narrowed["plan"]["limits"]["maxMemoryMB"]["value"], 32);
    assert_eq!(narrowed["plan"]["files"]["zones"][0]["host"]["access"], "ro");

    place.write("project/sandbox.policy.yaml", "proc: {maxMemoryMB: 4096}\n");
    assert!(place.run(&["policy", "trust"]).status.success());
    let trusted = place::json(&place.run(&["explain", "--json", "--", "true"]));
    assert_eq!(trusted["plan"]["limits"]["maxMemoryMB"]["value"], 4096);
    assert!(place.run(&["policy", "trust", "--revoke"]).status.success());
    assert_eq!(place.run(&["explain", "--", "true"]).status.code(), Some(125));
}

#[test]
fn trust_covers_what_a_policy_extends() {
    let place = Place::new();
    place.write("project/base.yaml", "proc: {maxMemoryMB: 512}\n");
    place.write("project/sandbox.policy.yaml", "extends: ./base.yaml\n");
    assert!(place.run(&["policy", "trust"]).status.success());
    assert!(place.run(&["explain", "--", "true"]).status.success());
    place.write("project/base.yaml", "proc: {maxMemoryMB: 5120}\n");
    assert_eq!(place.run(&["explain", "--", "true"]).status.code(), Some(125), "the base has changed");
}

#[test]
fn a_found_policy_cannot_have_other_files_shown() {
    let place = Place::new();
    place.write("home/secret.yaml", "canary-in-a-secret: 1\n");
    let secret = place.path("home/secret.yaml");
    std::os::unix::fs::symlink(&secret, place.path("project/link.yaml")).unwrap();
    for target in [secret.to_str().unwrap(), "../home/secret.yaml", "./link.yaml"] {
        place.write("project/sandbox.policy.yaml", &format!("extends: {target}\n"));
        let refused = place.run(&["explain", "--", "true"]);
        assert_eq!(refused.status.code(), Some(125));
        let said = stderr(&refused);
        assert!(said.contains("PF-POLICY-010") && !said.contains("canary-in-a-secret"), "{said}");
    }
    let named = place.run(&["explain", "-p", secret.to_str().unwrap(), "--", "true"]);
    assert!(stderr(&named).contains("canary-in-a-secret"), "a file that the user named is shown");
}

#[test]
fn trust_does_not_travel_with_a_copy() {
    let place = Place::new();
    place.write("project/sandbox.policy.yaml", "proc: {maxMemoryMB: 4096}\n");
    assert!(place.run(&["policy", "trust"]).status.success());
    place.write("elsewhere/sandbox.policy.yaml", "proc: {maxMemoryMB: 4096}\n");
    let elsewhere = place.path("elsewhere");
    let copied = place.run(&["explain", "--workspace", elsewhere.to_str().unwrap(), "--", "true"]);
    assert_eq!(copied.status.code(), Some(125));
}

#[test]
fn a_machine_lock_holds_against_every_layer_below() {
    let place = Place::new();
    place.write("etc/policy.yaml", "lock: [net, proc.maxMemoryMB]\nproc: {maxMemoryMB: 128}\n");
    for attempt in [
        &["--net", "example.com"][..],
        &["--memory", "1G"],
        &["--profile", "dev"],
        &["--set", "net.enabled=true"],
    ] {
        let mut args = vec!["explain"];
        args.extend(attempt);
        args.extend(["--", "true"]);
        let refused = place.run(&args);
        assert_eq!(refused.status.code(), Some(125), "{attempt:?}");
        let said = stderr(&refused);
        assert!(said.contains("machine policy") && said.contains("policy.yaml:1:"), "{said}");
    }
    let narrowed = place.run(&["explain", "--memory", "64M", "--", "cargo", "build"]);
    assert!(stdout(&narrowed).contains("64 MB"), "{}", stderr(&narrowed));
    place.write("config/pinfold/policy.yaml", "net: {enabled: true}\n");
    let user = place.run(&["explain", "--", "true"]);
    assert!(stderr(&user).contains("the user policy widens `net.enabled`"), "{}", stderr(&user));
}

#[test]
fn a_machine_policy_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.write("etc/policy.yaml", "proc: {maxMemoryMB: 128}\n");
    std::fs::set_permissions(place.path("etc/policy.yaml"), std::fs::Permissions::from_mode(0o666)).unwrap();
    let refused = place.run(&["explain", "--", "true"]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(stderr(&refused).contains("PF-SOURCE-002"));
}

#[test]
fn a_hostile_policy_cannot_write_to_the_terminal() {
    let place = Place::new();
    let hostile = "proc:\n  \u{1b}]52;c;aGk=\u{7}max\u{202e}: 1\n\u{9b}31m: x\n";
    place.write("project/sandbox.policy.yaml", hostile);
    for args in [&["policy", "check"][..], &["explain", "--", "true"], &["policy", "trust"]] {
        let output = place.run(args);
        assert_eq!(output.status.code(), Some(125));
        let said = stdout(&output) + &stderr(&output);
        let odd = said.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
        assert_eq!(odd, None, "{said:?}");
    }
}

#[test]
fn odd_files_in_the_place_of_a_policy_are_named() {
    let place = Place::new();
    for (bytes, words) in
        [(&b"\xff\xfev\0"[..], "UTF-16"), (b"a: \xe9", "not UTF-8"), (b"a: &x [*x]", "anchors")]
    {
        std::fs::write(place.path("project/sandbox.policy.yaml"), bytes).unwrap();
        let refused = place.run(&["explain", "--", "true"]);
        assert_eq!(refused.status.code(), Some(125));
        assert!(stderr(&refused).contains(words), "{}", stderr(&refused));
    }
    std::fs::remove_file(place.path("project/sandbox.policy.yaml")).unwrap();
    std::fs::create_dir(place.path("project/sandbox.policy.yaml")).unwrap();
    assert!(stderr(&place.run(&["explain", "--", "true"])).contains("no regular file"));
}

#[test]
fn show_tells_where_each_value_came_from() {
    let place = Place::new();
    place.write("config/pinfold/policy.yaml", "fs:\n  deny: [a]\n");
    place.write("project/sandbox.policy.yaml", "fs:\n  deny: [b]\n");
    let shown = place::json(&place.run(&["policy", "show", "--json", "--deny", "c"]));
    let deny = &shown["keys"]["fs.deny"];
    assert_eq!(deny["value"], serde_json::json!(["a", "b", "c"]));
    let origins: Vec<&str> = deny["origins"].as_array().unwrap().iter().filter_map(|o| o.as_str()).collect();
    assert!(origins[0].ends_with("pinfold/policy.yaml:2:3"), "{origins:?}");
    assert!(origins[1].ends_with("sandbox.policy.yaml:2:3"), "{origins:?}");
    assert_eq!(origins[2], "option --deny c");
    let table = stdout(&place.run(&["policy", "show"]));
    assert!(table.contains("maxMemoryMB") && table.contains("profile default"), "{table}");
}

#[test]
fn the_schema_is_one_that_editors_take() {
    let place = Place::new();
    let schema = place::json(&place.run(&["policy", "schema"]));
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert!(schema["properties"]["sandbox"].is_object());
}
