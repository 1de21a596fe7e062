//! Asks before something is destroyed.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::arguments::Options;
use crate::error::Error;

/// Lets something go on that destroys: with `--yes`, or after a yes at the terminal. `what` is a question without its mark.
pub(crate) fn confirm(options: &Options, what: &str) -> Result<(), Error> {
    if options.yes {
        return Ok(());
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Error::usage(format!(
            "not done, because nobody can be asked: {what}? Add --yes, or --dry-run to see more"
        )));
    }
    let mut stderr = io::stderr();
    let asked = write!(stderr, "{what}? [y/N] ").and_then(|()| stderr.flush());
    asked.map_err(|error| Error::failed(format!("the question could not be written: {error}")))?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Error::failed(format!("the answer could not be read: {error}")))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Error::failed("not done")),
    }
}
