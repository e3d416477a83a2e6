//! Reading a pattern and writing it back changes nothing, and what a pattern covers the set agrees to.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use pinfold_core::glob::{Glob, GlobSet};

fuzz_target!(|text: &str| {
    // Two patterns and a path, a line each.
    let mut lines = text.splitn(3, '\n');
    let (first, second, path) =
        (lines.next().unwrap_or(""), lines.next().unwrap_or(""), lines.next().unwrap_or("a/b"));
    let Ok(glob) = Glob::parse(first) else { return };
    let again = Glob::parse(glob.as_str()).expect("canonical text parses");
    assert_eq!(glob, again);
    assert_eq!(glob.as_str(), again.as_str());
    assert!(glob.covers(&glob), "{glob} covers itself");
    let _ = (glob.needs_walk(), glob.fixed_prefix());
    if glob.is_home() {
        assert!(GlobSet::new([&glob]).is_err());
        return;
    }
    let Ok(set) = GlobSet::new([&glob]) else { return };
    if let Some(literal) = glob.literal() {
        assert_eq!(set.matches(&literal), Some(0), "{glob} matches its own path {literal:?}");
    }
    let path = Path::new(path);
    let matched = set.matches_or_parent(path);
    if set.matches(path).is_some() {
        assert_eq!(matched, Some(0));
        let inside: std::path::PathBuf = path.components().filter(|part| part.as_os_str() != ".").collect();
        let plain = !inside.components().any(|part| part.as_os_str() == "..");
        assert!(
            !plain || inside.starts_with(glob.fixed_prefix()),
            "{inside:?} lies below {:?}",
            glob.fixed_prefix()
        );
    }
    let Ok(other) = Glob::parse(second) else { return };
    let Ok(others) = GlobSet::new([&other]) else { return };
    if glob.covers(&other) && others.matches_or_parent(path).is_some() {
        assert_eq!(matched, Some(0), "{glob} covers {other}, which matches {path:?}");
    }
});
