//! The workspace of a live sandbox: what is protected stays so on later commands, whatever the host does meanwhile.

use std::fs;

use pinfold_core::outcome::Exit;
use pinfold_engine::live::Sandbox;

use crate::harness::{Host, begun, python, run, said, sh, until, waiting};

/// Tries to plant something that the host would run, and says which attempts succeeded.
const PLANT: &str = "for f in .git/config .git/hooks/post-checkout .bashrc .envrc .mcp.json .vscode/tasks.json; do \
    (echo planted > $f) 2>/dev/null && echo $f; done; mv .git gone 2>/dev/null && echo moved; \
    rm -rf .git/hooks 2>/dev/null; [ -e .git/hooks ] || echo removed; \
    echo object > .git/objects/x && echo 'and objects'";

fn repository(host: &Host) {
    for directory in ["project/.git/hooks", "project/.git/objects", "project/.git/refs"] {
        fs::create_dir_all(host.place.path(directory)).unwrap();
    }
    host.place.write("project/.git/HEAD", "ref: refs/heads/main\n");
    host.place.write("project/.git/config", "[core]\n");
}

#[track_caller]
fn assert_protected(sandbox: &Sandbox) {
    assert_eq!(said(sandbox, &sh(PLANT)), "and objects\n");
}

#[test]
fn protected_names_are_covered_on_every_command() {
    let host = Host::new();
    repository(&host);
    let sandbox = host.sandbox();
    for _ in 0..3 {
        assert_protected(&sandbox);
    }
    let other = waiting(&sandbox);
    assert_protected(&sandbox);
    run(&sandbox, &sh("kill -9 -1"));
    drop(other);
    assert_protected(&sandbox);
    // A second one on the same workspace, and one of the two ends: the other still holds.
    let second = host.sandbox();
    assert_protected(&second);
    sandbox.end().unwrap();
    assert_protected(&second);
    let third = host.sandbox();
    assert_protected(&third);
    second.end().unwrap();
    assert_protected(&third);
    third.end().unwrap();
    let names: Vec<_> =
        fs::read_dir(host.place.path("project")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [".git"], "placeholders are gone");
    assert_eq!(host.place.read("project/.git/config"), "[core]\n");
}

/// As `git config` does it.
fn rename_over(host: &Host, text: &str) {
    host.place.write("project/.git/config.lock", text);
    fs::rename(host.place.path("project/.git/config.lock"), host.place.path("project/.git/config")).unwrap();
}

#[test]
fn a_cover_that_the_host_renames_away_is_put_back() {
    let host = Host::new();
    repository(&host);
    let sandbox = host.sandbox();
    assert_protected(&sandbox);
    for number in 0..5 {
        // With nothing inside, and with several that go on afterwards.
        let others: Vec<_> = (0..number % 3)
            .map(|_| {
                begun(
                    &sandbox,
                    &sh("echo up; while [ ! -e go ]; do sleep 0.01; done; exit 6").keep_background(),
                )
            })
            .collect();
        let text = format!("[core]\n\tx = {number}\n");
        rename_over(&host, &text);
        assert_protected_soon(&sandbox);
        assert_eq!(host.place.read("project/.git/config"), text);
        fs::write(host.place.path("project/go"), "").unwrap();
        for other in others {
            assert_eq!(other.output().unwrap().exit, Exit::Code(6), "it goes on");
        }
        fs::remove_file(host.place.path("project/go")).unwrap();
    }
    sandbox.end().unwrap();
}

/// The cover is put back when the holder notices. A command that found it gone would be distrusted, so this one only
/// looks.
#[track_caller]
fn assert_protected_soon(sandbox: &Sandbox) {
    until("the cover is back", || {
        said(sandbox, &sh("[ -w .git/config ] && echo bare || echo covered")) == "covered\n"
    });
    assert_protected(sandbox);
}

#[test]
fn commands_that_start_while_a_cover_is_put_back_do_not_get_the_file() {
    let host = Host::new();
    repository(&host);
    for round in 0..10 {
        let sandbox = host.sandbox();
        // Whoever gets it keeps it, and writes later.
        let grab = "import os, time\nfor _ in range(300):\n  try: f = os.open('.git/config', os.O_WRONLY | os.O_APPEND)\n  except OSError: continue\n  time.sleep(0.05)\n  os.write(f, b'planted')\n  break\n";
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..6 {
                        if sandbox.exec(&python(grab)).and_then(|command| command.output()).is_err() {
                            return; // It was ended, which is right if somebody was quicker than the cover.
                        }
                    }
                });
            }
            for number in 0..30 {
                rename_over(&host, &format!("[core]\n\tx = {number}\n"));
            }
        });
        // Those who were quicker than the cover hold a file that is nobody's any more, or were ended, and what they may
        // have changed was moved out of the way.
        drop(sandbox.end());
        let config = fs::read_to_string(host.place.path("project/.git/config")).unwrap_or_default();
        assert!(!config.contains("planted"), "round {round}");
        rename_over(&host, "[core]\n");
    }
    assert_protected(&host.sandbox());
}
