//! Shared memory and message queues (control `ipc.isolated`): those of the host, of System V and POSIX, are
//! not there.

use pinfold_conformance::{Off, Place, Vars, case, denials, each};

/// A key that no other case uses.
fn key(place: &Place) -> String {
    let hash = place.name().bytes().fold(0x1000_0000u32, |hash, byte| hash.rotate_left(5) ^ u32::from(byte));
    (hash & 0x3fff_ffff).to_string()
}

/// What the host has under the key, removed with the value.
struct Shared<'p>(&'p Place, String);

impl<'p> Shared<'p> {
    fn new(place: &'p Place) -> Self {
        let key = key(place);
        let shared = Self(place, key.clone());
        for words in [
            vec!["shared-memory-make", &key, "host secret"],
            vec!["message-queue-make", &key],
            vec!["posix-queue-make", place.name()],
        ] {
            let said = place.host_output(&place.probe().display().to_string(), &words);
            assert!(said.contains("\"ok\""), "{words:?}: {said}");
        }
        shared
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        let Self(place, key) = self;
        let probe = place.probe();
        for words in [
            ["shared-memory-remove", key],
            ["message-queue-remove", key],
            ["posix-queue-remove", place.name()],
        ] {
            place.host(&probe).args(words).output().map(drop).unwrap_or_default();
        }
    }
}

#[test]
fn of_the_host_are_not_there() {
    each(case!("host"), |place| {
        let shared = Shared::new(place);
        let attempts: &[&[&str]] =
            &[&["shared-memory", &shared.1], &["message-queue", &shared.1], &["posix-queue", place.name()]];
        for without in [&[][..], &["seccomp"], &["landlock"]] {
            let (answers, _) = place.run().without(without).attempt(attempts);
            for (answer, attempt) in answers.iter().zip(attempts) {
                assert!(
                    answer.is_refused(&["ENOENT", "ENOMSG", "E42"]),
                    "{attempt:?} was {answer} without {without:?}"
                );
            }
        }
        // Run by root, the command is another user, whom the mode of the queues of this case lets in all the
        // same.
        let (answers, _) = place.run().without(&["ipcns"]).attempt(attempts);
        assert_eq!(
            answers[0].to_string(),
            "done (\"host secret\")",
            "without the namespace it is not reached either"
        );
        assert!(answers[1].is_ok(), "{}", answers[1]);
    });
}

/// POSIX queues are not among them: Landlock allows paths, and a queue has none.
#[test]
fn of_its_own_work() {
    each(case!("own"), |place| {
        let (answers, _) = place.run().attempt(&[
            &["shared-memory-make", "77", "own"],
            &["shared-memory", "77"],
            &["message-queue-make", "77"],
        ]);
        assert!(answers.iter().all(pinfold_conformance::Answer::is_ok), "{answers:?}");
        // And are gone with the sandbox: the host never had them.
        let said = place.host_output(&place.probe().display().to_string(), &["shared-memory", "77"]);
        assert!(said.contains("ENOENT"), "{said}");
    });
}

denials! {
    strict_has_none_at_all {
        attempt: &["shared-memory-make", "78", "x"], refused: &["EPERM", "ENOSYS"],
        off: Off::Succeeds(&["seccomp"]), options: &["--set", "security.seccompProfile=strict"],
        setup: |_| Vars::new(),
    }
}
