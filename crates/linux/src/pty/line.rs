//! A line of the supervisor's own on the caller's terminal, below what the command has said. It is drawn only where the
//! cursor is known to be at the start of an empty line, leaves the cursor there, and is taken away before the
//! command says more; a command that moves the cursor itself gets no such line any more.

/// Erases from the cursor to the end of the line (ECMA-48, EL).
const ERASE: &[u8] = b"\x1b[K";
/// A terminal that is narrower has no room for it.
const NARROWEST: usize = 20;

/// How far a control sequence has been seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sequence {
    #[default]
    None,
    /// An escape character.
    Escape,
    /// The parameters of a control sequence.
    Parameters,
}

/// Who ends lines with a carriage return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Returns {
    /// The inner terminal: a line feed without one only goes down.
    Inner,
    /// The caller's terminal.
    Outer,
}

/// The line, and what is known about the place for it.
#[derive(Debug)]
pub(super) struct Line {
    returns: Returns,
    drawn: bool,
    /// Whether the cursor is at the start of an empty line.
    free: bool,
    /// Whether the command has only written so far, one line after another.
    plain: bool,
    returned: bool,
    sequence: Sequence,
}

impl Line {
    /// For a terminal whose cursor is at the start of a line, as after the caller's command line.
    pub(super) fn new(returns: Returns) -> Self {
        Self { returns, drawn: false, free: true, plain: true, returned: false, sequence: Sequence::None }
    }

    /// What shows `text` on a terminal of so many columns; nothing where it would tear what the command says.
    pub(super) fn draw(&mut self, text: &str, columns: usize) -> Vec<u8> {
        if !self.free || !self.plain || columns < NARROWEST {
            return Vec::new();
        }
        self.drawn = true;
        // One column less: a cursor beyond the last may be on the next line or not.
        let shown: Vec<u8> =
            text.bytes().filter(|byte| (b' '..=b'~').contains(byte)).take(columns - 1).collect();
        [&shown, ERASE, b"\r"].concat()
    }

    /// What takes the line away.
    pub(super) fn take_away(&mut self) -> &'static [u8] {
        if std::mem::take(&mut self.drawn) { ERASE } else { b"" }
    }

    /// Takes note of what the command says; to be written before it is what is given back.
    pub(super) fn make_way(&mut self, said: &[u8]) -> &'static [u8] {
        for byte in said {
            self.heed(*byte);
        }
        if said.is_empty() { b"" } else { self.take_away() }
    }

    fn heed(&mut self, byte: u8) {
        match (self.sequence, byte) {
            (Sequence::None, b'\x1b') => self.sequence = Sequence::Escape,
            (Sequence::None, b'\n') => self.free = self.returned || self.returns == Returns::Outer,
            (Sequence::None, b'\r') => {}
            (Sequence::None, _) => self.free = false,
            (Sequence::Escape, b'[') => self.sequence = Sequence::Parameters,
            (Sequence::Parameters, b' '..=b'?') => {}
            // Colours and erasing within the line leave the cursor where it is.
            (Sequence::Parameters, b'm' | b'K') => self.sequence = Sequence::None,
            (Sequence::Escape | Sequence::Parameters, _) => {
                (self.plain, self.sequence) = (false, Sequence::None);
            }
        }
        self.returned = byte == b'\r';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(said: &[&str]) -> Line {
        let mut line = Line::new(Returns::Inner);
        for said in said {
            assert!(line.make_way(said.as_bytes()).is_empty());
        }
        line
    }

    #[test]
    fn it_is_drawn_at_the_start_of_an_empty_line_only() {
        for said in [&[][..], &["a\r\n"], &["a\r", "\n"], &["\x1b[1;31mred\x1b[0m\r\n"], &["a\r\x1b[Kb\r\n"]]
        {
            assert_eq!(after(said).draw("used", 80), b"used\x1b[K\r", "{said:?}");
        }
        for said in [&["a"][..], &["password: "], &["a\r\nb"], &["50%\r"], &["a\n"], &["a\r\n\x1b[31mb"]] {
            assert!(after(said).draw("used", 80).is_empty(), "{said:?}");
        }
        let mut outer = Line::new(Returns::Outer);
        assert!(outer.make_way(b"a\n").is_empty() && !outer.draw("used", 80).is_empty());
    }

    #[test]
    fn it_makes_way_for_what_is_said_and_comes_back_after_it() {
        let mut line = after(&[]);
        line.draw("used", 80);
        assert_eq!(line.make_way(b""), b"");
        assert_eq!(line.make_way(b"said\r\n"), ERASE);
        assert_eq!(line.make_way(b"more\r\n"), b"");
        assert!(!line.draw("used", 80).is_empty());
        assert_eq!((line.take_away(), line.take_away()), (ERASE, &b""[..]));
    }

    #[test]
    fn a_program_that_moves_the_cursor_has_the_screen_to_itself() {
        for said in ["\x1b[2J\r\n", "\x1b[?1049h\r\n", "\x1b[A\r\n", "\x1b]0;title\x07\r\n", "\x1bM\r\n"] {
            assert!(after(&[said]).draw("used", 80).is_empty(), "{said:?}");
        }
        assert!(after(&["\x1b", "[1", "A", "\r\n"]).draw("used", 80).is_empty(), "in pieces too");
    }

    #[test]
    fn it_never_wraps() {
        assert_eq!(after(&[]).draw(&"x".repeat(100), 30).len(), 29 + ERASE.len() + 1);
        assert!(after(&[]).draw("used", 10).is_empty());
        assert_eq!(after(&[]).draw("é\u{1b}x", 80), b"x\x1b[K\r", "plain text only");
    }
}
