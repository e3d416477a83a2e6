//! Cases and properties of path patterns, the latter against a small matcher of another kind.

use super::*;
use proptest::prelude::*;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

fn glob(text: &str) -> Glob {
    Glob::parse(text).unwrap_or_else(|err| panic!("{text:?}: {err}"))
}

fn hits(pattern: &str, path: &str) -> bool {
    GlobSet::new([&glob(pattern)]).unwrap().matches(Path::new(path)).is_some()
}

#[test]
fn patterns_match_what_they_say() {
    for (pattern, yes, no) in [
        (
            ".env",
            &[".env", "./.env", "a/../.env"][..],
            &["a/.env", "/.env", "x.env", ".envrc", "../.env"][..],
        ),
        ("**/.env", &[".env", "a/.env", "a/b/.env"], &["a.env", "a/.envrc", "/a/.env", ".env/x"]),
        ("**/*.pem", &["k.pem", ".pem", "a/b/k.pem"], &["k.pem.txt", "a.pem/b"]),
        ("a/*/c", &["a/b/c", "a/.b/c"], &["a/c", "a/b/b/c"]),
        ("a/**", &["a/b", "a/b/c"], &["a", "ab", "b/a"]),
        ("a/**/z", &["a/z", "a/b/z", "a/b/c/z"], &["a/bz", "az"]),
        ("a/**/**/z", &["a/z", "a/b/z"], &["z"]),
        ("**", &["a", "a/b", ".x", "a\nb"], &["/a", ""]),
        ("/**", &["/a", "/a/b"], &["a"]),
        ("/etc/*", &["/etc/x", "//etc/./x/"], &["etc/x", "/etc", "/etc/x/y"]),
        ("/", &["/"], &["/a"]),
        ("?.txt", &["a.txt"], &[".txt", "ab.txt", "a/.txt"]),
        ("a?b", &["axb", "a\nb"], &["a/b", "ab"]),
        ("[a-c]x", &["ax", "cx"], &["dx", "x", "Ax"]),
        ("[!a]x", &["bx", "!x"], &["ax", "/x"]),
        ("a[^b]c", &["axc"], &["abc", "a/c"]),
        ("[]a]", &["]", "a"], &["b"]),
        ("[!]a]", &["b"], &["]", "a"]),
        ("[a-]", &["a", "-"], &["b"]),
        ("[a!^]", &["!", "^", "a"], &["b"]),
        ("[{,}]", &["{", ",", "}"], &["a"]),
        ("{a,b}/{c,d}", &["a/c", "b/d"], &["a/b", "a"]),
        ("x{,.bak}", &["x", "x.bak"], &["x.", "xbak"]),
        ("{a/b,c{d,e}}", &["a/b", "cd", "ce"], &["a", "c", "ab"]),
        ("a,b", &["a,b"], &["a"]),
        ("\\*", &["*"], &["a"]),
        ("\\{a\\,b\\}", &["{a,b}"], &["a"]),
        ("a\\\\b", &["a\\b"], &["ab"]),
        ("Straße/é*", &["Straße/été"], &["straße/été"]),
        ("\\!x", &["!x"], &["x"]),
        ("\\~/x", &["~/x"], &["x"]),
    ] {
        for path in yes {
            assert!(hits(pattern, path), "{pattern} should match {path:?}");
        }
        for path in no {
            assert!(!hits(pattern, path), "{pattern} should not match {path:?}");
        }
    }
}

#[test]
fn bytes_that_are_not_text_match() {
    let set = GlobSet::new([&glob("**/*.pem"), &glob("a/?[!x]")]).unwrap();
    assert_eq!(set.matches(Path::new(OsStr::from_bytes(b"d\xff/k\xfe.pem"))), Some(0));
    assert_eq!(set.matches(Path::new(OsStr::from_bytes(b"a/\xff\xfe"))), Some(1));
}

#[test]
fn one_text_for_every_spelling() {
    for (written, canonical) in [
        ("a/", "a"),
        ("./a", "a"),
        ("././a//b/./c//", "a/b/c"),
        ("//etc/", "/etc"),
        ("/.", "/"),
        ("~/", "~"),
        ("~/./x/", "~/x"),
        ("./!x", "\\!x"),
        ("./~/x", "\\~/x"),
        ("{a,b}/", "{a,b}"),
    ] {
        assert_eq!(glob(written).to_string(), canonical, "{written}");
        assert_eq!(glob(canonical), glob(written));
    }
}

