//! Covers that are lost while the sandbox runs are noticed, at once and exactly.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

use pinfold_linux::survey::watch::Watch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::inside::Workspace;

/// Whether the kernel has something to say about the mounts within `seconds`.
fn told(watch: &Watch, seconds: i64) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(watch.fd(), PollFlags::PRI | PollFlags::ERR)];
    poll(&mut fds, Some(&Timespec { tv_sec: seconds, tv_nsec: 0 })).unwrap() == 1
        && fds[0].revents().intersects(PollFlags::PRI | PollFlags::ERR)
}

#[test]
fn a_rename_or_removal_on_the_host_is_seen_and_other_changes_are_not() {
    let workspace = Workspace::new();
    workspace.host("git init -q . && echo x > .envrc && mkdir .vscode");
    let mut survey = workspace.take();
    let mut child =
        workspace.start(&survey.covers, "echo $$; while read line; do eval \"$line\"; echo ok; done");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let pid = lines.by_ref().map(Result::unwrap).find(|line| line.parse::<i32>().is_ok()).unwrap();
    let view = workspace.temp.path().join("view");
    let covers: Vec<PathBuf> = survey.covers.iter().map(|cover| view.join(&cover.path)).collect();
    let mut watch =
        Watch::new(File::open(format!("/proc/{pid}/mountinfo")).unwrap(), covers.clone()).unwrap();
    let mut gone = |watch: &mut Watch| -> Vec<PathBuf> {
        let gone = watch.check().unwrap();
        survey.lost(gone.iter().copied());
        gone.into_iter().map(|at| covers[at].clone()).collect()
    };
    assert!(gone(&mut watch).is_empty());

    // Ordinary work on the host and inside touches no cover.
    workspace.host("echo y > other; mv other third; git add third; echo new > .vscode/x");
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "echo z > fourth; rm fourth; echo no > .envrc").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "ok");
    assert!(gone(&mut watch).is_empty());

    workspace.host("git config user.name someone");
    assert!(told(&watch, 10), "the kernel says nothing");
    assert_eq!(gone(&mut watch), [view.join(".git/config")]);

    // Written from inside now that the cover is gone; the end check finds it.
    writeln!(input, "git config core.fsmonitor /tmp/evil").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "ok");
    // Put back, it counts as being there.
    writeln!(input, "mount --bind .git/config .git/config").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "ok");
    assert!(told(&watch, 10));
    assert!(gone(&mut watch).is_empty());

    workspace.host("rm .bashrc; rm -r .vscode");
    assert!(told(&watch, 10));
    let mut all = gone(&mut watch);
    all.sort();
    assert_eq!(all, [view.join(".bashrc"), view.join(".vscode")]);

    drop(input);
    child.wait().unwrap();
    // The guest is gone, and its mounts can still be asked about.
    assert_eq!(gone(&mut watch).len(), 2);
    drop(watch);
    let report = survey.finish().unwrap();
    assert!(report.quarantined.iter().any(|moved| moved.why.contains("core.fsmonitor")), "{report:?}");
    assert_eq!(workspace.host("git config user.name; git config core.fsmonitor"), "someone\n");
}

#[test]
fn a_cover_that_was_never_there_counts_as_gone() {
    let mut watch =
        Watch::new(File::open("/proc/self/mountinfo").unwrap(), [PathBuf::from("/no/such/cover")]).unwrap();
    assert_eq!(watch.check().unwrap(), [0]);
    let mut watch =
        Watch::new(File::open("/proc/self/mountinfo").unwrap(), [PathBuf::from("/proc")]).unwrap();
    assert!(watch.check().unwrap().is_empty());
}
