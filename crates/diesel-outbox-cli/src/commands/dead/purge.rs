use clap::Args;
use diesel_outbox::MessageId;

use super::redrive::exactly;
use super::{COUNTED_MAX, Selection, selection};
use crate::arguments::DeadLetterArgs;
use crate::commands::acts::{Acts, Changed, counted};
use crate::confirm::confirm;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{note, plural};
use crate::progress::Progress;
use crate::session::Session;

/// Which dead letters are deleted.
#[derive(Debug, Clone, Args)]
pub(crate) struct PurgeArgs {
    /// The message ids
    #[arg(value_name = "ID")]
    ids: Vec<MessageId>,
    /// Every dead letter
    #[arg(long)]
    all: bool,
    // Its heading stands above all that follows.
    #[command(flatten)]
    filter: DeadLetterArgs,
}

impl PurgeArgs {
    pub(super) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        match selection(&self.ids, &self.filter, self.all)? {
            Selection::Ids(ids) => purge_each(ids, session).await,
            Selection::Filter => self.purge_matching(session).await,
        }
    }

    async fn purge_matching(&self, session: &Session) -> Result<Exit, Error> {
        let filter = self.filter.filter(session.admin.now().await?);
        let total = session.admin.count_dead_letters_of(&filter, COUNTED_MAX).await?;
        if total.count == 0 {
            note(&session.explain_nothing("dead letter matches", self.filter.topic.as_deref()).await?);
        }
        let (action, options) = ("purge_all", &session.options);
        if options.dry_run {
            session.output.document(&Changed { action, dry_run: true, changed: total })?;
            return Ok(Exit::Fine);
        }
        if total.count > 0 {
            confirm(options, &format!("Delete {} for good", plural(total.count, total.more, "dead letter")))?;
        }
        let progress = Progress::of("deleting", total);
        let purged = session.admin.purge_all(&filter, |purged| progress.set(purged)).await?;
        drop(progress);
        session.output.document(&Changed { action, dry_run: false, changed: exactly(purged, total) })?;
        Ok(Exit::Fine)
    }
}

async fn purge_each(ids: &[MessageId], session: &Session) -> Result<Exit, Error> {
    let mut acts = Acts::new("purge", session);
    if !session.options.dry_run {
        confirm(&session.options, &format!("Delete {} for good", counted(ids, "dead letter")))?;
    }
    for &id in ids {
        let done = match session.options.dry_run {
            true => session.admin.dead_letter(id).await.map(|_| "would be deleted"),
            false => session.admin.purge(id).await.map(|()| "deleted"),
        };
        acts.note(id, done, session)?;
    }
    acts.finish(session)
}
