//! The environment (class 25): only what the plan lists, nothing of the caller's, neither in the command's
//! variables nor in those of any process that can be seen.

use pinfold_conformance::{Place, case, each};

/// Variables that hold secrets, or that make programs do something else.
const SECRETS: &[(&str, &str)] = &[
    ("AWS_SECRET_ACCESS_KEY", "sentinel-aws"),
    ("GITHUB_TOKEN", "sentinel-github"),
    ("SSH_AUTH_SOCK", "/run/sentinel-agent"),
    ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/sentinel-bus"),
    ("DISPLAY", ":sentinel"),
    ("LD_PRELOAD", "/sentinel.so"),
    ("LD_LIBRARY_PATH", "/sentinel"),
    ("BASH_ENV", "/sentinel"),
    ("ENV", "/sentinel"),
    ("PYTHONSTARTUP", "/sentinel"),
    ("NODE_OPTIONS", "--require=/sentinel"),
    ("GIT_DIR", "/sentinel"),
    ("PINFOLD_WITHOUT_NOTHING", "sentinel"),
    ("HTTP_PROXY", "http://sentinel"),
];

fn environment(place: &Place, without: &[&str]) -> serde_json::Map<String, serde_json::Value> {
    let mut run = place.run().without(without);
    for (name, value) in SECRETS {
        run = run.variable(name, value);
    }
    run.probe(&["environment"]).value().as_object().expect("variables").clone()
}

#[test]
fn only_what_is_listed_is_set() {
    each(case!("listed"), |place| {
        let set = environment(place, &[]);
        let allowed = ["PATH", "HOME", "USER", "TMPDIR", "LANG", "PINFOLD"];
        for (name, value) in &set {
            let known = allowed.contains(&name.as_str())
                || name.starts_with("PINFOLD_ZONE_")
                || name.starts_with("GIT_");
            assert!(known && name != "GIT_DIR", "{name}={value} is set");
            assert!(!value.to_string().contains("sentinel"), "{name}={value} is the caller's");
        }
        assert_eq!(set["HOME"], "/scratch/home");
        assert_eq!(set["PINFOLD"], "1");
        assert_eq!(set["PINFOLD_ZONE_WORKSPACE"], "/workspace");
        let leaked = environment(place, &["environment"]);
        assert!(leaked.values().any(|value| value.to_string().contains("sentinel")), "nothing is held back");
    });
}

#[test]
fn no_process_inside_shows_it() {
    each(case!("processes"), |place| {
        let mut run = place.run();
        for (name, value) in SECRETS {
            run = run.variable(name, value);
        }
        let done = run
            .shell(
                "cat /proc/*/environ /proc/*/cmdline /proc/*/task/*/environ 2>/dev/null | tr \
            '\\0' '\\n'; true",
            )
            .ok();
        assert!(!done.stdout().contains("sentinel"), "{}", done.stdout());
        assert!(done.stdout().contains("PINFOLD=1"), "the control shows nothing either");
    });
}

#[test]
fn what_is_asked_for_is_passed() {
    each(case!("asked"), |place| {
        let run = place.run().variable("ASKED", "for").options(["--env", "ASKED", "--env", "SET=here"]);
        let set = run.probe(&["environment"]);
        assert_eq!((set.value()["ASKED"].as_str(), set.value()["SET"].as_str()), (Some("for"), Some("here")));
    });
}
