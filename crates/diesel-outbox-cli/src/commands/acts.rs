//! What a command that changes something has done.

use diesel_outbox::MessageId;
use diesel_outbox::admin::{AdminError, BoundedCount};
use serde::Serialize;

use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Document, Page, Row};
use crate::session::Session;

/// The answer of a command that changes messages with a filter.
#[derive(Debug, Serialize)]
pub(crate) struct Changed {
    /// The method of `Admin`, as the audit has it.
    pub(crate) action: &'static str,
    /// Whether nothing was done.
    pub(crate) dry_run: bool,
    /// How many messages were changed, or would be.
    pub(crate) changed: BoundedCount,
}

impl Document for Changed {
    fn show(&self, page: &mut Page) {
        let Self { action, dry_run, changed } = self;
        let would = if *dry_run { " would change" } else { "" };
        page.line(&format!("{action}{would}: {changed}"));
    }
}

/// The answer of a command that changes single messages or topics.
#[derive(Debug, Serialize)]
pub(crate) struct Acts {
    action: &'static str,
    dry_run: bool,
    /// How many were changed, or would be.
    changed: usize,
    results: Vec<Act>,
}

/// What became of one of them.
#[derive(Debug, Serialize)]
pub(crate) struct Act {
    /// The message id, or the topic.
    of: String,
    /// What was done, or what would be; `failed` with an error.
    outcome: &'static str,
    error: Option<String>,
}

impl Row for Act {
    const HEADINGS: &'static [&'static str] = &["of", "outcome"];

    fn cells(&self) -> Vec<String> {
        let outcome = match &self.error {
            Some(error) => format!("{}: {error}", self.outcome),
            None => self.outcome.to_owned(),
        };
        vec![self.of.clone(), outcome]
    }
}

impl Document for Acts {
    fn show(&self, page: &mut Page) {
        page.rows(&self.results);
    }
}

impl Acts {
    pub(crate) fn new(action: &'static str, session: &Session) -> Self {
        Self { action, dry_run: session.options.dry_run, changed: 0, results: Vec::new() }
    }

    /// Notes what became of one. An error that would meet the others, too, ends the command.
    pub(crate) fn note(
        &mut self,
        of: impl ToString,
        done: Result<&'static str, AdminError>,
        session: &Session,
    ) -> Result<(), Error> {
        let (outcome, error) = match done {
            Ok(outcome) => (outcome, None),
            Err(AdminError::Store(error)) => {
                // What was done before is reported all the same.
                if !self.results.is_empty() {
                    session.output.document(self)?;
                }
                return Err(AdminError::from(error).into());
            }
            Err(error) => ("failed", Some(error.to_string())),
        };
        self.changed += usize::from(error.is_none());
        self.results.push(Act { of: of.to_string(), outcome, error });
        Ok(())
    }

    /// Writes the answer; failed if any has.
    pub(crate) fn finish(&self, session: &Session) -> Result<Exit, Error> {
        session.output.document(self)?;
        let has_failed = self.results.iter().any(|act| act.error.is_some());
        Ok(if has_failed { Exit::Failed } else { Exit::Fine })
    }
}

/// Several messages in a sentence.
pub(crate) fn counted(messages: &[MessageId], what: &str) -> String {
    match messages {
        [one] => format!("the {what} {one}"),
        many => format!("{} {what}s", many.len()),
    }
}
