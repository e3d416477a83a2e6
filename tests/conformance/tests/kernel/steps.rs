//! A failure at each step of the set-up: nothing runs, the step is named, and nothing is left on the host.

use pinfold_conformance::{case, each, host};

#[test]
fn each_stops_the_run_and_leaves_nothing() {
    each(case!("failing"), |place| {
        for (step, _) in pinfold_linux::steps::all() {
            let done = place.run().variable("PINFOLD_FAIL_AT", step).shell("echo ran >/workspace/ran");
            assert!(!place.exists("workspace/ran"), "something ran though `{step}` failed");
            let said = done.refused();
            assert!(said.contains(step), "`{step}` is not named: {said}");
            let left: Vec<_> = std::fs::read_dir(place.path("workspace")).expect("read").flatten().collect();
            assert_eq!(left.len(), 1, "`{step}` leaves something: {left:?}");
            host::nothing_left(place);
        }
        place.run().shell("true").ok();
    });
}
