//! The harness of the attack suite. A test asks for a [`Place`] on every backend and for every caller
//! ([`each`]), runs something inside it ([`Place::run`]) and looks at what came of it on both sides of the
//! wall. Attacks that are refused are rows of data ([`denials!`]).
//!
//! The suite sees Pinfold as its users do: through the binary, its exit status and its JSON. What it attacks
//! with is the probe (`src/bin/probe`), which runs inside and says what the kernel answered.

#![forbid(unsafe_code)]

pub mod alone;
pub mod answer;
pub mod backends;
pub mod caller;
pub mod canary;
pub mod denial;
pub mod host;
pub mod live;
pub mod place;
pub mod run;
pub mod skip;
pub mod terminal;

pub use answer::Answer;
pub use caller::Caller;
pub use canary::Canary;
pub use denial::{Denial, Off};
pub use place::{Place, Vars};
pub use run::{Done, Run};

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `test` in a fresh place on every backend and for every caller. All of them run, also after one has
/// failed. Afterwards nothing of the sandbox may be left on the host.
pub fn each(case: &str, test: impl Fn(&Place)) {
    let mut failed = Vec::new();
    for backend in backends::ALL {
        for caller in Caller::all() {
            let place = Place::new(backend, caller);
            let name = format!("{case} on {} as {caller}", backend.name);
            if let Some(reason) = backend.unavailable(&place) {
                skip::skip(&name, &reason);
                continue;
            }
            let ran = catch_unwind(AssertUnwindSafe(|| {
                test(&place);
                host::nothing_left(&place);
            }));
            if ran.is_err() {
                failed.push(name);
            }
        }
    }
    assert!(failed.is_empty(), "failed: {}", failed.join("; "));
}

/// Declares tests by what is attempted: each row becomes a test that runs the attempt inside, expects one of
/// the refusals, and sees the attempt succeed with the named defences off. See [`Denial`] for the fields.
#[macro_export]
macro_rules! denials {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $value:expr),* $(,)? })*) => {$(
        $(#[$doc])*
        #[test]
        #[allow(clippy::needless_update)] // a row may name every field
        fn $name() {
            $crate::Denial { $($field: $value,)* ..$crate::Denial::default() }
                .check(concat!(module_path!(), "::", stringify!($name)));
        }
    )*};
}

/// The name of the test that it is used in, for messages and skips.
#[macro_export]
macro_rules! case {
    ($name:literal) => {
        concat!(module_path!(), "::", $name)
    };
}
