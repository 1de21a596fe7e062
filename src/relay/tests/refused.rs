//! What a start refuses permanently, and the error messages.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{World, lanes};
use crate::naming::TableNames;
use crate::relay::{RelayBuilder, StartError};
use crate::store::{
    Call, Claim, ClaimSpec, Confirmed, Failed, Fault, Held, Locking, MemoryStore, NewDeadLetter, PollResult, PollSpec,
    RowKey, RowRef, Store, StoreError, StoreWarning, TopicBacklog,
};
use crate::topic::Topic;

/// A store without any optional part.
#[derive(Debug)]
struct Bare(MemoryStore);

#[async_trait]
impl Store for Bare {
    fn name(&self) -> &'static str {
        "test"
    }

    fn use_tables(&mut self, names: &TableNames) {
        self.0.use_tables(names);
    }

    async fn check(&self) -> Result<Vec<StoreWarning>, StoreError> {
        self.0.check().await
    }

    async fn confirm(&self, refs: &[RowRef]) -> Result<Vec<Confirmed>, StoreError> {
        self.0.confirm(refs).await
    }

    async fn remaining(&self, refs: &[RowRef]) -> Result<Vec<RowKey>, StoreError> {
        self.0.remaining(refs).await
    }

    async fn claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        self.0.claim(spec).await
    }

    async fn settle(&self, rows: &[RowKey], locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        self.0.settle(rows, locking).await
    }

    async fn settle_dead_letters(&self, rows: &[RowKey]) -> Result<usize, StoreError> {
        self.0.settle_dead_letters(rows).await
    }

    async fn extend(&self, held: &[Held], lease: Duration) -> Result<Vec<RowKey>, StoreError> {
        self.0.extend(held, lease).await
    }

    async fn fail(&self, failed: &[Failed]) -> Result<Vec<RowKey>, StoreError> {
        self.0.fail(failed).await
    }

    async fn dead_letter(&self, dead: &[NewDeadLetter]) -> Result<Vec<RowKey>, StoreError> {
        self.0.dead_letter(dead).await
    }

    async fn poll(&self, spec: &PollSpec) -> Result<PollResult, StoreError> {
        self.0.poll(spec).await
    }

    async fn backlog(&self, count_max: usize) -> Result<Vec<TopicBacklog>, StoreError> {
        self.0.backlog(count_max).await
    }
}

/// The error of a start. The outbox stays free for another relay.
async fn refused(world: &World, relay: RelayBuilder) -> StartError {
    let error = relay.start().await.unwrap_err();
    assert!(world.link.now().is_none(), "no relay is connected: {error}");
    error
}

fn assert_says(error: &StartError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_without_a_transport_is_refused() {
    let world = World::new();
    let relay = RelayBuilder::new(world.topics.clone(), TableNames::default(), Arc::clone(&world.link));
    let error = refused(&world, relay.store(world.store.clone())).await;
    assert!(matches!(error, StartError::NoTransport), "{error}");
    assert_says(&error, &["no transport", ".transport(..)"]);
    drop(world.start().await);
}

#[tokio::test(start_paused = true)]
async fn an_ordered_topic_on_a_store_without_lanes_is_refused() {
    let world = lanes::world();
    let error = refused(&world, world.relay().store(Bare(world.store.clone()))).await;
    assert!(matches!(error, StartError::NoLanes), "{error}");
    assert_says(&error, &["ordered by key", "has no lanes"]);
    drop(world.start().await);
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_keeps_on_a_store_without_a_history_is_refused() {
    for topic in [Topic::new("orders").keep_sent_days(1), Topic::new("orders").keep_dead_days(1)] {
        let mut world = World::new();
        world.topics = vec![topic];
        let error = refused(&world, world.relay().store(Bare(world.store.clone()))).await;
        assert!(matches!(error, StartError::NoHistory), "{error}");
        assert_says(&error, &["keep_sent_days", "keep_dead_days", "has no history"]);
        drop(world.start().await);
    }
}

/// Topics that need neither part work without them.
#[tokio::test(start_paused = true)]
async fn a_store_without_lanes_and_a_history_relays_plain_topics() {
    let world = World::new();
    let _relay = world.relay().store(Bare(world.store.clone())).start().await.unwrap();
    let row = world.commit("orders");
    assert_eq!(world.delivered(1).await, [row.message_id]);
    world.drained().await;
}

/// As when the tables exist, but a GRANT is missing: for the check, and for the first poll.
#[tokio::test(start_paused = true)]
async fn a_database_that_refuses_to_be_read_refuses_the_start() {
    let world = World::new();
    for call in [Call::Check, Call::Poll] {
        let denied = StoreError::Statement("permission denied for table outbox_messages".into());
        world.store.inject(call, Fault::Refused(denied));
        let error = refused(&world, world.relay()).await;
        assert!(matches!(error, StartError::Store(StoreError::Statement(_))), "{call:?}: {error}");
        assert_says(&error, &["tables could not be checked", "permission denied for table outbox_messages"]);
    }
    drop(world.start().await);
}
