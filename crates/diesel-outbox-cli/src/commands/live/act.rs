use clap::Args;
use diesel_outbox::MessageId;
use diesel_outbox::admin::SendNowOutcome;

use crate::commands::acts::{Acts, counted};
use crate::confirm::confirm;
use crate::error::Error;
use crate::exit::Exit;
use crate::session::Session;

/// Which messages.
#[derive(Debug, Clone, Args)]
pub(crate) struct MessagesArgs {
    /// The message ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<MessageId>,
}

impl MessagesArgs {
    pub(super) async fn send_now(&self, session: &Session) -> Result<Exit, Error> {
        let mut acts = Acts::new("send_now", session);
        for &id in &self.ids {
            let done = match session.options.dry_run {
                true => session.admin.live_message(id).await.map(|_| "would be sent now, if it waits"),
                false => session.admin.send_now(id).await.map(|outcome| match outcome {
                    SendNowOutcome::Due => "is due now",
                    _ => "is due soon anyway, or is being sent",
                }),
            };
            acts.note(id, done, session)?;
        }
        acts.finish(session)
    }

    pub(super) async fn cancel(&self, session: &Session) -> Result<Exit, Error> {
        let mut acts = Acts::new("cancel_waiting", session);
        if !session.options.dry_run {
            confirm(
                &session.options,
                &format!("Remove {}, so that nobody sends it", counted(&self.ids, "live message")),
            )?;
        }
        for &id in &self.ids {
            let done = match session.options.dry_run {
                true => session.admin.live_message(id).await.map(|_| "would be removed, if no relay holds it"),
                false => session.admin.cancel_waiting(id).await.map(|()| "removed"),
            };
            acts.note(id, done, session)?;
        }
        acts.finish(session)
    }
}
