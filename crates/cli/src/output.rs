//! Where text goes: data to standard output, words to standard error, colours only to a terminal.

use std::io::{ErrorKind, IsTerminal, Write};

use pinfold_core::event::Event;

/// Writes data. A reader that has gone away is no error: `pinfold … | head` ends quietly.
pub(crate) fn data(text: &str) {
    finish(std::io::stdout().lock().write_all(text.as_bytes()));
}

/// Writes an event as a line of JSON, at once. A command is running: a reader that has gone away is found when the outcome
/// is written, not here.
pub(crate) fn event(event: &Event) {
    let written = serde_json::to_string(event).map(|text| writeln!(std::io::stdout().lock(), "{text}"));
    drop(written);
}

/// Writes words for a person.
pub(crate) fn words(text: &str) {
    finish(std::io::stderr().lock().write_all(text.as_bytes()));
}

/// A full disk or a closed descriptor loses the answer, and the caller must know.
fn finish(written: std::io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(_) => std::process::exit(i32::from(crate::failure::REFUSED)),
    }
}

/// Whether colours may be used on standard output.
pub(crate) fn colour_on_stdout() -> bool {
    std::io::stdout().is_terminal() && no_color_unset()
}

/// Whether colours may be used on standard error.
pub(crate) fn colour_on_stderr() -> bool {
    std::io::stderr().is_terminal() && no_color_unset()
}

fn no_color_unset() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Text made bold for a terminal.
pub(crate) fn bold(text: &str) -> String {
    if colour_on_stdout() { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Text made faint for a terminal.
pub(crate) fn faint(text: &str) -> String {
    if colour_on_stdout() { format!("\u{1b}[2m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Rows in aligned columns, two spaces apart; the last one is faint.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |i: usize| {
        rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from("  ");
        for (i, cell) in row.iter().enumerate() {
            let last = i + 1 == row.len();
            let padding = if last { 0 } else { widths[i] - cell.chars().count() + 2 };
            line.push_str(&if last && i > 1 { faint(cell) } else { cell.clone() });
            line.push_str(&" ".repeat(padding));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
