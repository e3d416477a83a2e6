//! Zones: each has exactly the access that its mode gives, its files belong to whom they should, and one can
//! lie in another (class 18 for zones that are named).

use std::os::unix::fs::MetadataExt;

use pinfold_conformance::{Off, Vars, case, denials, each};

const READ_ONLY: &[&str] = &["EROFS", "EACCES"];

denials! {
    a_read_only_zone {
        attempt: &["write", "/input/file", "x"], refused: READ_ONLY,
        options: &["--zone", "input={place}data:ro"],
        setup: |place| { place.write("data/file", "x"); Vars::new() }, control: &["read", "/input/file"],
        alone: &["landlock"], off: Off::Never("the mode of a zone has no switch of its own"),
    }
    a_read_only_zone_s_modes {
        attempt: &["chmod", "/input/file", "777"], refused: READ_ONLY,
        options: &["--zone", "input={place}data:ro"],
        setup: |place| { place.write("data/file", "x"); Vars::new() }, control: &["read", "/input/file"],
        alone: &["landlock"], off: Off::Never("the mode of a zone has no switch of its own"),
    }
    a_read_only_workspace {
        attempt: &["create", "/workspace/new", "x"], refused: READ_ONLY,
        options: &["--set", "fs.workspace=ro"], control: &["read", "/workspace/control"],
        alone: &["landlock"], off: Off::Never("the mode of a zone has no switch of its own"),
    }
    a_shown_path {
        attempt: &["write", "{place}shown/file", "x"], refused: READ_ONLY,
        options: &["--read", "{place}shown"], setup: |place| { place.write("shown/file", "x"); Vars::new() },
        control: &["read", "{place}shown/file"], alone: &["landlock"],
        off: Off::Never("the mode of a shown path has no switch of its own"),
    }
    a_sibling_of_a_writable_path {
        attempt: &["write", "{place}out-evil/file", "x"], refused: &["ENOENT", "EACCES"],
        options: &["--write", "{place}out"],
        setup: |place| { place.mkdir("out"); place.write("out-evil/file", "x"); Vars::new() },
        control: &["create", "{place}out/new", "x"], alone: &["landlock", "mounts"],
        off: Off::Succeeds(&["mounts", "landlock"]),
    }
    the_parent_of_a_writable_path {
        attempt: &["create", "{place}planted", "x"], refused: &["EROFS", "EACCES"],
        options: &["--write", "{place}out"], setup: |place| { place.mkdir("out"); Vars::new() },
        control: &["create", "{place}out/new", "x"], alone: &["landlock"],
        off: Off::Never("the parent is part of the root, which is read-only"),
    }
}

/// New files belong to the workspace's owner, whoever runs the sandbox, and can be used on both sides.
#[test]
fn new_files_belong_to_the_owner_of_the_workspace() {
    each(case!("owner"), |place| {
        place
            .run()
            .shell("echo text >new && mkdir -p d/e && ln -s new l && mv control renamed && chmod 600 new")
            .ok();
        let owner = std::fs::metadata(place.path("workspace")).expect("the workspace").uid();
        for name in ["new", "d", "d/e", "l", "renamed"] {
            let found = std::fs::symlink_metadata(place.workspace(name)).expect("what was made inside");
            assert_eq!((found.uid(), found.gid()), (owner, owner), "{name} belongs to someone else");
        }
        assert_eq!(place.read("workspace/new"), "text\n");
    });
}

/// Run by root in someone else's workspace.
#[test]
fn root_leaves_a_workspace_to_its_owner() {
    each(case!("another-owner"), |place| {
        if !place.caller.is_root() {
            return;
        }
        for name in ["workspace", "workspace/control"] {
            std::os::unix::fs::chown(place.path(name), Some(12345), Some(12345)).expect("give it away");
        }
        place.run().shell("cat control && echo text >new && rm control").ok();
        let found = std::fs::metadata(place.workspace("new")).expect("what was made inside");
        assert_eq!((found.uid(), found.gid()), (12345, 12345));
    });
}

/// The owner of the workspace is nobody inside but the command: what others own stays out of its reach.
#[test]
fn files_of_others_in_a_workspace_stay_theirs() {
    each(case!("others"), |place| {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        place.write("workspace/private", "secret");
        std::os::unix::fs::chown(place.workspace("private"), Some(54321), Some(54321)).expect("give it away");
        std::fs::set_permissions(
            place.workspace("private"),
            std::os::unix::fs::PermissionsExt::from_mode(0o600),
        )
        .expect("close it");
        let (answers, _) = place.run().attempt(&[
            &["read", "/workspace/private"],
            &["chmod", "/workspace/private", "666"],
            &["chown", "/workspace/control", "54321"],
        ]);
        for answer in answers {
            assert!(answer.is_refused(&["EACCES", "EPERM", "EINVAL", "EOVERFLOW"]), "{answer}");
        }
    });
}

#[test]
fn memory_zones_are_writable_bounded_and_gone() {
    each(case!("memory"), |place| {
        let run = place.run().options(["--zone", "cache=tmpfs:2M"]);
        let done = run
            .shell("echo x >/cache/a && echo $PINFOLD_ZONE_CACHE && head -c 3000000 /dev/zero >/cache/big");
        assert_ne!(done.status, Some(0), "three megabytes fit into two");
        assert_eq!(done.stdout().trim(), "/cache");
        assert_eq!(run.shell("ls /cache").ok().stdout(), "");
    });
}
