use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use super::canary::{Canary, CanaryHalt, CanaryReport, CanaryStep};
use super::dead_letters::{check_possible, limit_to_now};
use super::redrive_rate::RateLimiter;
use super::{Admin, AdminError, DeadLetterFilter};
use crate::limits::{
    CANARY_POLL_INTERVAL_MAX, CANARY_POLL_INTERVAL_MIN, CANARY_REPORTED_MAX, DELAY_MAX, REDRIVE_ROWS_MAX,
};
use crate::message::MessageId;
use crate::store::{AdminStore, AuditRecord, DeadLetterCursor, RowRef};

/// Canary redrives.
impl Admin {
    /// Sends the current dead letters that match the filter again, a few first: in steps, each of which waits until its messages
    /// were sent or dead-lettered again, and only then goes on. It halts if they die again, and if nothing becomes of them in time.
    /// Calls `progress` after each step.
    ///
    /// A message counts as sent when it has left the live messages and is no dead letter: whichever relay sends it. If somebody else
    /// purges or redrives the same messages meanwhile, they may be counted as sent. The last step, which redrives the rest, waits
    /// for the outcomes at its end, and looks at those so far after each transaction.
    ///
    /// Dead letters go by topic and in the order in which they died, so the first steps are of one topic. Give the filter a topic
    /// and a reason, so that the few stand for the many.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use diesel_outbox::admin::{Canary, CanaryHalt, DeadLetterFilter};
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let admin = outbox.admin(MemoryStore::new());
    /// let refused = DeadLetterFilter::new().topic("orders").reason("refused");
    /// let report = admin.redrive_canary(&refused, Canary::default(), |step| println!("{} sent", step.sent)).await?;
    /// match &report.halt {
    ///     None => println!("all {} are sent", report.redriven()),
    ///     Some(CanaryHalt::TimedOut { paused }) => println!("nobody sends {:?}; paused: {paused:?}", report.pending),
    ///     Some(_) => {
    ///         for letter in &report.dead_again {
    ///             println!("{} died again at step {}: {}", letter.message_id, report.steps.len(), letter.reason);
    ///         }
    ///     }
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`ZeroRate`](AdminError::ZeroRate), [`EmptyStep`](AdminError::EmptyStep), [`ImpossibleFilter`](AdminError::ImpossibleFilter),
    /// or a database error. What was redriven stays so.
    ///
    /// # Cancel safety
    /// If the future is dropped, what was redriven stays so, and one more transaction may be. The audit has the count.
    pub async fn redrive_canary(
        &self,
        filter: &DeadLetterFilter,
        canary: Canary,
        mut progress: impl FnMut(&CanaryStep) + Send,
    ) -> Result<CanaryReport, AdminError> {
        check_possible(filter)?;
        canary.check()?;
        let (limiter, store) = (canary.rate.begin()?, self.admin_store()?);
        let record = self.record_many("redrive_canary", filter).await?;
        let filter = limit_to_now(store, filter).await?;
        let (sizes, record_ref) = (canary.steps.clone(), record.as_ref());
        let mut run = CanaryRun::new(self, store, record_ref, limiter, filter, canary);
        let mut report = CanaryReport::default();
        for size in sizes.into_iter().map(Some).chain([None]) {
            let (step, halt) = run.step(size).await?;
            if step.redriven == 0 {
                break;
            }
            report.steps.push(step);
            progress(&step);
            if halt.is_some() {
                report.halt = halt;
                break;
            }
        }
        run.complete(&mut report).await?;
        self.end_record(record.as_ref()).await?;
        Ok(report)
    }
}

/// A message that was redriven, and whose outcome is not known yet.
struct Pending {
    row: RowRef,
    topic: Arc<str>,
}

struct CanaryRun<'a> {
    admin: &'a Admin,
    store: &'a dyn AdminStore,
    record: Option<&'a AuditRecord>,
    limiter: RateLimiter,
    filter: DeadLetterFilter,
    canary: Canary,
    /// The last dead letter that was taken.
    after: Option<DeadLetterCursor>,
    /// Of the current step.
    pending: Vec<Pending>,
    /// The messages that were dead-lettered again.
    dead: Vec<MessageId>,
}

impl<'a> CanaryRun<'a> {
    fn new(
        admin: &'a Admin,
        store: &'a dyn AdminStore,
        record: Option<&'a AuditRecord>,
        limiter: RateLimiter,
        filter: DeadLetterFilter,
        canary: Canary,
    ) -> Self {
        Self { admin, store, record, limiter, filter, canary, after: None, pending: Vec::new(), dead: Vec::new() }
    }

