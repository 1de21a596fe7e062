use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use super::cursor::List;
use super::{Admin, AdminError, BoundedCount, Cursor, Page, RedriveRate};
use crate::limits::POSITIONS_READ_MAX;
use crate::message::MessageId;
use crate::metrics;
use crate::serialize::seconds_or_none;
use crate::store::{AuditRecord, HistoryStore, ProcessedOutcome, SentCount, SentMessage, StoreError, is_in_no_column};

/// Selects messages that their consumer has not reported as processed: those of a topic that were sent longer ago than its
/// [`processed_within`](crate::Topic::processed_within), or than another age.
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::admin::UnprocessedFilter;
/// let since_yesterday = UnprocessedFilter::of("orders").older_than(Duration::from_secs(24 * 3_600));
/// assert_ne!(since_yesterday, UnprocessedFilter::of("orders"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnprocessedFilter {
    topic: Arc<str>,
    #[serde(
        rename = "older_than_seconds",
        serialize_with = "seconds_or_none",
        skip_serializing_if = "Option::is_none"
    )]
    age_min: Option<Duration>,
}

impl UnprocessedFilter {
    /// Messages of a topic with [`processed_within`](crate::Topic::processed_within). Of a topic that is not configured in this outbox
    /// you also give the age ([`older_than`](Self::older_than)).
    pub fn of(topic: impl Into<Arc<str>>) -> Self {
        Self { topic: topic.into(), age_min: None }
    }

    /// Only messages sent longer ago than this.
    #[must_use]
    pub fn older_than(mut self, age: Duration) -> Self {
        self.age_min = Some(age);
        self
    }
}

