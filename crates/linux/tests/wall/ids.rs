//! Ids: the command is nobody's and no root of the host, and files it makes belong to the owner of the
//! workspace.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use crate::harness::{Caller, Place, USER, callers, is_root};

#[test]
fn new_files_belong_to_the_owner_of_the_workspace() {
    for caller in callers() {
        let place = Place::new(*caller);
        place.sh("echo x > new; mkdir directory; ln -s new link").ok();
        let owner = fs::metadata(place.path("workspace")).unwrap();
        for name in ["new", "directory", "link"] {
            let made = fs::symlink_metadata(place.workspace(name)).unwrap();
            assert_eq!((made.uid(), made.gid()), (owner.uid(), owner.gid()), "{caller:?} {name}");
        }
        assert_eq!(place.sh("id -u; id -g; id -un").ok().stdout, "65534\n65534\npinfold\n");
        assert_eq!(place.run(&["--user", "1234"], "id -u", &[]).ok().stdout, "1234\n");
    }
}

#[test]
fn root_over_a_users_workspace_makes_files_of_that_user() {
    if !is_root() {
        return;
    }
    let place = Place::new(Caller::Me);
    let workspace = place.path("workspace");
    chown(&workspace, Some(USER), Some(USER)).unwrap();
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(place.workspace("secret"), "of root").unwrap();
    fs::set_permissions(place.workspace("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    place.sh("echo x > new").ok();
    let made = fs::metadata(place.workspace("new")).unwrap();
    assert_eq!((made.uid(), made.gid()), (USER, USER));
    let ran = place.sh("cat secret");
    assert!(ran.code != 0 && ran.stdout.is_empty(), "a file of root's in it stays root's: {ran:?}");
}

#[test]
fn roots_command_is_an_unprivileged_id_of_its_own() {
    if !is_root() {
        return;
    }
    let place = Place::new(Caller::Me);
    // The mount options of the inner tmpfs name its owner by the number that the host sees.
    let id = || place.sh("grep ' /scratch ' /proc/mounts | tr , '\\n' | grep ^uid=").ok().stdout;
    let (one, other) = (id(), id());
    let number: u32 = one.trim().trim_start_matches("uid=").parse().unwrap();
    assert!((0x7000_0000..0x7001_0000).contains(&number), "{one}");
    assert!(other.starts_with("uid="), "{other}");
}

#[test]
fn without_idmapped_mounts_the_command_is_the_owner_unless_that_is_root() {
    if !is_root() {
        return;
    }
    let place = Place::new(Caller::Me);
    let pretend = [("PINFOLD_PRETEND_MISSING", "idmap")];
    let ran = place.run(&[], "echo x > new", &pretend);
    assert_eq!(ran.code, 125, "{ran:?}");
    assert!(ran.stderr.contains("belongs to root on a file system that cannot map owners"), "{ran:?}");
    assert!(!place.workspace("new").exists());
    chown(place.path("workspace"), Some(USER), Some(USER)).unwrap();
    place.run(&[], "echo x > new", &pretend).ok();
    assert_eq!(fs::metadata(place.workspace("new")).unwrap().uid(), USER);
}
