use std::time::SystemTime;

use uuid::Uuid;

use super::cursor::{self, List, Position};
use super::{Admin, AdminError, Cursor, Page};
use crate::limits::MESSAGE_ID_SKEW_MAX;
use crate::message::MessageId;
use crate::store::{SentMessage, SentScan, StoreError};
use crate::transport::header::millis;

/// A position in a scan of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ScanPosition {
    after: MessageId,
    until: MessageId,
}

impl Position for ScanPosition {
    fn write(&self) -> String {
        format!("{}_{}", Uuid::from(self.after).simple(), Uuid::from(self.until).simple())
    }

    fn read(text: &str) -> Option<Self> {
        let (after, until) = text.split_once('_')?;
        Some(Self { after: cursor::id(Some(after))?.into(), until: cursor::id(Some(until))?.into() })
    }
}

impl ScanPosition {
    /// The message ids of a period. They hold the time at which they were made; no index has a topic's messages by time, because it
    /// would cost each settle a write.
    fn of(from: SystemTime, before: SystemTime) -> Self {
        let from = from.checked_sub(MESSAGE_ID_SKEW_MAX).unwrap_or(SystemTime::UNIX_EPOCH);
        Self { after: first_id_of(from), until: first_id_of(before + MESSAGE_ID_SKEW_MAX) }
    }

    /// Every message id.
    fn everything() -> Self {
        Self { after: Uuid::nil().into(), until: Uuid::max().into() }
    }
}

/// The smallest message id of a moment.
fn first_id_of(at: SystemTime) -> MessageId {
    uuid::Builder::from_unix_timestamp_millis(millis(at), &[0; 10]).into_uuid().into()
}

/// Scans of the history.
impl Admin {
    /// A page of a topic's sent messages that were enqueued from `from` on and before `before`: after `after`, in the order of their
    /// message ids. It reads `rows_max` entries of the history at most, those of other topics included: go on as long as there is a
    /// [`next`](Page::next).
    ///
    /// Message ids begin with the time at which they were made, and the scan reads those of the period, and an hour more on both sides.
    /// If the history has other ids, because rows were written in another way than by this library, it reads the whole history.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use std::time::{Duration, SystemTime};
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders").keep_sent_days(30)).build()?;
    /// # let store = MemoryStore::new();
    /// # let now = store.now();
    /// # let admin = outbox.admin(store);
    /// let (from, mut after) = (now - Duration::from_secs(3_600), None);
    /// loop {
    ///     let page = admin.sent_of_topic("orders", from, now, after.as_ref(), 500).await?;
    ///     for message in &page.items {
    ///         println!("{} was sent at {:?}", message.message_id, message.sent_at);
    ///     }
    ///     after = page.next;
    ///     if after.is_none() { break }
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`EmptyPage`](AdminError::EmptyPage), [`WrongCursor`](AdminError::WrongCursor), or a database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn sent_of_topic(
        &self,
        topic: &str,
        from: SystemTime,
        before: SystemTime,
        after: Option<&Cursor>,
        rows_max: usize,
    ) -> Result<Page<SentMessage>, AdminError> {
        let store = self.store.history();
        let ScanPosition { after, until } = match Cursor::begin(List::SentOfTopic, after, rows_max)? {
            Some(after) => after,
            None if self.has_other_ids().await? => ScanPosition::everything(),
            None => ScanPosition::of(from, before),
        };
        let end = store.sent_scan_end(after, until, rows_max).await?;
        let scan = SentScan { topic: topic.into(), from, before, after, until: end.unwrap_or(until) };
        let messages = store.sent_in_scan(&scan).await?;
        Ok(Page::up_to(List::SentOfTopic, messages, end.map(|after| ScanPosition { after, until })))
    }

    /// Whether the history has message ids without a time. Nearly all of those are greater than any id of the present.
    async fn has_other_ids(&self) -> Result<bool, AdminError> {
        let store = self.admin_store()?;
        let later = first_id_of(store.now().await? + MESSAGE_ID_SKEW_MAX);
        let found: Result<_, StoreError> = self.store.history().sent_scan_end(later, Uuid::max().into(), 1).await;
        Ok(found?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_comes_back_from_its_text_and_a_cut_one_is_refused() {
        let position = ScanPosition { after: MessageId::new(), until: Uuid::max().into() };
        let cursor = Cursor::at(List::SentOfTopic, &position);
        assert_eq!(Cursor::begin(List::SentOfTopic, Some(&cursor), 1).unwrap(), Some(position));
        let text = cursor.to_string();
        let cut = Cursor::from(&text[..text.len() - 1]);
        assert!(matches!(
            Cursor::begin::<ScanPosition>(List::SentOfTopic, Some(&cut), 1),
            Err(AdminError::WrongCursor { .. })
        ));
    }
}
