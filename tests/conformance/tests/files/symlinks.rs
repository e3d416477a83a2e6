//! Links in the workspace that lead out of it (class 2), and links under protected and denied names (classes
//! 11, 12).

use pinfold_conformance::{Off, Place, Vars, case, denials, each};

const REFUSED: &[&str] = &["ENOENT", "EROFS", "EACCES"];
const BOTH: &[&str] = &["mounts", "landlock"];

/// Links to the canary, and to its directory.
fn links(place: &Place) -> Vars {
    place.symlink(place.path("outside/canary"), "workspace/link");
    place.symlink("link", "workspace/chain");
    place.symlink(place.path("outside"), "workspace/directory");
    place.symlink("/proc/self/root", "workspace/root");
    Vars::new()
}

denials! {
    read {
        attempt: &["read", "/workspace/link"], refused: REFUSED, setup: links, off: Off::Succeeds(BOTH),
        alone: BOTH,
    }
    write {
        attempt: &["write", "/workspace/link", "x"], refused: REFUSED, setup: links, off: Off::Succeeds(BOTH),
        alone: BOTH,
    }
    create_through {
        attempt: &["create-or-write", "/workspace/link", "x"], refused: REFUSED, setup: links,
        off: Off::Succeeds(BOTH), alone: BOTH,
    }
    truncate {
        attempt: &["truncate", "/workspace/link"], refused: REFUSED, setup: links, off: Off::Succeeds(BOTH),
        alone: BOTH,
    }
    read_through_two {
        attempt: &["read", "/workspace/chain"], refused: REFUSED, setup: links, off: Off::Succeeds(BOTH),
        alone: BOTH,
    }
    read_through_a_directory {
        attempt: &["read", "/workspace/directory/canary"], refused: REFUSED, setup: links,
        off: Off::Succeeds(BOTH), alone: BOTH,
    }
    create_in_a_directory {
        attempt: &["create", "/workspace/directory/new", "x"], refused: REFUSED, setup: links,
        off: Off::Succeeds(BOTH), alone: BOTH,
    }
    read_through_the_process_s_root {
        attempt: &["read", "/workspace/root{canary}"], refused: REFUSED, setup: links,
        off: Off::Succeeds(BOTH), alone: BOTH,
    }
    made_inside_read {
        attempt: &["run", "sh", "-c", "ln -s {canary} made && cat made"], refused: &["EXIT1"],
        off: Off::Succeeds(BOTH), alone: BOTH,
    }
    made_inside_written {
        attempt: &["run", "sh", "-c", "ln -s {canary} made && echo x >made"], refused: &["EXIT1", "EXIT2"],
        off: Off::Succeeds(BOTH), alone: BOTH,
    }
}

/// What a link under a protected name is: its state on the host must not change, and the run must start.
#[test]
fn a_protected_name_that_is_a_link_is_neither_open_nor_an_obstacle() {
    each(case!("protected-link"), |place| {
        place.write("workspace/dotfiles/bashrc", "original");
        place.symlink("dotfiles/bashrc", "workspace/.bashrc");
        place.symlink(place.path("outside/canary"), "workspace/.profile");
        let canary = place.canary("outside/canary");
        place.symlink("nowhere", "workspace/.zshrc");
        place.symlink(".envrc", "workspace/.envrc");
        place.symlink("/etc/passwd", "workspace/.mcp.json");
        let attempts: &[&[&str]] = &[
            &["write", "/workspace/.bashrc", "x"],
            &["write", "/workspace/dotfiles/bashrc", "x"],
            &["replace", "/workspace/.bashrc", "/workspace/own1", "x"],
            &["replace", "/workspace/dotfiles/bashrc", "/workspace/own2", "x"],
            &["rename", "/workspace/dotfiles", "/workspace/elsewhere"],
            &["unlink", "/workspace/.bashrc"],
            &["create", "/workspace/nowhere", "x"],
            &["replace", "/workspace/.zshrc", "/workspace/own3", "x"],
            &["replace", "/workspace/.envrc", "/workspace/own4", "x"],
            &["replace", "/workspace/.profile", "/workspace/own5", "x"],
            &["replace", "/workspace/.mcp.json", "/workspace/own6", "x"],
            &["write", "/workspace/control", "written"],
        ];
        let (answers, done) = place.run().attempt(attempts);
        for (answer, attempt) in answers[..11].iter().zip(attempts) {
            assert!(!answer.is_ok(), "{attempt:?} was {answer}");
        }
        assert!(answers[11].is_ok(), "{done:?}");
        assert_eq!(place.read("workspace/dotfiles/bashrc"), "original");
        canary.assert_unchanged();
        for (link, target) in [(".bashrc", "dotfiles/bashrc"), (".zshrc", "nowhere"), (".envrc", ".envrc")] {
            let found = std::fs::read_link(place.workspace(link)).expect("a link");
            assert_eq!(found.to_str(), Some(target), "{link} leads elsewhere");
        }
        assert!(!place.exists("workspace/nowhere"), "a placeholder is left");
        let (answers, _) =
            place.run().without(&["protect"]).attempt(&[&["write", "/workspace/.bashrc", "x"]]);
        assert!(answers[0].is_ok(), "without protection still {}", answers[0]);
    });
}
