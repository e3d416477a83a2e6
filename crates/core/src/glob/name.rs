//! One name against one component of a pattern.
//!
//! Owns the matching that needs no set: whether a component covers a literal name. Paths are matched by the
//! set.

use super::pattern::Token;

/// Whether a name is matched, without preparing a set: takes each `*` as short as it can be, and goes back
/// only to the last one.
pub(super) fn name_matches(tokens: &[Token], name: &[u8]) -> bool {
    let mut units = Vec::new();
    for token in tokens {
        match token {
            // A character is as many bytes as it has.
            Token::Literal(c) => units.extend(c.encode_utf8(&mut [0; 4]).bytes().map(Unit::Byte)),
            token => units.push(Unit::Token(*token)),
        }
    }
    let (mut at, mut place, mut retry) = (0, 0, None);
    while let Some(byte) = name.get(at) {
        match units.get(place) {
            Some(Unit::Token(Token::Many)) => {
                retry = Some((at, place));
                place += 1;
            }
            Some(unit) if unit.takes(*byte) => (at, place) = (at + 1, place + 1),
            _ => {
                let Some((from, many)) = retry else { return false };
                retry = Some((from + 1, many));
                (at, place) = (from + 1, many + 1);
            }
        }
    }
    units.get(place..).is_some_and(|rest| rest.iter().all(|unit| matches!(unit, Unit::Token(Token::Many))))
}

/// What one byte of a name is compared with.
enum Unit {
    Byte(u8),
    Token(Token),
}

impl Unit {
    fn takes(&self, byte: u8) -> bool {
        match *self {
            Self::Byte(expected) => byte == expected,
            Self::Token(Token::One) => true,
            Self::Token(Token::Class { ascii, rest }) => {
                if byte.is_ascii() {
                    ascii >> byte & 1 == 1
                } else {
                    rest
                }
            }
            Self::Token(Token::Many | Token::Literal(_)) => false,
        }
    }
}
