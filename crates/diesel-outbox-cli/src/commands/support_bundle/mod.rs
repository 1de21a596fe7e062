//! A file for a report of a problem.

mod contents;

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use self::contents::Contents;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Document, Page};
use crate::session::Session;

/// Where the bundle goes.
#[derive(Debug, Clone, Args)]
pub(crate) struct SupportBundleArgs {
    /// The file, which must not exist; - is standard output
    #[arg(long, value_name = "PATH", default_value = "outbox-support-bundle.json")]
    file: PathBuf,
}

#[derive(Debug, Serialize)]
struct Written {
    file: PathBuf,
    bytes: usize,
}

impl Document for Written {
    fn show(&self, page: &mut Page) {
        page.line(&format!("wrote {} ({} bytes): read it before you send it", self.file.display(), self.bytes));
    }
}

impl SupportBundleArgs {
    pub(crate) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        let contents = Contents::gather(session).await?;
        let mut text = serde_json::to_string_pretty(&contents)
            .map_err(|error| Error::failed(format!("the bundle cannot be written as JSON: {error}")))?;
        text.push('\n');
        if self.file.as_os_str() == "-" {
            session.output.text(&text)?;
            return Ok(Exit::Fine);
        }
        // Not over a file that somebody needs.
        let written = File::create_new(&self.file).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| Error::File { what: format!("{} cannot be written", self.file.display()), error })?;
        session.output.document(&Written { file: self.file.clone(), bytes: text.len() })?;
        Ok(Exit::Fine)
    }
}