#[test]
fn mistakes_are_named() {
    use GlobError as E;
    type Make = fn(String) -> GlobError;
    for (text, make) in [
        ("", E::Empty as Make),
        (".", E::Empty),
        ("./", E::Empty),
        ("{,a}", E::Empty),
        ("..", E::Parent),
        ("a/../b", E::Parent),
        ("/..", E::Parent),
        ("~/..", E::Parent),
        ("\\.\\.", E::Parent),
        ("{.,a}{.,b}/x", E::Parent),
        ("a{/.,/b}./x", E::Parent),
        ("!a", E::Negated),
        ("~bob/x", E::Home),
        ("a**", E::Deep),
        ("**a/b", E::Deep),
        ("***", E::Deep),
        ("a{*,b}*", E::Deep),
        ("[a", E::OpenClass),
        ("[]", E::OpenClass),
        ("[!]", E::OpenClass),
        ("[a/b]", E::Class),
        ("[+-9]", E::Class),
        ("[z-a]", E::Class),
        ("[é]", E::Class),
        ("[\\]]", E::Class),
        ("[[:alpha:]]", E::Class),
        ("{a", E::Brace),
        ("a}", E::Brace),
        ("{{a}", E::Brace),
        ("{{{{{a}}}}}", E::TooManyAlternatives),
        ("{/a,b}", E::Mixed),
        ("./{/a,/b}", E::Mixed),
        ("a\\", E::Escape),
        ("a\\/b", E::Escape),
    ] {
        assert_eq!(Glob::parse(text), Err(make(text.to_owned())), "{text:?}");
    }
    assert_eq!(Glob::parse("a\0b"), Err(E::Nul("a\\x00b".into())));
    assert!(matches!(Glob::parse(&"a".repeat(4097)), Err(E::TooLong(_))));
    assert!(matches!(Glob::parse(&"{a,b}".repeat(7)), Err(E::TooManyAlternatives(_))));
    assert!(matches!(Glob::parse(&"{a,b}".repeat(800)), Err(E::TooManyAlternatives(_))));
    assert!(Glob::parse(&"{a,b}".repeat(6)).is_ok());
    assert!(Glob::parse(&"{".repeat(4096)).is_err());
}

#[test]
fn a_walk_is_asked_for_only_when_needed() {
    for (pattern, prefix, walk, literal) in [
        (".env", ".env", false, Some(".env")),
        ("a/b", "a/b", false, Some("a/b")),
        ("/etc/shadow", "/etc/shadow", false, Some("/etc/shadow")),
        ("~/.ssh", "~/.ssh", false, Some("~/.ssh")),
        ("a\\*/b", "a*/b", false, Some("a*/b")),
        ("a/*.pem", "a", false, None),
        ("*", "", false, None),
        ("/*", "/", false, None),
        ("a/*/b", "a", true, None),
        ("a/b/**", "a/b", true, None),
        ("**/x", "", true, None),
        ("a/{b,c}/d", "a", false, None),
        ("a/{b/x,b/y}", "a/b", false, None),
        ("a/[b]/c", "a", true, None),
        ("{a,b}/*/c", "", true, None),
        ("/", "/", false, Some("/")),
    ] {
        let glob = glob(pattern);
        assert_eq!(glob.fixed_prefix(), Path::new(prefix), "{pattern}");
        assert_eq!(glob.needs_walk(), walk, "{pattern}");
        assert_eq!(glob.literal().as_deref(), literal.map(Path::new), "{pattern}");
    }
}

#[test]
fn a_pattern_is_placed_in_a_directory() {
    let home = AbsPath::new("/home/a*[b]{c}").unwrap();
    let placed = glob("~/.ssh/id_*").placed_at(&home).unwrap();
    assert!(placed.is_absolute() && glob("~/x").is_home() && glob("~").is_home());
    let set = GlobSet::new([&placed]).unwrap();
    assert_eq!(set.matches(Path::new("/home/a*[b]{c}/.ssh/id_rsa")), Some(0));
    assert_eq!(set.matches(Path::new("/home/axb{c}/.ssh/id_rsa")), None);
    assert_eq!(glob("~").placed_at(&home).unwrap().literal().as_deref(), Some(home.as_path()));
    assert_eq!(glob("**/x").placed_at(&AbsPath::root()).unwrap(), glob("/**/x"));
    assert_eq!(glob("/x").placed_at(&home).unwrap(), glob("/x"));
    let odd = AbsPath::new(OsStr::from_bytes(b"/\xff")).unwrap();
    assert!(matches!(glob("a").placed_at(&odd), Err(GlobError::NotText(_))));
    assert!(matches!(GlobSet::new([&glob("~/x")]), Err(GlobError::HomeNotPlaced(_))));
}

