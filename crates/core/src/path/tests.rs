//! Cases and properties of absolute paths.

use super::*;
use proptest::prelude::*;
use std::ffi::OsStr;

fn path(text: &str) -> AbsPath {
    AbsPath::new(text).unwrap()
}

#[test]
fn one_form_for_every_spelling() {
    for (written, canonical) in [
        ("/", "/"),
        ("//", "/"),
        ("/..", "/"),
        ("/../../etc", "/etc"),
        ("/a//b/./c/", "/a/b/c"),
        ("/a/b/../../../c", "/c"),
        ("/a/...", "/a/..."),
        ("/a/ b", "/a/ b"),
    ] {
        assert_eq!(path(written).as_path().as_os_str(), canonical, "{written}");
    }
}

#[test]
fn what_is_no_absolute_path_is_refused() {
    assert_eq!(AbsPath::new(""), Err(PathError::Empty));
    assert_eq!(AbsPath::new("a/b"), Err(PathError::Relative("a/b".into())));
    assert_eq!(AbsPath::new("~/x"), Err(PathError::Relative("~/x".into())));
    assert_eq!(AbsPath::new("/a\0/b"), Err(PathError::Nul("/a\\x00/b".into())));
    assert_eq!(AbsPath::join_from(&AbsPath::root(), Path::new("a\0")), Err(PathError::Nul("a\\x00".into())));
}

#[test]
fn a_relative_path_begins_at_its_base() {
    let base = path("/work/project");
    for (written, whole) in [
        ("src", "/work/project/src"),
        ("../x", "/work/x"),
        ("/etc", "/etc"),
        ("../../../..", "/"),
        (".", "/work/project"),
    ] {
        assert_eq!(AbsPath::join_from(&base, Path::new(written)).unwrap(), path(whole), "{written}");
    }
}

#[test]
fn a_sibling_with_the_same_prefix_is_outside() {
    assert!(path("/work/a").starts_with(&path("/work")));
    assert!(path("/work").starts_with(&path("/work")));
    assert!(!path("/work-evil").starts_with(&path("/work")));
    assert!(!path("/work/../work-evil").starts_with(&path("/work")));
    assert!(path("/x").starts_with(&AbsPath::root()));
    assert_eq!(path("/work/a").strip_prefix(&path("/work")), Some(Path::new("a")));
    assert_eq!(path("/work").parent(), Some(AbsPath::root()));
    assert_eq!(AbsPath::root().parent(), None);
}

#[test]
fn shown_without_what_hides() {
    assert_eq!(path("/a\n\u{202e}b").to_string(), "/a\\n\\u{202e}b");
    let odd = AbsPath::new(OsStr::from_bytes(b"/a\xff")).unwrap();
    assert_eq!(odd.to_string(), "/a\\xff");
}

#[test]
fn json_keeps_every_byte() {
    assert_eq!(serde_json::to_string(&path("/a\nb")).unwrap(), r#""/a\nb""#);
    let odd = AbsPath::new(OsStr::from_bytes(b"/a\xff")).unwrap();
    assert_eq!(serde_json::to_string(&odd).unwrap(), r#"{"hex":"2f61ff"}"#);
    assert_eq!(serde_json::from_str::<AbsPath>(r#"{"hex":"2F2e2e2f61"}"#).unwrap(), path("/a"));
    for json in [
        r#"{"hex":"2f6"}"#,
        r#"{"hex":"2fzz"}"#,
        r#"{"hex":"2f+1"}"#,
        r#"{"hex":"61"}"#,
        r#"{"hex":"2f00"}"#,
        r#"{"hex":""}"#,
        r#"{"hex":"2f","x":"y"}"#,
        r#"{"hax":"2f"}"#,
        r#"{}"#,
        r#""a""#,
        "1",
        "null",
    ] {
        assert!(serde_json::from_str::<AbsPath>(json).is_err(), "{json}");
    }
}

/// Bytes in which separators and dots are frequent.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(b'/'), Just(b'.'), Just(b'a'), any::<u8>()], 0..40)
}

proptest! {
    #[test]
    fn any_bytes_are_judged_and_the_form_is_stable(bytes in bytes(), base in bytes()) {
        let written = Path::new(OsStr::from_bytes(&bytes));
        if let Ok(path) = AbsPath::new(written) {
            let text = path.as_path().as_os_str().as_bytes();
            prop_assert!(text == b"/" || !text.ends_with(b"/"));
            prop_assert!(!text.split(|b| *b == b'/').any(|part| part == b"." || part == b".."));
            prop_assert_eq!(&AbsPath::new(&path).unwrap(), &path);
            let json = serde_json::to_string(&path).unwrap();
            prop_assert_eq!(&serde_json::from_str::<AbsPath>(&json).unwrap(), &path);
        }
        if let Ok(base) = AbsPath::new(OsStr::from_bytes(&base)) && let Ok(joined) = AbsPath::join_from(&base, written) {
            prop_assert_eq!(&AbsPath::new(&joined).unwrap(), &joined);
        }
    }

    #[test]
    fn plain_text_reads_back(text in "(/[a-z. -]{1,8}){1,6}") {
        let path = path(&text);
        prop_assert_eq!(path.to_string().parse::<AbsPath>().unwrap(), path);
    }

    #[test]
    fn no_sibling_is_below(base in "(/[a-z]{1,4}){1,4}", tail in "[a-z.-]{1,4}", rest in "(/[a-z]{1,3}){0,2}") {
        let base_path = path(&base);
        let (sibling, below) = (path(&format!("{base}{tail}{rest}")), path(&format!("{base}{rest}")));
        prop_assert!(!sibling.starts_with(&base_path));
        prop_assert!(below.starts_with(&base_path));
    }
}
