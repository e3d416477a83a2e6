//! Shells: pipelines and job control in a script, and an interactive bash in a terminal.

use pinfold_conformance::terminal::Terminal;
use pinfold_conformance::{Place, case, each, skip};

#[test]
fn pipelines_and_substitutions() {
    each(case!("pipelines"), |place| {
        let script = r"set -euo pipefail
seq 1 1000 | sort -rn | head -n 3000 | sed -n 1,3p | tr '\n' ' '
diff <(echo a) <(echo a) && echo same
x=$(printf 'a\nb\n' | wc -l)
echo $x
cat <<END | tac
one
two
END
echo done >&2
mkfifo p
(echo through >p &)
cat p";
        let done = place.run().options(["--profile", "build"]).command(["bash", "-c", script]).ok();
        assert_eq!(done.stdout(), "1000 999 998 same\n2\ntwo\none\nthrough\n");
        assert_eq!(done.stderr(), "done\n");
    });
}

#[test]
fn tools_that_everyone_uses() {
    each(case!("tools"), |place| {
        let script = r"set -e
            exec 3>&1 >/dev/null
            ls / .; find . -name control >&3; df .; du -s .; id -un; whoami; date; hostname; uname -a; env; nproc
            mktemp; tar cf x.tar control; tar tf x.tar; stat -c %U control; touch -d yesterday control
            sed -i s/control/edited/ control
            cat control >&3";
        let done = place.run().options(["--profile", "build"]).shell(script);
        assert_eq!(done.status, Some(0), "{done:?}");
        assert!(done.stdout().contains("./control") && done.stdout().contains("edited"), "{}", done.stdout());
    });
}

/// A bash in a terminal, once its prompt is there.
fn bash(place: &Place) -> Terminal {
    let run = place.run().options(["--processes", "32", "--env", "PS1=ready $?> ", "--env", "TERM=dumb"]);
    let mut terminal = Terminal::start(&run.prepare(&[], ["bash", "--norc", "--noprofile", "-i"]), 24, 80);
    terminal.wait_for("ready 0> ");
    terminal
}

#[test]
fn an_interactive_bash() {
    let case = case!("interactive");
    each(case, |place| {
        if skip::needs(case, "bash", "bash").is_none() {
            return;
        }
        let mut terminal = bash(place);
        terminal.type_in("echo $((6 * 7))-$TERM\n");
        terminal.wait_for("42-dumb");
        terminal.wait_for("ready 0> ");
        terminal.type_in("stty size\n");
        terminal.wait_for("24 80");
        terminal.resize(40, 132);
        terminal.wait_for("ready 0> ");
        terminal.type_in("stty size\n");
        terminal.wait_for("40 132");
        terminal.wait_for("ready 0> ");
        terminal.type_in("exit 42\n");
        assert_eq!(terminal.wait().code(), Some(42), "{}", terminal.shown());
        assert!(terminal.is_restored(), "the terminal is not as it was");
    });
}

/// What comes of a job is told by the next prompt. Nothing is typed after a signal character: the kernel and
/// the shell's own line editor may throw that away, with a wall and without.
#[test]
fn signal_characters_end_or_stop_the_job_and_not_the_shell() {
    each(case!("characters"), |like| {
        for (character, prompt) in [("\x03", "ready 130> "), ("\x1a", "ready 148> "), ("\x1c", "ready 131> ")]
        {
            let place = Place::new(like.backend, like.caller);
            let mut terminal = bash(&place);
            terminal.type_in("sh -c 'echo go; cat'\n");
            terminal.wait_for("go\r\n");
            terminal.type_in("typed\n");
            terminal.wait_for("typed\r\ntyped\r\n");
            terminal.type_in(character);
            terminal.wait_for(prompt);
        }
    });
}

/// Without a line editor, what is typed after a job was stopped reaches it when it goes on.
#[test]
fn jobs_stop_and_go_on() {
    each(case!("jobs"), |place| {
        let script = "set -m; sh -c 'echo go; cat'; echo stopped $?; fg; echo ended $?; exit 42";
        let run = place.run().options(["--processes", "32"]);
        let mut terminal = Terminal::start(&run.prepare(&[], ["bash", "-c", script]), 24, 80);
        terminal.wait_for("go\r\n");
        terminal.type_in("first\n");
        terminal.wait_for("first\r\nfirst\r\n");
        terminal.type_in("\x1a");
        terminal.wait_for("stopped 148");
        terminal.wait_for("cat'\r\n");
        terminal.type_in("typed\n");
        terminal.wait_for("typed\r\ntyped\r\n");
        terminal.type_in("\x04");
        terminal.wait_for("ended 0");
        assert_eq!(terminal.wait().code(), Some(42), "{}", terminal.shown());
        assert!(terminal.is_restored(), "the terminal is not as it was");
    });
}

/// A terminal that is closed takes the sandbox with it: also what does not listen to SIGHUP finds its input
/// at an end, as on a terminal of the host.
#[test]
fn a_terminal_that_goes_away_ends_the_sandbox() {
    each(case!("hang-up"), |place| {
        for script in ["echo ready; cat", "trap '' HUP; echo ready; cat"] {
            let mut terminal = Terminal::start(&place.run().prepare(&[], ["sh", "-c", script]), 24, 80);
            terminal.wait_for("ready");
            terminal.close();
            pinfold_conformance::host::nothing_left(place);
        }
    });
}

#[test]
fn programs_that_draw_get_a_terminal() {
    let case = case!("draw");
    each(case, |place| {
        if skip::needs(case, "script", "bsdutils").is_none() {
            return;
        }
        // A terminal within the sandbox's own terminal, as multiplexers and test runners make it.
        let run = place.run().options(["--processes", "32"]);
        let done = run.command(["script", "-qec", "tty; stty size", "/dev/null"]);
        assert!(done.status == Some(0) && done.stdout().contains("/dev/pts/"), "{done:?}");
    });
}