#[test]
fn below_a_match_is_matched_too() {
    let set =
        GlobSet::new([&glob("**/.git/hooks"), &glob("secret"), &glob("**/*.d"), &glob("/etc")]).unwrap();
    for (path, expected) in [
        ("secret", Some(1)),
        ("secret/a/b", Some(1)),
        ("secret/x.d/y", Some(1)),
        ("secrets", None),
        ("a/.git/hooks/pre-commit", Some(0)),
        ("a/.git/objects", None),
        ("/etc/x", Some(3)),
        ("/secret", None),
        ("", None),
    ] {
        assert_eq!(set.matches_or_parent(Path::new(path)), expected, "{path}");
    }
    assert_eq!(set.matches(Path::new("secret/a")), None);
    assert_eq!(set.len(), 4);
    assert!(GlobSet::new([]).unwrap().is_empty());
}

#[test]
fn many_wildcards_cost_little() {
    let (wide, narrow) = (glob(&"**/a/".repeat(800)), glob(&"a/".repeat(2000)));
    assert!(wide.covers(&narrow) && !wide.covers(&glob(&"a/".repeat(799))));
    let slow = glob(&"*a".repeat(2000));
    assert!(!slow.covers(&glob(&"a".repeat(1999))));
    assert_eq!(GlobSet::new([&slow]).unwrap().matches(Path::new(&"a".repeat(1999))), None);
}

#[test]
fn covering_is_what_it_says() {
    for (wide, narrow) in [
        ("**", "a/*/b"),
        ("**/.env", ".env"),
        ("**/.env", "a/**/.env"),
        ("**/*.pem", "certs/key.pem"),
        ("a", "a/b"),
        ("a", "a/**"),
        ("*", "a"),
        ("a/*", "a/b/c"),
        ("{a,b}", "b/c"),
        ("**/x", "{a/x,b/**/x}"),
        ("/etc", "/etc/shadow"),
    ] {
        assert!(glob(wide).covers(&glob(narrow)), "{wide} {narrow}");
        assert!(!glob(narrow).covers(&glob(wide)), "{narrow} {wide}");
    }
    for (a, b) in [
        ("a/**", "a"),
        ("a", "ab"),
        ("**/x", "/x"),
        ("*.pem", "**/*.pem"),
        ("{a,b}", "{b,c}"),
        ("*", "**/../a"),
    ] {
        assert!(Glob::parse(b).map_or(true, |b| !glob(a).covers(&b)), "{a} {b}");
    }
}

/// The other matcher: works on the text, component by component, and knows braces as alternatives in place.
mod reference {
    /// All texts that braces stand for; only for patterns without classes or escapes around braces.
    pub(super) fn expand(pattern: &str) -> Vec<String> {
        let Some(close) = pattern.find('}') else { return vec![pattern.to_owned()] };
        let open = pattern[..close].rfind('{').unwrap();
        let (head, tail) = (&pattern[..open], &pattern[close + 1..]);
        pattern[open + 1..close]
            .split(',')
            .flat_map(|middle| expand(&format!("{head}{middle}{tail}")))
            .collect()
    }

    pub(super) fn path(pattern: &str, path: &[u8]) -> bool {
        expand(pattern).iter().any(|pattern| {
            let pattern: Vec<&[u8]> = pattern
                .as_bytes()
                .split(|b| *b == b'/')
                .filter(|part| !matches!(*part, b"" | b"."))
                .collect();
            let path: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
            parts(&pattern, &path)
        })
    }

    fn parts(pattern: &[&[u8]], path: &[&[u8]]) -> bool {
        match (pattern, path) {
            ([], []) => true,
            ([b"**"], path) => !path.is_empty(),
            ([b"**", rest @ ..], _) => (0..=path.len()).any(|skip| parts(rest, &path[skip..])),
            ([part, pattern @ ..], [at, path @ ..]) => name(part, at) && parts(pattern, path),
            _ => false,
        }
    }

    fn name(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|skip| name(rest, &text[skip..])),
            ([b'?', rest @ ..], [_, text @ ..]) => name(rest, text),
            ([b'[', b'!', no, b']', rest @ ..], [c, text @ ..]) => c != no && name(rest, text),
            ([b'[', from, b'-', to, b']', rest @ ..], [c, text @ ..]) => {
                (from..=to).contains(&c) && name(rest, text)
            }
            ([p, rest @ ..], [c, text @ ..]) => p == c && name(rest, text),
            _ => false,
        }
    }
}

