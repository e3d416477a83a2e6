//! How the command line tells of a failure. Exit 125.

use std::process::ExitCode;

pub(crate) use pinfold_engine::failure::Failure;

use crate::output;

/// Pinfold refused or failed.
pub(crate) const REFUSED: u8 = 125;

/// Tells it: as JSON on standard output if that was asked for, in words on standard error otherwise.
pub(crate) fn report(failure: &Failure, as_json: bool) -> ExitCode {
    match as_json {
        true => output::data(&format!("{:#}\n", failure.to_json())),
        false => output::words(&format!("{failure}\n")),
    }
    ExitCode::from(REFUSED)
}

/// What clap has to say, with Pinfold's exit status.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render();
    if error.use_stderr() {
        let styled = output::colour_on_stderr();
        output::words(&if styled { text.ansi().to_string() } else { text.to_string() });
        let context = error.get(clap::error::ContextKind::InvalidArg).map(ToString::to_string);
        if error.kind() == clap::error::ErrorKind::UnknownArgument
            && context.is_some_and(|arg| !arg.starts_with('-'))
        {
            output::words("hint: put `--` before the command: pinfold run -- ls -la\n");
        }
        return ExitCode::from(REFUSED);
    }
    output::data(&if output::colour_on_stdout() { text.ansi().to_string() } else { text.to_string() });
    ExitCode::SUCCESS
}
