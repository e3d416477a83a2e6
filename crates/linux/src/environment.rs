//! The variables inside: those of the plan and no other, with the values that it asks to be copied from the
//! caller.

use std::ffi::OsString;

use pinfold_core::plan::Environment;

use crate::probe::without;

/// The variables of `environment`, names that are passed taking the values that `caller` gives for them. What
/// the plan sets wins over what it passes.
pub fn resolve(
    environment: &Environment,
    caller: impl Fn(&str) -> Option<OsString>,
) -> Vec<(OsString, OsString)> {
    let set = environment.set.iter().map(|(name, value)| (name.into(), value.into()));
    let passed = environment
        .pass
        .iter()
        .filter(|name| !environment.set.contains_key(*name))
        .filter_map(|name| Some((name.into(), caller(name)?)));
    set.chain(passed).collect()
}

/// What the command really gets: `resolved`, unless a debug build is told to leave the environment as it is.
pub(crate) fn effective(resolved: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let leaked = if without("environment") { std::env::vars_os().collect() } else { Vec::new() };
    leaked.into_iter().chain(resolved.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_gets_in_and_the_plan_wins() {
        let environment = Environment {
            set: [("PATH".to_owned(), "/usr/bin".to_owned())].into(),
            pass: vec!["PATH".to_owned(), "LANG".to_owned(), "UNSET".to_owned()],
        };
        let caller = |name: &str| (name != "UNSET").then(|| OsString::from("caller's"));
        let resolved = resolve(&environment, caller);
        assert_eq!(
            resolved,
            [("PATH".into(), "/usr/bin".into()), ("LANG".into(), OsString::from("caller's"))]
        );
    }
}
