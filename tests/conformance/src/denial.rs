//! An attack that must be refused, as data, and what it takes to believe that: the stated refusal, a canary
//! that did not change, a control that passes in the same sandbox, and the same attack seen to succeed with
//! the defence off.

use crate::place::{Place, Vars};
use crate::{Answer, Canary, alone, each, host, skip};

/// What shows that the named defence is the one that holds.
#[derive(Clone, Copy, Debug)]
pub enum Off {
    /// With all of these off, the attempt succeeds.
    Succeeds(&'static [&'static str]),
    /// With all of these off, the attempt gets further: the answer is another one than the refusals. For
    /// attempts whose success would take more than the defence away, or would harm the host.
    Reaches(&'static [&'static str]),
    /// It cannot be switched off; says what holds it.
    Never(&'static str),
}

/// An attack that must be refused.
#[derive(Clone, Copy, Debug)]
pub struct Denial {
    /// What is tried: a name that the probe knows, and its words. `{canary}` is a file outside every zone,
    /// `{place}` the directory of the case; `setup` may add others.
    pub attempt: &'static [&'static str],
    /// The errors, or signals, that count as refused.
    pub refused: &'static [&'static str],
    /// What must work in the same sandbox; writes to the workspace unless something nearer is named.
    pub control: &'static [&'static str],
    /// Options of `run`.
    pub options: &'static [&'static str],
    /// Prepares the place and says what further words stand for.
    pub setup: fn(&Place) -> Vars,
    /// What shows that the defence is the one that holds.
    pub off: Off,
    /// Each of these, off alone, changes nothing: the others hold it too.
    pub alone: &'static [&'static str],
}

impl Default for Denial {
    fn default() -> Self {
        Self {
            attempt: &[],
            refused: &[],
            control: &["write", "/workspace/control", "written"],
            options: &[],
            setup: |_| Vars::new(),
            off: Off::Never("no reason given"),
            alone: &[],
        }
    }
}

/// What one run of the attempt gave.
struct Tried {
    answer: Answer,
    canary: Canary,
    place: Place,
}

impl Denial {
    /// Runs the case on every backend, for every caller.
    pub fn check(&self, case: &str) {
        each(case, |place| {
            self.expect_refusal(place, &[]);
            let possible = |defences: &[&str]| {
                let possible = !defences.contains(&"mounts") || alone::is_possible();
                if !possible {
                    skip::skip(
                        &format!("{case} without {}", defences.join(", ")),
                        "only root can hide the rest of the host",
                    );
                }
                possible
            };
            for defence in self.alone.iter().filter(|defence| possible(&[defence])) {
                self.expect_refusal(place, &[defence]);
            }
            match self.off {
                Off::Succeeds(defences) if possible(defences) => self.expect_success(place, defences),
                Off::Reaches(defences) if possible(defences) => {
                    let Tried { answer, canary, place: _place } = self.attempt(place, defences);
                    canary.assert_unchanged();
                    assert!(!answer.is_refused(self.refused), "without {defences:?} still {answer}");
                }
                Off::Never(reason) => assert!(!reason.is_empty()),
                Off::Succeeds(_) | Off::Reaches(_) => {}
            }
        });
    }

    fn expect_refusal(&self, place: &Place, without: &[&str]) {
        let Tried { answer, canary, place } = self.attempt(place, without);
        assert!(answer.is_refused(self.refused), "{:?} was {answer} without {without:?}", self.attempt);
        canary.assert_unchanged();
        if self.control == Self::default().control {
            assert_eq!(place.read("workspace/control"), "written", "the control wrote nothing");
        }
        host::nothing_left(&place);
    }

    /// The attempt is seen to do its harm: to the canary, or by telling what it holds.
    fn expect_success(&self, place: &Place, defences: &[&str]) {
        let Tried { answer, canary, .. } = self.attempt(place, defences);
        assert!(
            answer.is_ok(),
            "without {defences:?} the attempt was still {answer}: the case proves nothing"
        );
        if self.attempt.iter().any(|word| word.contains("{canary}")) {
            let told = answer.value().as_str().is_some_and(|text| text.contains(canary.secret()));
            assert!(told || canary.is_changed(), "without {defences:?}: {answer}, and no harm done");
        }
    }

    /// Tries it in a place of its own, for what one attempt changes must not help the next.
    fn attempt(&self, like: &Place, without: &[&str]) -> Tried {
        let place = Place::new(like.backend, like.caller);
        let canary = place.canary("outside/canary");
        let mut vars = (self.setup)(&place);
        vars.push(("{canary}", canary.path().display().to_string()));
        vars.push(("{place}", place.path("").display().to_string()));
        let fill = |words: &[&str]| -> Vec<String> {
            let fill_one = |word: &&str| {
                vars.iter().fold((*word).to_owned(), |text, (name, value)| text.replace(name, value))
            };
            words.iter().map(fill_one).collect()
        };
        let run = place.run().options(fill(self.options)).without(without);
        let (mut answers, done) = run.attempt(&[&fill(self.attempt), &fill(self.control)]);
        assert!(answers[1].is_ok(), "the control was {} without {without:?}: {done:?}", answers[1]);
        Tried { answer: answers.remove(0), canary, place }
    }
}
