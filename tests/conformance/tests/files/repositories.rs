//! Repositories (classes 5, 6, 10): hooks and configuration are held in every one, nested, submodule,
//! worktree, or known by a `.git` file; objects can be written, so that git works.

use pinfold_conformance::{Answer, Place, case, each};

/// Makes a repository with one commit on the host.
fn repository(place: &Place, name: &str) {
    place.mkdir(format!("workspace/{name}"));
    place.write(format!("workspace/{name}/file"), "text\n");
    let path = place.workspace(name).display().to_string();
    git(place, &["-C", &path, "init", "-q", "."]);
    git(place, &["-C", &path, "add", "."]);
    git(place, &["-C", &path, "commit", "-qm", "first"]);
}

/// git on the host, with an author.
fn git(place: &Place, arguments: &[&str]) -> String {
    let mut all =
        vec!["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always"];
    all.extend(arguments);
    place.host_output("git", &all)
}

/// Every way to make the host run something from the git directory `git` (as seen inside).
fn attacks(git: &str) -> Vec<Vec<String>> {
    let at = |words: &[&str]| words.iter().map(|word| word.replace("{git}", git)).collect::<Vec<String>>();
    vec![
        at(&["create", "{git}/hooks/pre-commit", "x"]),
        at(&["create-or-write", "{git}/hooks/post-checkout", "x"]),
        at(&["mkdir", "{git}/hooks/new"]),
        at(&["rename", "{git}/hooks", "{git}/hooks.old"]),
        at(&["exchange", "{git}/hooks", "{git}/objects"]),
        at(&["write", "{git}/config", "[core]\n\tfsmonitor = x\n"]),
        at(&["append", "{git}/config", "[core]\n\tfsmonitor = x\n"]),
        at(&["replace", "{git}/config", "{git}/own", "x"]),
        at(&["exchange", "{git}/config", "{git}/HEAD"]),
        at(&["link", "{git}/HEAD", "{git}/config"]),
        at(&["tmpfile-link", "{git}", "{git}/config", "x"]),
        at(&["unlink", "{git}/config"]),
        at(&["create", "{git}/config.worktree", "x"]),
        at(&["replace", "{git}/config.worktree", "{git}/own", "x"]),
        at(&["create-or-write", "{git}/info/attributes", "* filter=x"]),
        at(&["replace", "{git}/info/attributes", "{git}/own", "x"]),
        at(&["rename", "{git}/info", "{git}/info.old"]),
        at(&["create-or-write", "{git}/objects/info/alternates", "/"]),
        at(&["create-or-write", "{git}/commondir", "/tmp"]),
        at(&["rename", "{git}", "{git}.old"]),
    ]
}

/// Tries all of `attacks` in one sandbox; every one must be refused, and objects be writable.
fn hold(place: &Place, git: &str) {
    let mut attempts = attacks(git);
    let count = attempts.len();
    attempts.push(vec!["create".to_owned(), format!("{git}/objects/planted"), "x".to_owned()]);
    let words: Vec<&[String]> = attempts.iter().map(Vec::as_slice).collect();
    let (answers, _) = place.run().options(["--processes", "64"]).attempt(&words);
    let open: Vec<String> = answers[..count]
        .iter()
        .zip(&attempts)
        .filter(|(answer, _)| answer.is_ok())
        .map(|(_, words)| words.join(" "))
        .collect();
    assert!(open.is_empty(), "{git}: not refused: {open:?}");
    assert!(answers[count].is_ok(), "{git}: objects cannot be written: {}", answers[count]);
}

#[test]
fn of_the_workspace_itself() {
    each(case!("root"), |place| {
        repository(place, "");
        hold(place, "/workspace/.git");
        let off: &[&str] = &["create-or-write", "/workspace/.git/hooks/pre-commit", "x"];
        assert!(place.run().without(&["protect"]).probe(off).is_ok(), "the defence is not what holds it");
    });
}

#[test]
fn nested() {
    each(case!("nested"), |place| {
        repository(place, "sub/project");
        hold(place, "/workspace/sub/project/.git");
        // Its parent is moved away, to be made anew with other hooks.
        let (answers, _) = place.run().attempt(&[
            &["rename", "/workspace/sub", "/workspace/moved"],
            &["rename", "/workspace/sub/project", "/workspace/sub/moved"],
            &["create", "/workspace/sub/project/.envrc", "x"],
            &["create", "/workspace/sub/other", "x"],
        ]);
        assert!(!answers[..3].iter().any(Answer::is_ok), "{answers:?}");
        assert!(answers[3].is_ok(), "{answers:?}");
        let (answers, _) =
            place.run().without(&["protect"]).attempt(&[&["rename", "/workspace/sub", "/workspace/moved"]]);
        assert!(answers[0].is_ok(), "the defence is not what holds it: {}", answers[0]);
    });
}

