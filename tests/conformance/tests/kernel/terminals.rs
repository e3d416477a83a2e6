//! Terminals (classes 42, 46): nothing can be typed for others to execute, and the caller's terminal is never
//! inside.

use pinfold_conformance::terminal::Terminal;
use pinfold_conformance::{Off, case, denials, each};

const REACHES: Off = Off::Reaches(&["seccomp"]);
const CONTROL: &[&str] = &["terminal-size"];

denials! {
    type_ahead { attempt: &["type"], refused: &["EPERM"], off: REACHES, control: CONTROL }
    type_ahead_with_high_bits { attempt: &["type-high"], refused: &["EPERM"], off: REACHES, control: CONTROL }
    console { attempt: &["console"], refused: &["EPERM"], off: REACHES, control: CONTROL }
    console_with_high_bits { attempt: &["console-high"], refused: &["EPERM"], off: REACHES, control: CONTROL }
    discipline { attempt: &["discipline"], refused: &["EPERM"], off: REACHES, control: CONTROL }
    the_host_s_console {
        attempt: &["console-device"], refused: &["ENOENT", "EACCES"], off: Off::Never("not there"),
    }
    a_controlling_terminal_without_one {
        attempt: &["controlling-terminal"], refused: &["ENXIO"],
        off: Off::Never("the command leads a session of its own"),
    }
}

/// Run in a terminal, the inside has one of its own: another device, whose input nobody outside executes.
#[test]
fn the_caller_s_terminal_is_not_inside() {
    each(case!("own"), |place| {
        let script = "tty; ls -l /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2; /tools/pinfold-probe \
            type-into 0; cat /proc/self/stat; echo end";
        let command = place.run().prepare(&[], ["sh", "-c", script]);
        let mut terminal = Terminal::start(&command, 24, 80);
        terminal.wait_for("end");
        assert!(terminal.wait().success());
        let shown = terminal.shown();
        assert!(shown.contains("/dev/pts/0"), "no terminal inside: {shown}");
        assert!(shown.contains("\"errno\":\"EPERM\""), "typing ahead was not refused: {shown}");
        assert!(terminal.is_restored(), "the terminal is not as it was");
    });
}

/// Every one of the three that is a terminal is replaced, also when the others are not.
#[test]
fn no_standard_descriptor_leads_to_it() {
    each(case!("streams"), |place| {
        for redirection in ["", "</dev/null", ">/dev/null", "2>/dev/null", "</dev/null >/dev/null"] {
            let prepared = place.run().prepare(
                &[],
                ["sh", "-c", "stat -Lc %t:%T:%i:%d /proc/self/fd/[012] >/workspace/seen; echo done"],
            );
            let mut words: Vec<String> =
                vec!["-c".to_owned(), format!("exec \"$@\" {redirection}"), "sh".to_owned()];
            words.push(prepared.get_program().to_string_lossy().into_owned());
            words.extend(prepared.get_args().map(|word| word.to_string_lossy().into_owned()));
            let mut command = std::process::Command::new("sh");
            command.args(words).current_dir(place.path("workspace"));
            for (name, value) in prepared.get_envs() {
                command.env(name, value.unwrap_or_default());
            }
            let mut terminal = Terminal::start(&command, 24, 80);
            let outer = terminal.device();
            assert!(terminal.wait().success(), "{redirection}: {}", terminal.shown());
            let seen = place.read("workspace/seen");
            assert!(
                !seen.lines().any(|line| line.ends_with(&outer)),
                "{redirection}: the caller's terminal is inside: {seen}"
            );
        }
    });
}
