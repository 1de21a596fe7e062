use clap::{ArgGroup, Args};
use diesel_outbox::MessageId;
use diesel_outbox::admin::RedriveRate;

use super::explain_nothing;
use crate::arguments::UnprocessedArgs;
use crate::commands::acts::{Acts, Changed};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::note;
use crate::progress::Progress;
use crate::session::Session;

/// How many messages a dry run counts: a person acts no differently on more.
const COUNTED_MAX: usize = 100_000;

/// Which messages are sent again.
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["ids", "topic"])))]
pub(crate) struct ResendArgs {
    /// The message ids
    #[arg(value_name = "ID")]
    ids: Vec<MessageId>,
    /// All messages of this topic that their consumer should have confirmed by now
    #[arg(long)]
    topic: Option<String>,
    #[command(flatten)]
    age: UnprocessedArgs,
    /// At most this many per second
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    rate: u32,
    /// At most this many in one transaction
    #[arg(long, value_name = "COUNT", default_value_t = 500)]
    batch: usize,
}

impl ResendArgs {
    pub(super) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        match &self.topic {
            Some(topic) => self.resend_all(topic, session).await,
            None => self.resend_each(session).await,
        }
    }

    async fn resend_each(&self, session: &Session) -> Result<Exit, Error> {
        let mut acts = Acts::new("resend", session);
        for &id in &self.ids {
            let done = match session.options.dry_run {
                true => session.admin.sent(id).await.map(|sent| match sent.processed_at {
                    None => "would be sent again",
                    Some(_) => "would be refused: it is processed",
                }),
                false => session.admin.resend(id).await.map(|()| "is sent again"),
            };
            acts.note(id, done, session)?;
        }
        acts.finish(session)
    }

    async fn resend_all(&self, topic: &str, session: &Session) -> Result<Exit, Error> {
        let filter = self.age.filter(topic);
        let mut changed = session.admin.count_unprocessed(&filter, COUNTED_MAX).await?;
        if changed.count == 0 {
            note(&explain_nothing(topic, session).await?);
        }
        let (action, dry_run) = ("resend_all", session.options.dry_run);
        if !dry_run {
            let progress = Progress::of("sending again", changed);
            let rate = RedriveRate::default().per_second(self.rate).rows_max(self.batch);
            let moved = session.admin.resend_all(&filter, rate, |moved| progress.set(moved)).await?;
            drop(progress);
            (changed.count, changed.more) = (moved, false);
        }
        session.output.document(&Changed { action, dry_run, changed })?;
        Ok(Exit::Fine)
    }
}
