use clap::Args;
use diesel_outbox::MessageId;
use diesel_outbox::admin::DeadLetter;

use crate::commands::messages::{Decoded, Shown, show_errors};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Document, Page, instant};
use crate::session::Session;

/// Which dead letter is shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct ShowArgs {
    /// The message id
    id: MessageId,
}

impl ShowArgs {
    pub(super) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        let message = session.admin.dead_letter(self.id).await?;
        let decoded = Decoded::of(&session.admin, &message.topic, &message.kind, message.payload.as_deref());
        session.output.document(&Shown { message, decoded })?;
        Ok(Exit::Fine)
    }
}

impl Document for Shown<DeadLetter> {
    fn show(&self, page: &mut Page) {
        let letter = &self.message;
        page.field("id", letter.message_id);
        page.field("topic", &letter.topic);
        page.field_of("lane", letter.lane);
        page.field_of("key", letter.key.as_deref());
        page.field("kind", &letter.kind);
        page.field("enqueued", instant(letter.created_at));
        page.field("dead since", instant(letter.dead_at));
        page.field("reason", &letter.reason);
        page.field("attempts", letter.attempts);
        page.field("failures", letter.failures);
        show_errors(&letter.errors, page);
        page.field("headers", &letter.headers_json);
        self.decoded.show(page);
    }
}
