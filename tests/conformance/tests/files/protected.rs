//! Protected names (classes 8, 9, 10, 21): what the host would later execute or obey can neither be changed
//! where it exists nor made where it does not, by any call that gives a name a content.

use pinfold_conformance::{Answer, Off, Place, case, denials, each};

/// Files and directories of the root of a workspace, as the catalogue names them, and some that are easily
/// forgotten.
const FILES: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".gitconfig",
    ".gitmodules",
    ".mcp.json",
    ".envrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pre-commit-config.yaml",
    "mise.toml",
    "lefthook.yml",
    "sandbox.policy.yaml",
];
const DIRECTORIES: &[&str] =
    &[".vscode", ".idea", ".claude", ".codex", ".cursor", ".husky", ".cargo", ".devcontainer"];

/// Every way to change `name`, which exists.
fn changes(name: &str) -> Vec<Vec<String>> {
    let path = format!("/workspace/{name}");
    let own = "/workspace/own".to_owned();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    vec![
        words(&["write", &path, "x"]),
        words(&["append", &path, "x"]),
        words(&["write-path", &path, "x"]),
        words(&["truncate", &path]),
        words(&["unlink", &path]),
        words(&["rmdir", &path]),
        words(&["rename", &path, &own]),
        words(&["rename", "/workspace/control", &path]),
        words(&["exchange", "/workspace/control", &path]),
        words(&["replace", &path, &own, "x"]),
        words(&["link", "/workspace/control", &path]),
        words(&["link", &path, &own]),
        words(&["tmpfile-link", "/workspace", &path, "x"]),
        words(&["symlink", "/workspace/control", &path]),
        words(&["chmod", &path, "777"]),
        words(&["set-times", &path]),
        words(&["set-flags", &path]),
    ]
}

/// Every way to make `name`, which does not exist.
fn makings(name: &str) -> Vec<Vec<String>> {
    let path = format!("/workspace/{name}");
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    vec![
        words(&["create", &path, "x"]),
        words(&["create-or-write", &path, "x"]),
        words(&["mkdir", &path]),
        words(&["symlink", "/workspace/control", &path]),
        words(&["symlink", "/etc", &path]),
        words(&["link", "/workspace/control", &path]),
        words(&["link-path", "/workspace/control", &path]),
        words(&["tmpfile-link", "/workspace", &path, "x"]),
        words(&["rename", "/workspace/control", &path]),
        words(&["exchange", "/workspace/control", &path]),
        words(&["fifo", &path]),
        words(&["mknod-mode", &path, "644"]),
        words(&["own-unix", &path]),
    ]
}

/// Tries all of `attempts` in one sandbox; gives those that were not refused.
fn tried(place: &Place, attempts: &[Vec<String>], without: &[&str]) -> Vec<String> {
    let mut all: Vec<&[String]> = attempts.iter().map(Vec::as_slice).collect();
    let control = ["write", "/workspace/control", "written"].map(str::to_owned);
    all.push(&control);
    let run = place.run().without(without).options(["--fds", "1024", "--processes", "64"]);
    let (answers, done) = run.attempt(&all);
    let (answer, control): (&[Answer], &Answer) = (&answers[..attempts.len()], &answers[attempts.len()]);
    assert!(without.is_empty() || control.is_ok() || answer.iter().any(Answer::is_ok));
    assert!(!without.is_empty() || control.is_ok(), "the control was {control}: {done:?}");
    answer
        .iter()
        .zip(attempts)
        .filter(|(answer, _)| answer.is_ok())
        .map(|(_, words)| words.join(" "))
        .collect()
}

#[test]
fn existing_names_cannot_be_changed() {
    each(case!("existing"), |place| {
        for name in FILES {
            // An empty policy is a policy.
            place.write(
                format!("workspace/{name}"),
                if name.ends_with("policy.yaml") { "version: 1\n" } else { "was\n" },
            );
        }
        let canaries: Vec<_> =
            FILES.iter().map(|name| pinfold_conformance::Canary::of(place.workspace(name))).collect();
        for name in FILES {
            let open = tried(place, &changes(name), &[]);
            assert!(open.is_empty(), "{name} was changed by {open:?}");
        }
        canaries.iter().for_each(pinfold_conformance::Canary::assert_unchanged);
    });
}

