//! git as people use it, in a repository of the host and in one made inside.

use pinfold_conformance::{Place, case, each};

/// The caller's name and address, as git on the host knows them.
fn author(place: &Place) {
    place.write("home/.gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.org\n");
}

#[test]
fn init_add_commit_log_and_clone() {
    each(case!("inside"), |place| {
        author(place);
        let script = r"set -e
            git init -q project
            cd project
            echo text >file
            git add file
            git commit -qm first
            git log --format='%an %ae %s'
            echo more >>file
            git commit -qam second
            git diff HEAD~1 --stat
            git checkout -q -b other
            git tag v1
            git status --porcelain
            cd ..
            git clone -q project copy
            git -C copy fsck";
        let done = place.run().options(["--profile", "build"]).shell(script).ok();
        assert!(done.stdout().contains("Ada ada@example.org first"), "{}", done.stdout());
        assert_eq!(place.host_output("git", &["-C", "copy", "log", "--oneline"]).lines().count(), 2);
    });
}

#[test]
fn commit_in_a_repository_of_the_host() {
    each(case!("host"), |place| {
        author(place);
        place.host_output("git", &["init", "-q", "."]);
        place.host_output("git", &["add", "."]);
        place.host_output("git", &["commit", "-qm", "first"]);
        let script = r"set -e
            echo more >file
            git add file
            git commit -qm inside
            git stash list
            git branch side
            git merge -q side
            git rebase -q HEAD~1
            git gc -q
            git log --format=%s";
        let done = place.run().options(["--profile", "build"]).shell(script).ok();
        assert_eq!(done.stdout(), "inside\nfirst\n");
        assert_eq!(place.host_output("git", &["log", "--format=%s"]), "inside\nfirst\n");
        assert_eq!(place.host_output("git", &["status", "--porcelain"]), "");
    });
}

/// A clone of a repository that is shown read-only.
#[test]
fn clone_of_a_zone() {
    each(case!("zone"), |place| {
        author(place);
        place.mkdir("store");
        let store = place.path("store").display().to_string();
        place.write("store/file", "text\n");
        for arguments in [&["init", "-q", "."][..], &["add", "."], &["commit", "-qm", "first"]] {
            place.host_output("git", &[&["-C", &store], arguments].concat());
        }
        let zone = format!("input={store}:ro");
        place
            .run()
            .options(["--zone", &zone, "--profile", "build"])
            .shell("git clone -q /input copy && cat copy/file")
            .ok();
        assert_eq!(place.read("workspace/copy/file"), "text\n");
    });
}

#[test]
fn worktrees_and_submodules_work_inside() {
    each(case!("more"), |place| {
        author(place);
        let script = r"set -e
            for r in library project; do
                git init -q $r
                ( cd $r; echo $r >file; git add .; git commit -qm $r )
            done
            cd project
            git -c protocol.file.allow=always submodule --quiet add ../library sub
            git commit -qm sub
            git worktree add -q ../tree
            cat ../tree/file sub/file";
        let done = place.run().options(["--profile", "build"]).shell(script);
        assert_eq!(done.stdout(), "project\nlibrary\n", "{done:?}");
    });
}
