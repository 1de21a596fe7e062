use std::time::Duration;

use super::cursor::List;
use super::redrive_rate::RedriveRate;
use super::{Admin, AdminError, BoundedCount, Cursor, Page};
use crate::limits::{DEAD_LETTER_ROWS_READ_MAX, POSITIONS_READ_MAX, REDRIVE_ROWS_MAX};
use crate::message::MessageId;
use crate::metrics;
use crate::store::{AdminStore, AuditRecord, DeadLetter, DeadLetterCount, DeadLetterFilter, RowRef, StoreError};

/// Some database clocks tick in milliseconds. A message that was dead-lettered in the current tick counts as dead already.
const CLOCK_TICK: Duration = Duration::from_millis(1);

/// Dead letters.
impl Admin {
    /// A page of dead letters with their payloads: at most `dead_letters_max`, after `after`, by topic, time of death and message id.
    ///
    /// An index serves a topic, with or without a period. With any other filter a page checks 10,000 rows at most and returns what it
    /// has found among them, perhaps nothing: go on as long as there is a [`next`](Page::next).
    ///
    /// A page begins after a dead letter, not at an offset. Additions and removals meanwhile neither skip nor repeat one.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use diesel_outbox::admin::DeadLetterFilter;
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let admin = outbox.admin(MemoryStore::new());
    /// let refused = DeadLetterFilter::new().topic("orders").reason("refused");
    /// let mut after = None;
    /// loop {
    ///     let page = admin.dead_letters(&refused, after.as_ref(), 100).await?;
    ///     for letter in &page.items {
    ///         println!("{} {:?}: {}, {} attempts", letter.message_id, letter.key, letter.reason, letter.attempts);
    ///     }
    ///     after = page.next;
    ///     if after.is_none() { break }
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`EmptyPage`](AdminError::EmptyPage), [`WrongCursor`](AdminError::WrongCursor),
    /// [`ImpossibleFilter`](AdminError::ImpossibleFilter), or a database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn dead_letters(
        &self,
        filter: &DeadLetterFilter,
        after: Option<&Cursor>,
        dead_letters_max: usize,
    ) -> Result<Page<DeadLetter>, AdminError> {
        let after = Cursor::begin(List::DeadLetters, after, dead_letters_max)?;
        check_possible(filter)?;
        let store = self.admin_store()?;
        let until = match filter.is_indexed() {
            true => None,
            false => store.dead_letter_scan_end(filter, after.as_ref(), DEAD_LETTER_ROWS_READ_MAX).await?,
        };
        let dead_letters = store.dead_letters(filter, after.as_ref(), until.as_ref(), dead_letters_max).await?;
        let page = Page::of(List::DeadLetters, dead_letters, dead_letters_max, DeadLetter::cursor);
        Ok(Page { next: page.next.or(until.map(|until| Cursor::at(List::DeadLetters, &until))), ..page })
    }

    /// One dead letter with its attempts and their errors.
    ///
    /// # Errors
    /// [`NotDeadLetter`](AdminError::NotDeadLetter), or a database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn dead_letter(&self, message_id: MessageId) -> Result<DeadLetter, AdminError> {
        self.admin_store()?.find_dead_letter(message_id).await?.ok_or(AdminError::NotDeadLetter { message_id })
    }

    /// Counts dead letters by topic and reason word (the part of the reason before the colon). Reads all of them.
    ///
    /// # Errors
    /// A database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn count_dead_letters(&self) -> Result<Vec<DeadLetterCount>, AdminError> {
        Ok(self.admin_store()?.count_dead_letters().await?)
    }

    /// Counts the dead letters that match the filter, up to `count_max`. Reads their positions only, no payloads.
    ///
    /// # Errors
    /// [`ImpossibleFilter`](AdminError::ImpossibleFilter), or a database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn count_dead_letters_of(
        &self,
        filter: &DeadLetterFilter,
        count_max: usize,
    ) -> Result<BoundedCount, AdminError> {
        check_possible(filter)?;
        let store = self.admin_store()?;
        let (mut after, mut count) = (None, 0);
        while count < count_max {
            let rows_max = (count_max - count).min(POSITIONS_READ_MAX);
            let cursors = store.dead_letter_cursors(filter, after.as_ref(), rows_max).await?;
            count += cursors.len();
            if cursors.len() < rows_max {
                return Ok(BoundedCount { count, more: false });
            }
            after = cursors.into_iter().next_back();
        }
        Ok(BoundedCount { count, more: true })
    }

    /// Sends one dead letter again, under the same message id. Its attempts and failures start at 0.
    ///
    /// On an ordered topic it is queued after all live messages of its key, in the key's current lane.
    ///
    /// # Errors
    /// [`NotDeadLetter`](AdminError::NotDeadLetter), or a database error.
    ///
    /// # Cancel safety
    /// If the future is dropped, the message may or may not have moved. Call again.
    pub async fn redrive(&self, message_id: MessageId) -> Result<(), AdminError> {
        let record = self.record_one("redrive", message_id).await?;
        self.redrive_recorded(message_id, record.as_ref()).await
    }

    pub(super) async fn redrive_recorded(
        &self,
        message_id: MessageId,
        record: Option<&AuditRecord>,
    ) -> Result<(), AdminError> {
        match self.redrive_batch(self.admin_store()?, &[message_id], record).await?.len() {
            0 => Err(AdminError::NotDeadLetter { message_id }),
            _ => Ok(()),
        }
    }

    /// Sends the current dead letters that match the filter again, many per transaction, no faster than the rate. Each topic's go
    /// in the order in which they were dead-lettered. Calls `progress` after each step with the total so far; returns the final total.
    ///
    /// Messages that are dead-lettered again meanwhile are not retried, so the call ends. Dead letters that others have locked are
    /// skipped.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use diesel_outbox::admin::{DeadLetterFilter, RedriveRate};
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let admin = outbox.admin(MemoryStore::new());
    /// let of_orders = DeadLetterFilter::new().topic("orders");
    /// let rate = RedriveRate::default().per_second(200);
    /// let sent_again = admin.redrive_all(&of_orders, rate, |so_far| println!("{so_far} sent again")).await?;
    /// # assert_eq!(sent_again, 0);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`ZeroRate`](AdminError::ZeroRate), [`ImpossibleFilter`](AdminError::ImpossibleFilter), or a database error. Earlier steps
    /// stay done.
    ///
    /// # Cancel safety
    /// If the future is dropped, completed steps stay done, and one more may be.
    pub async fn redrive_all(
        &self,
        filter: &DeadLetterFilter,
        rate: RedriveRate,
        mut progress: impl FnMut(usize) + Send,
    ) -> Result<usize, AdminError> {
        check_possible(filter)?;
        let (mut limiter, store) = (rate.begin()?, self.admin_store()?);
        let record = self.record_many("redrive_all", filter).await?;
        let filter = limit_to_now(store, filter).await?;
        let (mut after, mut moved) = (None, 0);
        loop {
            limiter.wait().await;
            let cursors = store.dead_letter_cursors(&filter, after.as_ref(), limiter.rows_max).await?;
            let Some(last) = cursors.last().cloned() else { break };
            let messages: Vec<MessageId> = cursors.iter().map(|cursor| cursor.message_id).collect();
            let went = self.redrive_batch(store, &messages, record.as_ref()).await?.len();
            limiter.record(went);
            moved += went;
            progress(moved);
            after = Some(last);
        }
        self.end_record(record.as_ref()).await?;
        Ok(moved)
    }

    /// Deletes one dead letter.
    ///
    /// # Errors
    /// [`NotDeadLetter`](AdminError::NotDeadLetter), or a database error.
    ///
    /// # Cancel safety
    /// If the future is dropped, the dead letter may or may not be deleted. Call again.
    pub async fn purge(&self, message_id: MessageId) -> Result<(), AdminError> {
        let (store, record) = (self.admin_store()?, self.record_one("purge", message_id).await?);
        match self.purge_batch(store, &[message_id], record.as_ref()).await? {
            0 => Err(AdminError::NotDeadLetter { message_id }),
            _ => Ok(()),
        }
    }

    /// Deletes the current dead letters that match the filter, in bounded steps. Calls `progress` after each step with the total so
    /// far; returns the final total.
    ///
    /// This cannot be undone, so a filter without a condition is refused: it may have been forgotten. To delete every dead letter,
    /// pass [`DeadLetterFilter::everything`].
    ///
    /// # Errors
    /// [`NoFilter`](AdminError::NoFilter), [`ImpossibleFilter`](AdminError::ImpossibleFilter), or a database error. Deleted dead
    /// letters stay deleted.
    ///
    /// # Cancel safety
    /// If the future is dropped, completed steps stay done, and one more may be.
    pub async fn purge_all(
        &self,
        filter: &DeadLetterFilter,
        mut progress: impl FnMut(usize) + Send,
    ) -> Result<usize, AdminError> {
        if filter.has_no_condition() {
            return Err(AdminError::NoFilter);
        }
        check_possible(filter)?;
        let (store, record) = (self.admin_store()?, self.record_many("purge_all", filter).await?);
        let filter = limit_to_now(store, filter).await?;
        let (mut after, mut purged) = (None, 0);
        loop {
            let cursors = store.dead_letter_cursors(&filter, after.as_ref(), REDRIVE_ROWS_MAX).await?;
            let Some(last) = cursors.last().cloned() else { break };
            let messages: Vec<MessageId> = cursors.iter().map(|cursor| cursor.message_id).collect();
            purged += self.purge_batch(store, &messages, record.as_ref()).await?;
            progress(purged);
            after = Some(last);
        }
        self.end_record(record.as_ref()).await?;
        Ok(purged)
    }

    /// Returns where the messages that were moved are now.
    pub(super) async fn redrive_batch(
        &self,
        store: &dyn AdminStore,
        messages: &[MessageId],
        record: Option<&AuditRecord>,
    ) -> Result<Vec<RowRef>, StoreError> {
        let requeues = self.assign_lanes(store.dead_letter_keys(messages).await?).await?;
        let moved = store.redrive(&requeues, record).await?;
        ::metrics::counter!(metrics::REDRIVEN).increment(moved.len() as u64);
        if !moved.is_empty() {
            self.wake();
        }
        Ok(moved)
    }

    async fn purge_batch(
        &self,
        store: &dyn AdminStore,
        messages: &[MessageId],
        record: Option<&AuditRecord>,
    ) -> Result<usize, StoreError> {
        let purged = store.purge(messages, record).await?;
        ::metrics::counter!(metrics::PURGED).increment(purged as u64);
        Ok(purged)
    }
}

