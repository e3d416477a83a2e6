//! A host with nothing on it but the case. With its mounts off, the wall shows every directory of the host
//! writable, and an attack that then succeeds must find nothing but what belongs to the case: so such runs
//! start in a mount namespace in which all else is covered by empty memory.

use std::process::Command;

use crate::Place;

/// Covers every directory of the root but the system's and the kernel's own, puts the case back where it was,
/// and becomes the command.
const SCRIPT: &str = r#"
set -e
place=$1 directory=$2
shift 2
mount -t tmpfs -o mode=1777 none /tmp
mkdir /tmp/place
mount --bind "$place" /tmp/place
for top in /*/; do
    case $top in /proc/ | /sys/ | /dev/ | /tmp/ | /usr/ | /bin/ | /sbin/ | /lib*/ | /nix/) continue ;; esac
    [ -L "${top%/}" ] || mount -t tmpfs -o mode=755 none "$top"
done
mkdir -p "$place"
mount --bind /tmp/place "$place"
umount /tmp/place
cd "$directory"
exec "$@"
"#;

/// Whether this process may make such a host.
pub fn is_possible() -> bool {
    rustix::process::geteuid().is_root()
}

/// `command` on a host of its own.
pub fn wrap(place: &Place, command: &Command) -> Command {
    assert!(is_possible(), "only root can hide the rest of the host");
    let mut wrapped = Command::new("unshare");
    wrapped.args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh"]).arg(place.path(""));
    wrapped.arg(command.get_current_dir().unwrap_or(&place.path("workspace")));
    wrapped.arg(command.get_program()).args(command.get_args()).env_clear();
    for (name, value) in command.get_envs() {
        wrapped.env(name, value.unwrap_or_default());
    }
    wrapped
}
