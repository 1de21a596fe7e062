//! Tells why a command failed.

use crate::address::redacted;
use crate::arguments::Options;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{note, paint_error, printable};

/// Writes an error to standard error, without the password of the database.
pub(crate) fn report(error: &Error, options: &Options) -> Exit {
    let exit = error.exit();
    if exit != Exit::Fine {
        let url = options.database_url.as_deref().unwrap_or_default();
        eprintln!("{} {}", paint_error("error:"), printable(&redacted(&error.to_string(), url)));
        if let Some(hint) = error.hint() {
            note(&format!("hint: {hint}"));
        }
    }
    exit
}
