use clap::Args;
use diesel_outbox::MessageId;
use diesel_outbox::admin::{BoundedCount, DeadLetterFilter, RedriveRate};

use super::canary::CanaryArgs;
use super::{COUNTED_MAX, Selection, selection};
use crate::arguments::DeadLetterArgs;
use crate::commands::acts::{Acts, Changed};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::note;
use crate::progress::Progress;
use crate::session::Session;

/// Which dead letters are sent again, and how.
#[derive(Debug, Clone, Args)]
pub(crate) struct RedriveArgs {
    /// The message ids
    #[arg(value_name = "ID")]
    ids: Vec<MessageId>,
    /// Every dead letter
    #[arg(long)]
    all: bool,
    /// At most this many per second
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    rate: u32,
    /// At most this many in one transaction
    #[arg(long, value_name = "COUNT", default_value_t = 500)]
    batch: usize,
    // Their headings stand above all that follows.
    #[command(flatten)]
    filter: DeadLetterArgs,
    #[command(flatten)]
    canary: CanaryArgs,
}

impl RedriveArgs {
    pub(super) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        match selection(&self.ids, &self.filter, self.all)? {
            Selection::Ids(_) if self.canary.is_wanted() => {
                Err(Error::usage("--canary goes with a filter, not with ids"))
            }
            Selection::Ids(ids) => self.redrive_each(ids, session).await,
            Selection::Filter => self.redrive_matching(session).await,
        }
    }

    async fn redrive_each(&self, ids: &[MessageId], session: &Session) -> Result<Exit, Error> {
        let mut acts = Acts::new("redrive", session);
        for &id in ids {
            let done = match session.options.dry_run {
                true => session.admin.dead_letter(id).await.map(|_| "would be sent again"),
                false => session.admin.redrive(id).await.map(|()| "is sent again"),
            };
            acts.note(id, done, session)?;
        }
        acts.finish(session)
    }

    async fn redrive_matching(&self, session: &Session) -> Result<Exit, Error> {
        let filter = self.filter.filter(session.admin.now().await?);
        let total = session.admin.count_dead_letters_of(&filter, COUNTED_MAX).await?;
        if total.count == 0 {
            note(&session.explain_nothing("dead letter matches", self.filter.topic.as_deref()).await?);
        }
        let action = if self.canary.is_wanted() { "redrive_canary" } else { "redrive_all" };
        if session.options.dry_run {
            session.output.document(&Changed { action, dry_run: true, changed: total })?;
            return Ok(Exit::Fine);
        }
        let rate = RedriveRate::default().per_second(self.rate).rows_max(self.batch);
        if self.canary.is_wanted() {
            return self.canary.run(&filter, rate, total, session).await;
        }
        let moved = redrive_all(&filter, rate, total, session).await?;
        session.output.document(&Changed { action, dry_run: false, changed: exactly(moved, total) })?;
        Ok(Exit::Fine)
    }
}

async fn redrive_all(
    filter: &DeadLetterFilter,
    rate: RedriveRate,
    total: BoundedCount,
    session: &Session,
) -> Result<usize, Error> {
    let progress = Progress::of("sending again", total);
    Ok(session.admin.redrive_all(filter, rate, |moved| progress.set(moved)).await?)
}

/// What was done, which is counted to its end.
pub(super) fn exactly(count: usize, mut bounded: BoundedCount) -> BoundedCount {
    (bounded.count, bounded.more) = (count, false);
    bounded
}