/// Patterns from a small world, so that they often match.
fn pattern() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        4 => "[ab.]", 1 => Just("?".to_owned()), 2 => Just("*".to_owned()), 1 => Just("[!a]".to_owned()),
        1 => Just("[a-b]".to_owned()), 1 => "\\{[ab],[ab*]\\}", 1 => "\\{[ab]/[ab],,\\{b,[ab]\\}\\}",
    ];
    let name = prop::collection::vec(atom, 1..4).prop_map(|atoms| atoms.concat());
    let component = prop_oneof![4 => name, 1 => Just("**".to_owned())];
    prop::collection::vec(component, 1..5).prop_map(|parts| parts.join("/"))
}

/// Normal relative paths from the same world.
fn some_path() -> impl Strategy<Value = Vec<u8>> {
    let name = prop::collection::vec(
        prop_oneof![6 => Just(b'a'), 6 => Just(b'b'), 1 => Just(b'.'), 1 => 1u8..],
        1..4,
    );
    let name = name
        .prop_filter("an ordinary name", |name| !name.contains(&b'/') && !matches!(&name[..], b"." | b".."));
    prop::collection::vec(name, 1..5).prop_map(|parts| parts.join(&b'/'))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn agrees_with_the_reference(text in pattern(), paths in prop::collection::vec(some_path(), 20)) {
        let Ok(glob) = Glob::parse(&text) else { return Ok(()) };
        let set = GlobSet::new([&glob]).unwrap();
        let absolute = GlobSet::new([&glob.placed_at(&AbsPath::root()).unwrap()]).unwrap();
        for path in paths {
            let expected = reference::path(&text, &path);
            let shown = crate::text::visible_bytes(&path);
            prop_assert_eq!(set.matches(Path::new(OsStr::from_bytes(&path))).is_some(), expected, "{} {}", text, shown);
            let rooted = [b"/", &path[..]].concat();
            prop_assert_eq!(absolute.matches(Path::new(OsStr::from_bytes(&rooted))).is_some(), expected, "/{} {}", text, shown);
            prop_assert_eq!(set.matches(Path::new(OsStr::from_bytes(&rooted))), None);
        }
    }

    #[test]
    fn covers_implies_matches(wide in pattern(), narrow in pattern(), paths in prop::collection::vec(some_path(), 20)) {
        let (Ok(wide), Ok(narrow)) = (Glob::parse(&wide), Glob::parse(&narrow)) else { return Ok(()) };
        prop_assert!(wide.covers(&wide));
        if !wide.covers(&narrow) {
            return Ok(());
        }
        let (wide_set, narrow_set) = (GlobSet::new([&wide]).unwrap(), GlobSet::new([&narrow]).unwrap());
        for path in paths {
            let path = Path::new(OsStr::from_bytes(&path));
            if narrow_set.matches_or_parent(path).is_some() {
                prop_assert!(wide_set.matches_or_parent(path).is_some(), "{} {} {:?}", wide, narrow, path);
            }
        }
    }

    #[test]
    fn all_that_matches_lies_below_the_prefix(text in pattern(), path in some_path()) {
        let Ok(glob) = Glob::parse(&text) else { return Ok(()) };
        let path = Path::new(OsStr::from_bytes(&path));
        if GlobSet::new([&glob]).unwrap().matches(path).is_some() {
            prop_assert!(path.starts_with(glob.fixed_prefix()));
            prop_assert!(glob.literal().is_none_or(|literal| literal == path));
        }
    }

    #[test]
    fn any_text_is_judged_and_a_pattern_reads_back(
        text in prop_oneof![pattern(), "\\PC*", ".*", "[ab/.~!*?{},\\[\\]\\\\^-]{0,16}"], path in some_path(),
    ) {
        if let Ok(glob) = Glob::parse(&text) {
            prop_assert_eq!(Glob::parse(glob.as_str()), Ok(glob.clone()), "{:?}", text);
            let json = serde_json::to_string(&glob).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Glob>(&json).unwrap(), &glob);
            let placed = glob.placed_at(&AbsPath::root()).unwrap();
            let _ = GlobSet::new([&placed]).unwrap().matches_or_parent(Path::new(OsStr::from_bytes(&path)));
        }
    }

    #[test]
    fn a_class_means_its_characters(set in "[!-.0-~]{1,6}", byte in 1u8..) {
        let Ok(glob) = Glob::parse(&format!("x[a{set}]")) else { return Ok(()) };
        let path = [b'x', byte];
        // Without a range or an early end the class is its characters.
        if set.contains([']', '-']) || byte == b'/' {
            return Ok(());
        }
        let found = GlobSet::new([&glob]).unwrap().matches(Path::new(OsStr::from_bytes(&path))).is_some();
        prop_assert_eq!(found, byte == b'a' || set.as_bytes().contains(&byte));
    }
}
