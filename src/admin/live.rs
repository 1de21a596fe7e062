use std::sync::Arc;

use super::cursor::List;
use super::live_walk::{LiveWalk, WalkedLanes};
use super::{Admin, AdminError, Cursor, LiveCount, LiveFilter, LiveMessage, LiveState, Page};
use crate::lane::lane_of;
use crate::limits::{LIVE_COUNT_MAX, LIVE_SEARCHED_MAX, LIVE_TOPICS_SHOWN_MAX};
use crate::message::MessageId;
use crate::store::{AdminStore, LiveCursor, RowKey, StoreError};
use crate::topic::Topic;

/// Live messages: those that are not sent yet.
impl Admin {
    /// A page of live messages with their payloads: at most `messages_max`, after `after`. First come those outside of lanes, by `due_at`
    /// and row id, then those in lanes, by lane and row id.
    ///
    /// It reads an index, so it is safe while a backlog is large. If no index serves the filter, it checks 10,000 rows at most and
    /// returns what it has found among them, perhaps nothing: go on as long as there is a [`next`](Page::next).
    ///
    /// A page begins after a message, not at an offset. Additions and removals meanwhile neither skip nor repeat a message. One that
    /// is itself written meanwhile, by an attempt or a lease, moves, and may be skipped or repeated.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use diesel_outbox::admin::{LiveFilter, LiveState};
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let admin = outbox.admin(MemoryStore::new());
    /// let failing = LiveFilter::of("orders").state(LiveState::Retrying);
    /// let mut after = None;
    /// loop {
    ///     let page = admin.live_messages(&failing, after.as_ref(), 100).await?;
    ///     for message in &page.items {
    ///         let error = message.last_error().map(|note| &note.error);
    ///         println!("{} {:?}: {} failures, {error:?}", message.message_id, message.key, message.failures);
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
    /// database error. A filter that matches nothing is no error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn live_messages(
        &self,
        filter: &LiveFilter,
        after: Option<&Cursor>,
        messages_max: usize,
    ) -> Result<Page<LiveMessage>, AdminError> {
        let list = if filter.state == Some(LiveState::Blocked) { List::Blocked } else { List::Live };
        let after = Cursor::begin::<LiveCursor>(list, after, messages_max)?;
        let store = self.admin_store()?;
        self.check_topic_name(store, &filter.topic).await?;
        let mut page = if filter.is_impossible() {
            Page::default()
        } else if list == List::Blocked {
            self.blocked_messages(store, filter, after.as_ref(), messages_max).await?
        } else {
            let mut walk = LiveWalk::new(store, filter, self.lanes_of(filter));
            let (messages, next) = walk.read(after.as_ref().map(|after| after.position), messages_max).await?;
            Page::up_to(list, messages, next.map(LiveCursor::at))
        };
        if page.items.is_empty() && page.next.is_none() && after.is_none() {
            self.check_topic(store, &filter.topic).await?;
        }
        self.fill_owners(store, &mut page.items).await?;
        Ok(page)
    }

    /// One live message, whatever it waits for.
    ///
    /// On PostgreSQL and SQLite only delayed messages are in an index by their ids: for another one, the table is read in steps of
    /// 10,000 rows, until it is found.
    ///
    /// # Errors
    /// [`NotLive`](AdminError::NotLive), or a database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn live_message(&self, message_id: MessageId) -> Result<LiveMessage, AdminError> {
        let store = self.admin_store()?;
        let mut found = store.find_live(message_id).await?.ok_or(AdminError::NotLive { message_id })?;
        self.fill_owners(store, std::slice::from_mut(&mut found)).await?;
        Ok(found)
    }

    /// Looks for a live message among 100,000 rows, after the row `after`. Returns it if it is there; otherwise after which row to go on,
    /// if there are more. For pages that must answer soon, however large the table is. By an index, as on MySQL, it is found at once.
    ///
    /// # Errors
    /// A database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn search_live_message(
        &self,
        message_id: MessageId,
        after: Option<i64>,
    ) -> Result<(Option<LiveMessage>, Option<i64>), AdminError> {
        let store = self.admin_store()?;
        let (mut found, next) = store.search_live(message_id, after, LIVE_SEARCHED_MAX).await?;
        self.fill_owners(store, found.as_mut_slice()).await?;
        Ok((found, next))
    }

    /// The same as [`live_message`](Self::live_message), if it is still in the row where a page has shown it ([`LiveMessage::id`]): without a search, in a table of any size.
    ///
    /// # Errors
    /// [`NotLive`](AdminError::NotLive) if it is not live, or in another row, or a database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn live_message_in_row(&self, row: i64, message_id: MessageId) -> Result<LiveMessage, AdminError> {
        let store = self.admin_store()?;
        let found = store.find_live_row(RowKey { id: row, message_id }).await?;
        let mut found = found.ok_or(AdminError::NotLive { message_id })?;
        self.fill_owners(store, std::slice::from_mut(&mut found)).await?;
        Ok(found)
    }

    /// Counts a topic's live messages by state. It reads at most 10,000 rows that are due, 10,000 that are due later and 10,000 in
    /// lanes; with more, the counts say `at least`.
    ///
    /// # Errors
    /// [`NoSuchTopic`](AdminError::NoSuchTopic), or a database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn count_live(&self, topic: &str) -> Result<LiveCount, AdminError> {
        let (store, topic) = (self.admin_store()?, Arc::from(topic));
        self.check_topic_name(store, &topic).await?;
        let count = store.count_live(&topic, LIVE_COUNT_MAX).await?;
        let LiveCount { due, leased, delayed, retrying, in_lanes } = &count;
        if [due, leased, delayed, retrying, in_lanes].into_iter().all(|count| count.count == 0) {
            self.check_topic(store, &topic).await?;
        }
        Ok(count)
    }

    /// Removes a live message that nobody holds, so that it is not sent, or not sent again: one that is due, delayed, or waits for its
    /// next attempt. This cannot be undone.
    ///
    /// It never removes a message that a relay may be sending: one that is leased, that would be tried within a lease (30 s), or that is
    /// in a lane of an ordered topic. An earlier attempt may have delivered the message all the same, such as one whose
    /// acknowledgement was lost. To take back a delayed message that was never tried, use [`cancel_delayed`](Self::cancel_delayed).
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::time::SystemTime;
    /// use diesel_outbox::admin::{AdminError, LiveFilter};
    /// use diesel_outbox::store::MemoryStore;
    /// use diesel_outbox::{Envelope, MessageId, Outbox, Topic};
    ///
    /// let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// let store = MemoryStore::new();
    /// # store.commit(Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH));
    /// let admin = outbox.admin(store);
    /// for message in admin.live_messages(&LiveFilter::of("orders").key("42"), None, 100).await?.items {
    ///     match admin.cancel_waiting(message.message_id).await {
    ///         Ok(()) => println!("{} is removed", message.message_id),
    ///         Err(AdminError::AlreadyClaimed { .. }) => println!("{} is being sent", message.message_id),
    ///         Err(AdminError::NotWaiting { .. }) => println!("{} was sent meanwhile", message.message_id),
    ///         Err(error) => return Err(error.into()),
    ///     }
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`AlreadyClaimed`](AdminError::AlreadyClaimed), [`NotWaiting`](AdminError::NotWaiting), or a database error.
    ///
    /// # Cancel safety
    /// If the future is dropped, the message may or may not be removed. Call again.
    pub async fn cancel_waiting(&self, message_id: MessageId) -> Result<(), AdminError> {
        let (store, record) = (self.admin_store()?, self.record_one("cancel_waiting", message_id).await?);
        let outcome = store.cancel_waiting(message_id, self.lease_duration, record.as_ref()).await?;
        super::note_cancel(outcome, message_id, AdminError::NotWaiting { message_id })
    }

    /// The lanes that may hold what a filter selects: that of its key, if the topic is configured and ordered.
    pub(super) fn lanes_of(&self, filter: &LiveFilter) -> WalkedLanes {
        let topic = self.outbox.topics().iter().find(|topic| topic.name() == &*filter.topic);
        match (&filter.key, topic.and_then(Topic::lane_count)) {
            (Some(key), Some(lanes)) => WalkedLanes::One(lane_of(key, lanes)),
            _ => WalkedLanes::All,
        }
    }

    /// Adds who owns the lanes of messages of one topic.
    pub(super) async fn fill_owners(
        &self,
        store: &dyn AdminStore,
        messages: &mut [LiveMessage],
    ) -> Result<(), StoreError> {
        let Some(first) = messages.iter().find(|message| message.lane.is_some()) else { return Ok(()) };
        let topic = Arc::clone(&first.topic);
        let (view, now) = (self.store.lanes().read_lanes(&topic).await?, store.now().await?);
        for message in messages {
            let lane = view.lanes.iter().find(|lane| Some(lane.lane) == message.lane);
            if let Some(owned) = lane.filter(|lane| lane.owner.is_some() && !lane.expires_in.is_zero()) {
                message.owner = owned.owner;
                message.leased_until = Some(now + owned.expires_in);
            }
        }
        Ok(())
    }

    /// Refuses a name that no topic can have: a database may not even be able to compare it.
    pub(super) async fn check_topic_name(&self, store: &dyn AdminStore, topic: &Arc<str>) -> Result<(), AdminError> {
        match Topic::new(&**topic).check() {
            Ok(()) => Ok(()),
            Err(_) => Err(self.no_such_topic(topic, &store.live_topics(LIVE_TOPICS_SHOWN_MAX).await?)),
        }
    }

    /// Refuses a topic that is not configured and has no live messages.
    pub(super) async fn check_topic(&self, store: &dyn AdminStore, topic: &Arc<str>) -> Result<(), AdminError> {
        let configured = self.outbox.topics();
        if configured.iter().any(|known| known.name() == &**topic) {
            return Ok(());
        }
        let live = store.live_topics(LIVE_TOPICS_SHOWN_MAX).await?;
        // One of very many may be behind those that were read.
        if live.len() == LIVE_TOPICS_SHOWN_MAX || live.contains(topic) {
            return Ok(());
        }
        Err(self.no_such_topic(topic, &live))
    }

    fn no_such_topic(&self, topic: &str, live: &[Arc<str>]) -> AdminError {
        let configured = self.outbox.topics().iter().map(|topic| topic.name().to_owned());
        let mut known: Vec<String> = configured.chain(live.iter().map(ToString::to_string)).collect();
        known.sort();
        known.dedup();
        AdminError::NoSuchTopic { topic: topic.to_owned(), known }
    }
}

#[cfg(test)]
mod tests;
