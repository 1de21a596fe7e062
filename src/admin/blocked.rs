use std::sync::Arc;

use serde::Serialize;

use super::cursor::List;
use super::live_walk::LiveWalk;
use super::{Admin, AdminError, BoundedCount, Cursor, LiveFilter, LiveMessage, LiveState, Page};
use crate::limits::{BLOCKED_KEY_ROWS_READ_MAX, BLOCKED_KEYS_MAX};
use crate::store::{AdminStore, KeyInLane, KeyNeighbours, LiveConditions, LiveCursor, LivePosition, StoreError};

/// A key of an ordered topic that waits behind a failed message. From [`Admin::blocked_keys`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BlockedKey {
    /// The message that blocks it: the first that failed.
    pub head: LiveMessage,
    /// How many messages of the key wait behind it, among the next 1,000 of the lane.
    pub behind: BoundedCount,
}

/// Blocked keys of ordered topics.
impl Admin {
    /// A page of the keys of an ordered topic that wait behind a failed message: at most `keys_max` and at most 50, after `after`, by lane
    /// and row id of the messages that block them. An unordered topic has none.
    ///
    /// It checks 10,000 messages of the lanes at most, and returns what it has found among them: go on as long as there is a
    /// [`next`](Page::next).
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("payments").ordered_by_key()).build()?;
    /// # let admin = outbox.admin(MemoryStore::new());
    /// let mut after = None;
    /// loop {
    ///     let page = admin.blocked_keys("payments", after.as_ref(), 50).await?;
    ///     for blocked in &page.items {
    ///         println!("{:?}: {} wait behind {}", blocked.head.key, blocked.behind, blocked.head.message_id);
    ///     }
    ///     after = page.next;
    ///     if after.is_none() { break }
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`EmptyPage`](AdminError::EmptyPage), [`WrongCursor`](AdminError::WrongCursor), [`NoSuchTopic`](AdminError::NoSuchTopic), or a
    /// database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn blocked_keys(
        &self,
        topic: &str,
        after: Option<&Cursor>,
        keys_max: usize,
    ) -> Result<Page<BlockedKey>, AdminError> {
        let after = Cursor::begin::<LiveCursor>(List::BlockedKeys, after, keys_max)?;
        let (store, filter) = (self.admin_store()?, LiveFilter::of(topic));
        self.check_topic_name(store, &filter.topic).await?;
        let (heads, next) = self.heads(store, &filter, after.as_ref().map(|after| after.position), keys_max).await?;
        if heads.is_empty() && next.is_none() && after.is_none() {
            self.check_topic(store, &filter.topic).await?;
        }
        let (mut heads, neighbours): (Vec<LiveMessage>, Vec<KeyNeighbours>) = heads.into_iter().unzip();
        self.fill_owners(store, &mut heads).await?;
        let blocked = heads.into_iter().zip(neighbours).map(|(head, neighbours)| BlockedKey {
            head,
            behind: BoundedCount { count: neighbours.behind, more: neighbours.more },
        });
        Ok(Page::up_to(List::BlockedKeys, blocked.collect(), next.map(LiveCursor::at)))
    }

    /// A page of the messages that wait behind failed ones: key by key, in the order of the messages that block them.
    pub(super) async fn blocked_messages(
        &self,
        store: &dyn AdminStore,
        filter: &LiveFilter,
        after: Option<&LiveCursor>,
        messages_max: usize,
    ) -> Result<Page<LiveMessage>, StoreError> {
        // The head whose followers were being read is read again: if it is gone, they are blocked no more.
        let begin = after.map(|after| match after.head {
            Some(head) => LivePosition { id: head.saturating_sub(1), ..after.position },
            None => after.position,
        });
        let (heads, next) = self.heads(store, filter, begin, BLOCKED_KEYS_MAX).await?;
        let (mut messages, mut rows_left) = (Vec::new(), None);
        for (head, _) in heads {
            let (Some(lane), Some(key)) = (head.lane, &head.key) else { continue };
            let conditions =
                LiveConditions { key: Some(key.as_str().into()), state: None, ..LiveConditions::of(filter) };
            let mut walk = LiveWalk::of_lane(store, &filter.topic, lane, conditions).with_rows_left(rows_left);
            let resumed = after.filter(|after| after.head == Some(head.id)).map(|after| after.position);
            let behind = resumed.unwrap_or(head.position);
            let (found, cut_at) = walk.read(Some(behind), messages_max - messages.len()).await?;
            messages.extend(found.into_iter().map(|message| LiveMessage { state: LiveState::Blocked, ..message }));
            if let Some(position) = cut_at {
                return Ok(Page::up_to(List::Blocked, messages, Some(LiveCursor { position, head: Some(head.id) })));
            }
            rows_left = Some(walk.rows_left());
        }
        Ok(Page::up_to(List::Blocked, messages, next.map(LiveCursor::at)))
    }

    /// The messages that block keys, and what stands around them. If several messages of a key have failed, as on a fenced lane, the
    /// first blocks it.
    async fn heads(
        &self,
        store: &dyn AdminStore,
        filter: &LiveFilter,
        after: Option<LivePosition>,
        keys_max: usize,
    ) -> Result<(Vec<(LiveMessage, KeyNeighbours)>, Option<LivePosition>), StoreError> {
        let mut walk = LiveWalk::failed_in_lanes(store, filter, self.lanes_of(filter));
        let (failed, next) = walk.read(after, keys_max.min(BLOCKED_KEYS_MAX)).await?;
        let mut heads = Vec::with_capacity(failed.len());
        for message in failed {
            let Some((lane, key)) = message.lane.zip(message.key.as_deref()) else { continue };
            let row = KeyInLane { topic: Arc::clone(&filter.topic), lane, key: key.into(), id: message.id };
            let neighbours = store.key_neighbours(&row, BLOCKED_KEY_ROWS_READ_MAX).await?;
            if !neighbours.failed_before {
                heads.push((message, neighbours));
            }
        }
        Ok((heads, next))
    }
}