#[test]
fn what_is_in_existing_directories_cannot_be_changed() {
    each(case!("directories"), |place| {
        for name in DIRECTORIES {
            place.write(format!("workspace/{name}/settings"), "was\n");
        }
        for name in DIRECTORIES {
            let mut attempts = changes(&format!("{name}/settings"));
            attempts.extend(makings(&format!("{name}/new")));
            let path = format!("/workspace/{name}");
            attempts.push(vec!["rename".to_owned(), path.clone(), "/workspace/moved".to_owned()]);
            attempts.push(vec!["exchange".to_owned(), path, "/workspace/control".to_owned()]);
            let open = tried(place, &attempts, &[]);
            assert!(open.is_empty(), "{name} was changed by {open:?}");
            assert_eq!(place.read(format!("workspace/{name}/settings")), "was\n");
        }
    });
}

#[test]
fn absent_names_cannot_be_made() {
    each(case!("absent"), |place| {
        for name in FILES.iter().chain(DIRECTORIES).chain(&[".config/fish", ".config"]) {
            let open = tried(place, &makings(name), &[]);
            assert!(open.is_empty(), "{name} was made by {open:?}");
            assert!(!place.exists(format!("workspace/{name}")), "{name} is there after the run");
        }
        let left: Vec<_> = std::fs::read_dir(place.path("workspace")).expect("read").flatten().collect();
        assert_eq!(left.len(), 1, "something is left: {left:?}");
    });
}

/// Without the protection every one of them can be made, so the cases above would fail without it.
#[test]
fn without_protection_names_are_made_and_changed() {
    each(case!("off"), |place| {
        for name in [".bashrc", ".vscode", ".mcp.json"] {
            let answer =
                place.run().without(&["protect"]).probe(&["create", &format!("/workspace/{name}"), "x"]);
            // The placeholder itself is there, uncovered: it is in the way of a plain creation, not of a
            // replacement.
            let replaced = || {
                let path = format!("/workspace/{name}");
                place.run().without(&["protect"]).probe(&["replace", &path, "/workspace/own", "x"])
            };
            assert!(answer.is_ok() || replaced().is_ok(), "{name}: still {answer}");
        }
        place.write("workspace/.envrc", "was");
        assert!(place.run().without(&["protect"]).probe(&["write", "/workspace/.envrc", "x"]).is_ok());
        assert_eq!(place.read("workspace/.envrc"), "x");
    });
}

denials! {
    /// A directory of protected things is moved away as a whole, to be made anew.
    moving_a_parent {
        attempt: &["rename", "/workspace/.config", "/workspace/moved"], refused: &["EBUSY", "EROFS", "EXDEV"],
        setup: |place| {
            place.write("workspace/.config/fish/config.fish", "was");
            Vec::new()
        },
        off: Off::Succeeds(&["protect"]),
    }
    what_the_policy_adds {
        attempt: &["write", "/workspace/deploy/run.sh", "x"], refused: &["EROFS", "EACCES"],
        options: &["--set", "fs.protect=[\"deploy/*.sh\"]"],
        setup: |place| {
            place.script("workspace/deploy/run.sh", "was");
            Vec::new()
        },
        off: Off::Succeeds(&["protect"]),
    }
    what_the_policy_adds_and_is_absent {
        attempt: &["replace", "/workspace/deploy.sh", "/workspace/own", "x"],
        refused: &["EBUSY", "EROFS", "EACCES"], options: &["--set", "fs.protect=[\"deploy.sh\"]"],
        off: Off::Succeeds(&["protect"]),
    }
}

/// Protected names are those of the workspace's root: elsewhere they are ordinary, or nothing could be
/// unpacked.
#[test]
fn the_same_names_elsewhere_are_ordinary() {
    each(case!("elsewhere"), |place| {
        place.mkdir("workspace/package");
        let (answers, _) = place.run().attempt(&[
            &["create", "/workspace/package/.bashrc", "x"],
            &["mkdir", "/workspace/package/.vscode"],
            &["create", "/tmp/.bashrc", "x"],
            &["create", "/scratch/home/.bashrc", "x"],
        ]);
        assert!(answers.iter().all(Answer::is_ok), "{answers:?}");
    });
}
