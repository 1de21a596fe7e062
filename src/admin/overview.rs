use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::dead_letters::check_possible;
use super::{Admin, AdminError, BoundedCount, DeadLetterCount, DeadLetterFilter};
use crate::limits::{LIVE_COUNT_MAX, Limits};
use crate::relay::{Backlog, LaneStatus};
use crate::store::TopicBacklog;

/// What the tables hold, for pages that show all of it.
impl Admin {
    /// The current time of the database's clock: all instants of messages are by it.
    ///
    /// # Errors
    /// A database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn now(&self) -> Result<SystemTime, AdminError> {
        Ok(self.admin_store()?.now().await?)
    }

    /// Counts live rows, due rows and dead letters of each topic, as [`Relay::backlog`](crate::relay::Relay::backlog) does, but without
    /// a relay: it knows nothing of how long messages wait in lanes.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let admin = outbox.admin(MemoryStore::new());
    /// assert_eq!(admin.backlog().await?.topic("orders").map(|orders| orders.live), Some(0));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// A database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn backlog(&self) -> Result<Backlog, AdminError> {
        let count_max = Limits::default().backlog_count_max;
        let counted = self.store.backlog(count_max).await?;
        let configured = self.outbox.topics().iter().map(|topic| TopicBacklog {
            topic: topic.shared_name(),
            live: 0,
            due: 0,
            overdue_by: Duration::ZERO,
            dead: 0,
        });
        let topics: BTreeMap<Arc<str>, TopicBacklog> =
            configured.chain(counted).map(|of| (Arc::clone(&of.topic), of)).collect();
        Ok(Backlog { topics: topics.into_values().collect(), count_max })
    }

    /// The lanes of an ordered topic and their owners, by number; none if the topic has no lanes.
    ///
    /// # Errors
    /// A database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn lanes(&self, topic: &str) -> Result<Vec<LaneStatus>, AdminError> {
        let (store, topic): (_, Arc<str>) = (self.store.lanes(), topic.into());
        let view = store.read_lanes(&topic).await?;
        let nodes = view.nodes.len();
        let status = view.lanes.into_iter().map(|lane| LaneStatus {
            topic: Arc::clone(&topic),
            lane: lane.lane,
            owner: lane.owner.filter(|_| !lane.expires_in.is_zero()),
            nodes,
        });
        Ok(status.collect())
    }

    /// Counts a topic's live messages outside of lanes by when they are due: between each of these moments and the next one, each
    /// up to 10,000. A message is due when it is to be delivered or tried again, or when its lease ends.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use std::time::Duration;
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let admin = outbox.admin(MemoryStore::new());
    /// let now = admin.now().await?;
    /// let hours: Vec<_> = (0..=24).map(|hour| now + hour * Duration::from_secs(3_600)).collect();
    /// for (hour, count) in admin.count_due("orders", &hours).await?.iter().enumerate() {
    ///     println!("in {hour} hours: {count}");
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// A database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn count_due(&self, topic: &str, moments: &[SystemTime]) -> Result<Vec<BoundedCount>, AdminError> {
        let (store, topic): (_, Arc<str>) = (self.admin_store()?, topic.into());
        let mut counts = Vec::with_capacity(moments.len().saturating_sub(1));
        for period in moments.windows(2) {
            let count = store.count_due(&topic, period[0], period[1], LIVE_COUNT_MAX).await?;
            counts.push(BoundedCount { count, more: count >= LIVE_COUNT_MAX });
        }
        Ok(counts)
    }

    /// Counts the dead letters that match the filter by topic, reason word and class of the last noted failure, and in all. Reads at
    /// most `rows_max` of those of the filter's topic and period; the total says whether there are more.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use diesel_outbox::admin::DeadLetterFilter;
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let admin = outbox.admin(MemoryStore::new());
    /// let (total, groups) = admin.group_dead_letters(&DeadLetterFilter::new().topic("orders"), 10_000).await?;
    /// for group in groups {
    ///     println!("{} of {total} are {}, {:?}", group.count, group.reason, group.class);
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`ImpossibleFilter`](AdminError::ImpossibleFilter), or a database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn group_dead_letters(
        &self,
        filter: &DeadLetterFilter,
        rows_max: usize,
    ) -> Result<(BoundedCount, Vec<DeadLetterCount>), AdminError> {
        check_possible(filter)?;
        let groups = self.admin_store()?.group_dead_letters(filter, rows_max).await?;
        let read: usize = groups.iter().map(|group| group.read).sum();
        let count = groups.iter().map(|group| group.matching.count).sum();
        let matching = groups.into_iter().map(|group| group.matching).filter(|group| group.count > 0);
        Ok((BoundedCount { count, more: read >= rows_max }, matching.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::{AuditFilter, LiveState};
    use crate::message::{Envelope, MessageId};
    use crate::outbox::Outbox;
    use crate::store::{
        Held, InsertOptions, LaneCount, LaneStore as _, MemoryStore, NewDeadLetter, RowKey, Store as _,
    };
    use crate::topic::Topic;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn admin(store: &MemoryStore) -> Admin {
        let topics = Outbox::builder().topic(Topic::new("orders")).topic(Topic::new("payments").ordered_by_key());
        topics.build().unwrap().admin(store.clone())
    }

    fn insert(store: &MemoryStore, topic: &str, options: InsertOptions) -> RowKey {
        store.insert(Envelope::new(MessageId::new(), topic.into(), SystemTime::UNIX_EPOCH), options)
    }

    #[tokio::test(start_paused = true)]
    async fn the_backlog_has_configured_topics_and_those_with_rows() {
        let store = MemoryStore::new();
        insert(&store, "orders", InsertOptions::default());
        insert(&store, "forgotten", InsertOptions::default());
        let backlog = admin(&store).backlog().await.unwrap();
        let topics: Vec<_> = backlog.topics.iter().map(|topic| (&*topic.topic, topic.live)).collect();
        assert_eq!(topics, [("forgotten", 1), ("orders", 1), ("payments", 0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn lanes_without_an_owner_have_none() {
        let store = MemoryStore::new();
        assert_eq!(admin(&store).lanes("payments").await.unwrap(), []);
        store.prepare_lanes(&[LaneCount { topic: "payments".into(), lanes: 2 }]).await.unwrap();
        let lanes = admin(&store).lanes("payments").await.unwrap();
        assert_eq!(lanes.iter().map(|lane| (lane.lane, lane.owner)).collect::<Vec<_>>(), [(0, None), (1, None)]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_due_is_counted_between_moments() {
        let (store, delayed) = (MemoryStore::new(), InsertOptions::default());
        for hours in [1, 1, 5] {
            insert(&store, "orders", delayed.deliver_after(hours * HOUR + HOUR / 2));
        }
        let now = store.now();
        let counts =
            admin(&store).count_due("orders", &[now, now + HOUR, now + 2 * HOUR, now + 9 * HOUR]).await.unwrap();
        assert_eq!(counts.iter().map(|count| count.count).collect::<Vec<_>>(), [0, 2, 1]);
        assert_eq!(admin(&store).count_due("orders", &[now]).await.unwrap(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn groups_and_their_total_are_of_the_filter() {
        let store = MemoryStore::new();
        for reason in ["refused: a", "refused: b", "attempts: c"] {
            let key = insert(&store, "orders", InsertOptions::default());
            store.dead_letter(&[NewDeadLetter { held: Held { key, epoch: 0 }, reason: reason.into() }]).await.unwrap();
        }
        let refused = DeadLetterFilter::new().reason("refused");
        let (total, groups) = admin(&store).group_dead_letters(&refused, 10).await.unwrap();
        assert_eq!((total.to_string(), groups.len(), groups[0].reason.as_str()), ("2".to_owned(), 1, "refused"));
        let (total, _) = admin(&store).group_dead_letters(&DeadLetterFilter::new(), 2).await.unwrap();
        assert_eq!(total.to_string(), "at least 2");
        let impossible = DeadLetterFilter::new().dead_from(store.now()).dead_before(SystemTime::UNIX_EPOCH);
        let refused = admin(&store).group_dead_letters(&impossible, 2).await;
        assert!(matches!(refused, Err(AdminError::ImpossibleFilter)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_is_found_in_its_row_and_in_no_other() {
        let store = MemoryStore::new();
        let (row, other) =
            (insert(&store, "orders", InsertOptions::default()), insert(&store, "orders", InsertOptions::default()));
        let found = admin(&store).live_message_in_row(row.id, row.message_id).await.unwrap();
        assert_eq!((found.message_id, found.state), (row.message_id, LiveState::Due));
        let elsewhere = admin(&store).live_message_in_row(other.id, row.message_id).await;
        assert!(matches!(elsewhere, Err(AdminError::NotLive { .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_is_recorded_with_its_actor() {
        let store = MemoryStore::new();
        admin(&store).acting_as("alice").because("wrong topic").record_stop("purge_all").await.unwrap();
        let entries = admin(&store).audit(&AuditFilter::new(), None, 10).await.unwrap().items;
        let [entry] = &entries[..] else { panic!("one entry: {entries:?}") };
        assert_eq!((&*entry.action, entry.actor.as_deref()), ("stop", Some("alice")));
        assert_eq!(entry.filter.as_deref(), Some(r#"{"action":"purge_all"}"#));
    }
}
