//! Text that is safe to show, and the one way a value is written as text.
//!
//! Owns the escaping of anything that came from outside before it meets a terminal, a log line or an
//! approval prompt, and the macro that gives a value type its serde and JSON Schema forms. Does not own
//! colours, wrapping or translation.

mod written;

use std::borrow::Cow;
use std::fmt::Write as _;

pub(crate) use written::{deserialize_written, written_as_text};

/// How many characters of a refused text an error repeats; the rest is cut, since long padding is itself a
/// way to push a message off the screen.
const EXCERPT_CHARS: usize = 80;

/// Characters besides the control characters that show as nothing, as a plain space, or that reorder what
/// surrounds them: Unicode's Default_Ignorable_Code_Point, the bidi and annotation controls, every space but
/// U+0020, and fillers drawn blank. Sorted, so that it can be searched.
const HIDDEN: &[(u32, u32)] = &[
    (0x00A0, 0x00A0),   // no-break space
    (0x00AD, 0x00AD),   // soft hyphen
    (0x034F, 0x034F),   // combining grapheme joiner
    (0x061C, 0x061C),   // Arabic letter mark
    (0x115F, 0x1160),   // Hangul fillers
    (0x1680, 0x1680),   // Ogham space
    (0x17B4, 0x17B5),   // Khmer inherent vowels
    (0x180B, 0x180F),   // Mongolian variation selectors and vowel separator
    (0x2000, 0x200F),   // spaces, zero-width characters, directional marks
    (0x2028, 0x202F),   // line and paragraph separators, bidi embeddings, narrow space
    (0x205F, 0x206F),   // mathematical space, joiners, invisible operators, bidi isolates
    (0x2800, 0x2800),   // blank Braille pattern
    (0x3000, 0x3000),   // ideographic space
    (0x3164, 0x3164),   // Hangul filler
    (0xFDD0, 0xFDEF),   // noncharacters
    (0xFE00, 0xFE0F),   // variation selectors
    (0xFEFF, 0xFEFF),   // byte order mark
    (0xFFA0, 0xFFA0),   // half-width Hangul filler
    (0xFFF0, 0xFFFB),   // unassigned ignorables, interlinear annotation
    (0x13430, 0x1343F), // Egyptian format controls
    (0x1BCA0, 0x1BCA3), // shorthand format controls
    (0x1D173, 0x1D17A), // musical format controls
    (0xE0000, 0xE0FFF), // tags, supplementary variation selectors
];

/// Whether a character must be shown as an escape rather than itself.
pub fn is_hidden(c: char) -> bool {
    if c.is_control() {
        return true;
    }
    let code = u32::from(c);
    if code < 0xA0 {
        return false;
    }
    let after = HIDDEN.partition_point(|&(from, _)| from <= code);
    let listed = after.checked_sub(1).and_then(|at| HIDDEN.get(at)).is_some_and(|&(_, to)| code <= to);
    listed || code & 0xFFFE == 0xFFFE
}

/// Makes text safe for a terminal or one log line: every character that is invisible, moves the cursor or
/// reorders its neighbours becomes a visible escape. Letters, marks and symbols of every script stay.
///
/// Borrowed when nothing had to change. A backslash stays as it is, so that a second pass changes nothing:
/// the result is for reading, not for decoding.
pub fn visible(text: &str) -> Cow<'_, str> {
    let Some((at, _)) = text.char_indices().find(|&(_, c)| is_hidden(c)) else {
        return Cow::Borrowed(text);
    };
    let (clean, rest) = text.split_at(at);
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(clean);
    rest.chars().for_each(|c| push_visible(&mut out, c));
    Cow::Owned(out)
}

/// [`visible`] for bytes that may not be UTF-8: a byte that is no part of a character becomes `\xff`.
pub fn visible_bytes(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(bytes) {
        return visible(text);
    }
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push_visible(&mut out, c));
        chunk.invalid().iter().for_each(|byte| push_hex(&mut out, *byte));
    }
    Cow::Owned(out)
}