    /// Redrives so many messages, or the rest, and waits for their outcomes.
    async fn step(&mut self, size: Option<usize>) -> Result<(CanaryStep, Option<CanaryHalt>), AdminError> {
        let mut step = CanaryStep::default();
        loop {
            let wanted = size.map_or(usize::MAX, |size| size - step.redriven).min(self.limiter.rows_max);
            if wanted == 0 || !self.redrive(wanted, &mut step).await? {
                break;
            }
            self.look(&mut step).await?;
            if self.has_failed(&step) {
                break;
            }
        }
        self.wait(&mut step).await?;
        step.pending = self.pending.len();
        let halt = if self.has_failed(&step) {
            Some(CanaryHalt::DeadAgain)
        } else if self.pending.is_empty() {
            None
        } else {
            Some(CanaryHalt::TimedOut { paused: self.paused().await? })
        };
        Ok((step, halt))
    }

    fn has_failed(&self, step: &CanaryStep) -> bool {
        step.dead_again > self.canary.dead_max
    }

    /// Redrives at most so many messages in one transaction. Returns whether there were dead letters left.
    async fn redrive(&mut self, wanted: usize, step: &mut CanaryStep) -> Result<bool, AdminError> {
        self.limiter.wait().await;
        let cursors = self.store.dead_letter_cursors(&self.filter, self.after.as_ref(), wanted).await?;
        let Some(last) = cursors.last().cloned() else { return Ok(false) };
        let messages: Vec<MessageId> = cursors.iter().map(|cursor| cursor.message_id).collect();
        let moved = self.admin.redrive_batch(self.store, &messages, self.record).await?;
        self.limiter.record(moved.len());
        step.redriven += moved.len();
        let topics: HashMap<MessageId, Arc<str>> =
            cursors.into_iter().map(|cursor| (cursor.message_id, cursor.topic)).collect();
        let pending = moved.into_iter().map(|row| Pending { row, topic: Arc::clone(&topics[&row.message_id]) });
        self.pending.extend(pending);
        self.after = Some(last);
        Ok(true)
    }

    /// Waits until each pending message has an outcome, too many have died, or the time is over.
    async fn wait(&mut self, step: &mut CanaryStep) -> Result<(), AdminError> {
        let deadline = Instant::now() + self.canary.outcome_within.min(DELAY_MAX);
        let mut interval = CANARY_POLL_INTERVAL_MIN;
        while !self.pending.is_empty() && !self.has_failed(step) && Instant::now() < deadline {
            sleep_until(deadline.min(Instant::now() + interval)).await;
            interval = (interval * 2).min(CANARY_POLL_INTERVAL_MAX);
            self.look(step).await?;
        }
        Ok(())
    }

    /// Counts the pending messages that have an outcome. The live rows are read first: a message that dies in between is then still
    /// pending, and never counts as sent.
    async fn look(&mut self, step: &mut CanaryStep) -> Result<(), AdminError> {
        let mut pending = std::mem::take(&mut self.pending);
        let mut still_pending = Vec::with_capacity(pending.len());
        while !pending.is_empty() {
            let some: Vec<Pending> = pending.drain(..pending.len().min(REDRIVE_ROWS_MAX)).collect();
            let rows: Vec<RowRef> = some.iter().map(|pending| pending.row).collect();
            let live = self.admin.store.remaining(&rows).await?;
            let live: HashSet<MessageId> = live.into_iter().map(|key| key.message_id).collect();
            let (live, gone): (Vec<Pending>, Vec<Pending>) =
                some.into_iter().partition(|pending| live.contains(&pending.row.message_id));
            still_pending.extend(live);
            if gone.is_empty() {
                continue;
            }
            let gone: Vec<MessageId> = gone.into_iter().map(|pending| pending.row.message_id).collect();
            let dead = self.store.dead_letter_keys(&gone).await?;
            step.dead_again += dead.len();
            step.sent += gone.len() - dead.len();
            self.dead.extend(dead.into_iter().map(|dead| dead.message_id));
        }
        self.pending = still_pending;
        Ok(())
    }

    /// The paused ones among the topics of pending messages.
    async fn paused(&self) -> Result<Vec<Arc<str>>, AdminError> {
        let topics: BTreeSet<&Arc<str>> = self.pending.iter().map(|pending| &pending.topic).collect();
        let paused = match self.store.paused().await {
            Err(error) if error.is_not_migrated() => Vec::new(),
            paused => paused?,
        };
        Ok(paused.into_iter().map(|paused| paused.topic).filter(|topic| topics.contains(topic)).collect())
    }

    /// Adds to the report the messages that were not sent.
    async fn complete(self, report: &mut CanaryReport) -> Result<(), AdminError> {
        let pending = self.pending.iter().map(|pending| pending.row.message_id);
        report.pending = pending.take(CANARY_REPORTED_MAX).collect();
        for message_id in self.dead.into_iter().take(CANARY_REPORTED_MAX) {
            // Somebody may have purged it by now.
            report.dead_again.extend(self.store.find_dead_letter(message_id).await?);
        }
        Ok(())
    }
}