/// Deeper than start-up looks: what was planted is taken away at the end, and the next start knows the
/// repository.
#[test]
fn nested_deeply() {
    each(case!("deep"), |place| {
        let deep = "a/b/c/d/e/project";
        repository(place, deep);
        let git = format!("/workspace/{deep}/.git");
        let hook = format!("{git}/hooks/pre-commit");
        let (answers, done) = place.run().attempt(&[
            &["create", &hook, "#!/bin/sh\n"],
            &["append", &format!("{git}/config"), "[core]\n\tfsmonitor = /workspace/payload\n"],
        ]);
        assert!(
            !place.exists(format!("workspace/{deep}/.git/hooks/pre-commit")),
            "left for the host: {answers:?}"
        );
        let config = place.read(format!("workspace/{deep}/.git/config"));
        assert!(!config.contains("fsmonitor"), "left for the host: {config}");
        assert!(
            answers.iter().all(|answer| !answer.is_ok()) || !done.violations("files.protected").is_empty(),
            "{done:?}"
        );
        assert!(place.workspace(deep).join(".git/HEAD").exists());
        hold(place, &git);
    });
}

#[test]
fn submodules() {
    each(case!("submodule"), |place| {
        repository(place, "library");
        repository(place, "project");
        let (library, project) = (place.workspace("library"), place.workspace("project"));
        let (library, project) = (library.display().to_string(), project.display().to_string());
        git(place, &["-C", &project, "submodule", "--quiet", "add", &library, "sub"]);
        hold(place, "/workspace/project/.git/modules/sub");
        let (answers, _) = place.run().attempt(&[
            &["write", "/workspace/project/sub/.git", "gitdir: /workspace/evil"],
            &["replace", "/workspace/project/sub/.git", "/workspace/project/own", "gitdir: /workspace/evil"],
            &["rename", "/workspace/project/sub", "/workspace/project/moved"],
            &["create", "/workspace/project/sub/new", "x"],
        ]);
        assert!(!answers[..3].iter().any(Answer::is_ok), "{answers:?}");
        assert!(answers[3].is_ok(), "{answers:?}");
    });
}

#[test]
fn worktrees() {
    each(case!("worktree"), |place| {
        repository(place, "project");
        let (project, tree) = (place.workspace("project"), place.workspace("tree"));
        git(
            place,
            &["-C", &project.display().to_string(), "worktree", "add", "-q", &tree.display().to_string()],
        );
        hold(place, "/workspace/project/.git");
        let private = "/workspace/project/.git/worktrees/tree";
        let (answers, _) = place.run().attempt(&[
            &["write", "/workspace/tree/.git", "gitdir: /workspace/evil"],
            &["replace", "/workspace/tree/.git", "/workspace/own", "x"],
            &["write", &format!("{private}/commondir"), "/workspace/evil"],
            &["replace", &format!("{private}/commondir"), "/workspace/own", "x"],
            &["create-or-write", &format!("{private}/config.worktree"), "[core]\n\tfsmonitor = x\n"],
            &["create", "/workspace/tree/.envrc", "x"],
            &["create", "/workspace/tree/new", "x"],
        ]);
        assert!(!answers[..6].iter().any(Answer::is_ok), "{answers:?}");
        assert!(answers[6].is_ok(), "{answers:?}");
    });
}

/// A `.git` file that leads to a git directory elsewhere in the workspace.
#[test]
fn known_by_a_git_file() {
    each(case!("git-file"), |place| {
        repository(place, "project");
        std::fs::rename(place.workspace("project/.git"), place.workspace("store"))
            .expect("move the git directory");
        place.write("workspace/project/.git", "gitdir: ../store\n");
        git(place, &["-C", &place.workspace("project").display().to_string(), "status"]);
        hold(place, "/workspace/store");
        let (answers, _) = place.run().attempt(&[
            &["write", "/workspace/project/.git", "gitdir: /workspace/evil"],
            &["unlink", "/workspace/project/.git"],
        ]);
        assert!(!answers.iter().any(Answer::is_ok), "{answers:?}");
    });
}

#[test]
fn bare() {
    each(case!("bare"), |place| {
        let path = place.workspace("store.git").display().to_string();
        git(place, &["init", "-q", "--bare", &path]);
        hold(place, "/workspace/store.git");
    });
}

/// Where the configuration already points elsewhere, what it points to is held too.
#[test]
fn hooks_kept_elsewhere() {
    each(case!("hooks-path"), |place| {
        repository(place, "");
        place.script("workspace/tools/hooks/pre-commit", "#!/bin/sh\n");
        git(place, &["config", "core.hooksPath", "tools/hooks"]);
        let (answers, _) = place.run().attempt(&[
            &["write", "/workspace/tools/hooks/pre-commit", "x"],
            &["create", "/workspace/tools/hooks/post-commit", "x"],
            &["rename", "/workspace/tools/hooks", "/workspace/tools/old"],
            &["rename", "/workspace/tools", "/workspace/old"],
            &["create", "/workspace/tools/other", "x"],
        ]);
        assert!(!answers[..4].iter().any(Answer::is_ok), "{answers:?}");
        assert!(answers[4].is_ok(), "{answers:?}");
    });
}