/// A refused text as an error repeats it: visible, and cut when it is long.
pub fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS) {
        None => visible(text).into_owned(),
        Some((at, _)) => visible(text.get(..at).unwrap_or_default()).into_owned() + "…",
    }
}

/// Appends one character, escaped when it is hidden.
fn push_visible(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if !is_hidden(c) => out.push(c),
        c => match u8::try_from(c) {
            Ok(byte) if byte.is_ascii() => push_hex(out, byte),
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        },
    }
}

/// Appends a byte as `\x1b`.
fn push_hex(out: &mut String, byte: u8) {
    let _ = write!(out, "\\x{byte:02x}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hides_what_attacks_hide_behind() {
        for (text, shown) in [
            ("plain", "plain"),
            ("a\tb\nc\r", "a\\tb\\nc\\r"),
            ("\u{1b}[2J", "\\x1b[2J"),
            ("\u{1b}]52;c;AAAA\u{7}", "\\x1b]52;c;AAAA\\x07"),
            ("\u{1b}]8;;http://x\u{1b}\\", "\\x1b]8;;http://x\\x1b\\"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\0\u{7f}", "\\x00\\x7f"),
            ("rm\u{a0}-rf", "rm\\u{a0}-rf"),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("a\u{2066}b\u{2069}", "a\\u{2066}b\\u{2069}"),
            ("a\u{200b}b\u{200d}c\u{feff}", "a\\u{200b}b\\u{200d}c\\u{feff}"),
            ("a\u{2028}b\u{2029}", "a\\u{2028}b\\u{2029}"),
            ("\u{e0041}\u{e007f}", "\\u{e0041}\\u{e007f}"),
            ("x\u{fe0f}\u{e0100}", "x\\u{fe0f}\\u{e0100}"),
            ("\u{3164}\u{115f}\u{2800}", "\\u{3164}\\u{115f}\\u{2800}"),
            ("\u{10ffff}", "\\u{10ffff}"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn keeps_ordinary_writing_borrowed() {
        for text in [
            "",
            "naïve café",
            "Привет",
            "日本語",
            "हिन्दी",
            "العربية",
            "עברית",
            "ไทย",
            "e\u{301}",
            "🦀",
            "C:\\x",
        ] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_shown() {
        assert_eq!(visible_bytes(b"a\xff\xfeb\n"), "a\\xff\\xfeb\\n");
        assert_eq!(visible_bytes(b"\xe2\x80\xae"), "\\u{202e}");
        assert_eq!(visible_bytes(b"\xc0\xafok"), "\\xc0\\xafok");
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(HIDDEN.windows(2).all(|pair| pair[0].1 < pair[1].0));
        assert!(HIDDEN.iter().all(|(from, to)| from <= to));
    }

    #[test]
    fn an_excerpt_is_short() {
        assert_eq!(excerpt("a\n"), "a\\n");
        assert_eq!(excerpt(&"x".repeat(500)), "x".repeat(80) + "…");
    }

    /// Arbitrary text in which hidden characters are frequent.
    fn hostile() -> impl Strategy<Value = String> {
        let range = prop::sample::select(HIDDEN).prop_flat_map(|(from, to)| from..=to);
        let hidden = range.prop_map(|code| char::from_u32(code).unwrap_or('\u{1b}'));
        prop::collection::vec(
            prop_oneof![
                any::<char>(),
                hidden,
                (0u8..32).prop_map(char::from),
                (0x7fu8..0xa0).prop_map(char::from)
            ],
            0..40,
        )
        .prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left_and_a_second_pass_changes_nothing(text in hostile()) {
            let shown = visible(&text).into_owned();
            prop_assert!(!shown.chars().any(is_hidden));
            prop_assert!(!shown.chars().any(|c| c.is_control() || (c.is_whitespace() && c != ' ')));
            prop_assert_eq!(visible(&shown), shown.as_str());
        }

        #[test]
        fn bytes_are_shown_like_their_text(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let shown = visible_bytes(&bytes).into_owned();
            prop_assert!(!shown.chars().any(is_hidden));
            if let Ok(text) = str::from_utf8(&bytes) {
                prop_assert_eq!(visible(text), shown);
            }
        }
    }
}