/// The history of topics that [keep](crate::Topic::keep_sent_days) their sent messages.
impl Admin {
    /// One sent message: when it was sent, and whether its consumer has processed it.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use diesel_outbox::admin::AdminError;
    /// use diesel_outbox::store::MemoryStore;
    /// use diesel_outbox::{MessageId, Outbox, Topic};
    ///
    /// let outbox = Outbox::builder().topic(Topic::new("orders").keep_sent_days(30)).build()?;
    /// let admin = outbox.admin(MemoryStore::new());
    /// assert!(matches!(admin.sent(MessageId::new()).await, Err(AdminError::NotInHistory { .. })));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`NotInHistory`](AdminError::NotInHistory), or a database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn sent(&self, message_id: MessageId) -> Result<SentMessage, AdminError> {
        self.store.history().sent(message_id).await?.ok_or(AdminError::NotInHistory { message_id })
    }

    /// A page of sent messages of a key: at most `messages_max`, after `after`, by time of sending and message id.
    ///
    /// # Errors
    /// [`EmptyPage`](AdminError::EmptyPage), [`WrongCursor`](AdminError::WrongCursor), or a database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn sent_of_key(
        &self,
        topic: &str,
        key: &str,
        after: Option<&Cursor>,
        messages_max: usize,
    ) -> Result<Page<SentMessage>, AdminError> {
        let after = Cursor::begin(List::SentOfKey, after, messages_max)?;
        if is_in_no_column(key) {
            return Ok(Page::default());
        }
        let messages =
            self.store.history().sent_of_key(&topic.into(), &key.into(), after.as_ref(), messages_max).await?;
        Ok(Page::of(List::SentOfKey, messages, messages_max, SentMessage::cursor))
    }

    /// Counts a topic's messages in the history, and those of them that await processing. Each count stops at `count_max` and reads
    /// an index: a history may have hundreds of millions.
    ///
    /// # Errors
    /// A database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn count_sent(&self, topic: &str, count_max: usize) -> Result<SentCount, AdminError> {
        Ok(self.store.history().count_sent(&topic.into(), count_max).await?)
    }

    /// Records that a message's consumer has processed it. Repeating it is harmless. A consumer may be faster than the relay's
    /// settle: [`ProcessedOutcome::NotSettledYet`] is no error, and the report waits a week for its message.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::time::Duration;
    /// use diesel_outbox::admin::ProcessedOutcome;
    /// use diesel_outbox::store::MemoryStore;
    /// use diesel_outbox::{MessageId, Outbox, Topic};
    ///
    /// let orders = Topic::new("orders").keep_sent_days(30).processed_within(Duration::from_secs(600));
    /// let admin = Outbox::builder().topic(orders).build()?.admin(MemoryStore::new());
    /// assert_eq!(admin.report_processed(MessageId::new()).await?, ProcessedOutcome::NotSettledYet);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// A database error.
    ///
    /// # Cancel safety
    /// If the future is dropped, the report may or may not be written. Call again.
    pub async fn report_processed(&self, message_id: MessageId) -> Result<ProcessedOutcome, AdminError> {
        let record = match self.is_attributed() {
            true => self.record_one("report_processed", message_id).await?,
            false => None,
        };
        let reported = self.report_recorded(&[message_id], record.as_ref()).await?;
        Ok(reported.first().map_or(ProcessedOutcome::NotSettledYet, |(_, outcome)| *outcome))
    }

    /// Like [`report_processed`](Self::report_processed), for many messages in one transaction, as for a consumer that works in
    /// batches. Returns the outcome of each, in no particular order.
    ///
    /// # Errors
    /// A database error; then nothing is recorded.
    ///
    /// # Cancel safety
    /// As [`report_processed`](Self::report_processed).
    pub async fn report_all_processed(
        &self,
        messages: &[MessageId],
    ) -> Result<Vec<(MessageId, ProcessedOutcome)>, AdminError> {
        let record = match self.is_attributed() {
            true => self.record_with("report_all_processed", &json!({ "message_ids": messages })).await?,
            false => None,
        };
        self.report_recorded(messages, record.as_ref()).await
    }

    async fn report_recorded(
        &self,
        messages: &[MessageId],
        record: Option<&AuditRecord>,
    ) -> Result<Vec<(MessageId, ProcessedOutcome)>, AdminError> {
        let reported = self.store.history().report_processed(messages, record).await?;
        for (wanted, outcome) in [
            (ProcessedOutcome::Processed, "processed"),
            (ProcessedOutcome::AlreadyProcessed, "already"),
            (ProcessedOutcome::NotSettledYet, "ahead"),
        ] {
            let count = reported.iter().filter(|(_, outcome)| *outcome == wanted).count();
            ::metrics::counter!(metrics::PROCESSED, "outcome" => outcome).increment(count as u64);
        }
        Ok(reported)
    }

    /// A page of messages that their consumer should have reported by now: at most `messages_max`, after `after`, by time of
    /// sending and message id.
    ///
    /// # Errors
    /// [`EmptyPage`](AdminError::EmptyPage), [`WrongCursor`](AdminError::WrongCursor),
    /// [`ReportsNotExpected`](AdminError::ReportsNotExpected), or a database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn unprocessed(
        &self,
        filter: &UnprocessedFilter,
        after: Option<&Cursor>,
        messages_max: usize,
    ) -> Result<Page<SentMessage>, AdminError> {
        let after = Cursor::begin(List::Unprocessed, after, messages_max)?;
        let age_min = self.age_min(filter)?;
        let messages = self.store.history().unprocessed(&filter.topic, age_min, after.as_ref(), messages_max).await?;
        Ok(Page::of(List::Unprocessed, messages, messages_max, SentMessage::cursor))
    }

    /// Counts the messages that [`unprocessed`](Self::unprocessed) finds, up to `count_max`. Reads their positions only, no payloads.
    ///
    /// # Errors
    /// [`ReportsNotExpected`](AdminError::ReportsNotExpected), or a database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn count_unprocessed(
        &self,
        filter: &UnprocessedFilter,
        count_max: usize,
    ) -> Result<BoundedCount, AdminError> {
        let (store, age_min) = (self.store.history(), self.age_min(filter)?);
        let (mut after, mut count) = (None, 0);
        while count < count_max {
            let rows_max = (count_max - count).min(POSITIONS_READ_MAX);
            let cursors = store.unprocessed_cursors(&filter.topic, age_min, after.as_ref(), rows_max).await?;
            count += cursors.len();
            if cursors.len() < rows_max {
                return Ok(BoundedCount { count, more: false });
            }
            after = cursors.into_iter().next_back();
        }
        Ok(BoundedCount { count, more: true })
    }

    /// Sends a message from the history again, unless its consumer has reported it as processed. It keeps its message id, so a
    /// consumer that did see it recognizes it. It leaves the history until it is sent.
    ///
    /// On an ordered topic it is queued after all live messages of its key, in the key's current lane.
    ///
    /// # Errors
    /// [`NotUnprocessed`](AdminError::NotUnprocessed), or a database error.
    ///
    /// # Cancel safety
    /// If the future is dropped, the message may or may not have moved. Call again.
    pub async fn resend(&self, message_id: MessageId) -> Result<(), AdminError> {
        let (store, record) = (self.store.history(), self.record_one("resend", message_id).await?);
        match self.resend_batch(store, &[message_id], record.as_ref()).await? {
            0 => Err(AdminError::NotUnprocessed { message_id }),
            _ => Ok(()),
        }
    }

    /// Sends all messages again that their consumer should have reported by now, many per transaction, no faster than the rate.
    /// Calls `progress` after each step with the total so far; returns the final total.
    ///
    /// It takes messages that are late when it begins, so it ends. Rows that others have locked are skipped.
    ///
    /// # Errors
    /// [`ZeroRate`](AdminError::ZeroRate), [`ReportsNotExpected`](AdminError::ReportsNotExpected), or a database error. Earlier steps stay done.
    ///
    /// # Cancel safety
    /// If the future is dropped, completed steps stay done, and one more may be.
    pub async fn resend_all(
        &self,
        filter: &UnprocessedFilter,
        rate: RedriveRate,
        mut progress: impl FnMut(usize) + Send,
    ) -> Result<usize, AdminError> {
        let (mut limiter, store, age_min) = (rate.begin()?, self.store.history(), self.age_min(filter)?);
        let record = self.record_many("resend_all", filter).await?;
        let began = Instant::now();
        let (mut after, mut moved) = (None, 0);
        loop {
            limiter.wait().await;
            // Excludes messages settled since this call began, even if `age_min` is short.
            let age_min = age_min.saturating_add(began.elapsed());
            let cursors = store.unprocessed_cursors(&filter.topic, age_min, after.as_ref(), limiter.rows_max).await?;
            let Some(last) = cursors.last().copied() else { break };
            let messages: Vec<MessageId> = cursors.iter().map(|cursor| cursor.message_id).collect();
            let went = self.resend_batch(store, &messages, record.as_ref()).await?;
            limiter.record(went);
            moved += went;
            progress(moved);
            after = Some(last);
        }
        self.end_record(record.as_ref()).await?;
        Ok(moved)
    }

    async fn resend_batch(
        &self,
        store: &dyn HistoryStore,
        messages: &[MessageId],
        record: Option<&AuditRecord>,
    ) -> Result<usize, StoreError> {
        let requeues = self.assign_lanes(store.sent_keys(messages).await?).await?;
        let moved = store.resend(&requeues, record).await?.len();
        ::metrics::counter!(metrics::HISTORY_RESENT).increment(moved as u64);
        if moved > 0 {
            self.wake();
        }
        Ok(moved)
    }

    fn age_min(&self, filter: &UnprocessedFilter) -> Result<Duration, AdminError> {
        let topic = self.outbox.topics().iter().find(|topic| topic.name() == &*filter.topic);
        let window = match topic {
            Some(topic) => topic.retention().processed_within,
            // A tool that does not know the topics gives the age.
            None => filter.age_min,
        };
        let window = window.ok_or_else(|| AdminError::ReportsNotExpected { topic: Arc::clone(&filter.topic) })?;
        Ok(filter.age_min.unwrap_or(window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::Outbox;
    use crate::store::MemoryStore;
    use crate::topic::Topic;

    #[tokio::test]
    async fn pages_of_no_size_are_refused_and_a_key_with_a_nul_has_nothing() {
        let outbox = Outbox::builder().topic(Topic::new("orders")).build().unwrap();
        let admin = outbox.admin(MemoryStore::new());
        let unreported = UnprocessedFilter::of("orders").older_than(Duration::ZERO);
        for page in [admin.sent_of_key("orders", "42", None, 0).await, admin.unprocessed(&unreported, None, 0).await] {
            assert!(matches!(page, Err(AdminError::EmptyPage)), "{page:?}");
        }
        assert_eq!(admin.sent_of_key("orders", "a\0b", None, 1).await.unwrap(), Page::default());
    }
}