pub(super) fn check_possible(filter: &DeadLetterFilter) -> Result<(), AdminError> {
    if filter.is_impossible() { Err(AdminError::ImpossibleFilter) } else { Ok(()) }
}

/// The filter, without messages that are dead-lettered from now on.
pub(super) async fn limit_to_now(
    store: &dyn AdminStore,
    filter: &DeadLetterFilter,
) -> Result<DeadLetterFilter, StoreError> {
    let end = store.now().await? + CLOCK_TICK;
    let end = filter.dead_before.map_or(end, |before| before.min(end));
    Ok(filter.clone().dead_before(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Envelope;
    use crate::outbox::Outbox;
    use crate::store::{Held, InsertOptions, MemoryStore, NewDeadLetter, Store as _};
    use crate::topic::Topic;

    /// What no index serves is looked for in bounded steps.
    #[tokio::test]
    async fn a_page_may_be_empty_and_have_a_next_one() {
        let store = MemoryStore::new();
        let dead = (0..=DEAD_LETTER_ROWS_READ_MAX).map(|_| {
            let envelope = Envelope::new(MessageId::new(), "orders".into(), std::time::SystemTime::UNIX_EPOCH);
            let key = store.insert(envelope, InsertOptions::default());
            NewDeadLetter { held: Held { key, epoch: 0 }, reason: "refused: no".into() }
        });
        store.dead_letter(&dead.collect::<Vec<_>>()).await.unwrap();
        let admin = Outbox::builder().topic(Topic::new("orders")).build().unwrap().admin(store.clone());
        let none = DeadLetterFilter::new().kind("no such kind");
        let first = admin.dead_letters(&none, None, 10).await.unwrap();
        assert!(first.items.is_empty() && first.next.is_some());
        let last = admin.dead_letters(&none, first.next.as_ref(), 10).await.unwrap();
        assert!(last.items.is_empty() && last.next.is_none());
    }

    #[test]
    fn no_dead_letter_has_a_text_with_a_nul() {
        let text = "a\0b";
        for filter in [
            DeadLetterFilter::new().topic(text),
            DeadLetterFilter::new().kind(text),
            DeadLetterFilter::new().key(text),
            DeadLetterFilter::new().class(text),
        ] {
            assert!(matches!(check_possible(&filter), Err(AdminError::ImpossibleFilter)), "{filter:?}");
        }
        assert!(check_possible(&DeadLetterFilter::new().topic("orders").key("a")).is_ok());
    }
}
