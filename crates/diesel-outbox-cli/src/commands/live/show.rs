use clap::Args;
use diesel_outbox::MessageId;
use diesel_outbox::admin::LiveMessage;

use super::list::state_name;
use crate::commands::messages::{Decoded, Shown, show_errors};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Document, Page, instant};
use crate::session::Session;

/// Which message is shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct ShowArgs {
    /// The message id
    id: MessageId,
}

impl ShowArgs {
    pub(super) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        let message = session.admin.live_message(self.id).await?;
        let decoded = Decoded::of(&session.admin, &message.topic, &message.kind, message.payload.as_deref());
        session.output.document(&Shown { message, decoded })?;
        Ok(Exit::Fine)
    }
}

impl Document for Shown<LiveMessage> {
    fn show(&self, page: &mut Page) {
        let message = &self.message;
        page.field("id", message.message_id);
        page.field("row", message.id);
        page.field("topic", &message.topic);
        page.field("state", state_name(message.state));
        page.field_of("lane", message.lane);
        page.field_of("key", message.key.as_deref());
        page.field("kind", &message.kind);
        page.field("enqueued", instant(message.created_at));
        page.field_of("due at", message.due_at.map(instant));
        page.field_of("deliver at", message.deliver_at.map(instant));
        page.field_of("owner", message.owner);
        page.field_of("held until", message.leased_until.map(instant));
        page.field("attempts", message.attempts);
        page.field("failures", message.failures);
        show_errors(&message.errors, page);
        page.field("headers", &message.headers_json);
        self.decoded.show(page);
    }
}
