//! RocketMQ whose process stands still: its port is open, its connections are, and nobody answers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use diesel_outbox::internals::store::InsertOptions;
use diesel_outbox::relay::{Relay, TransportStatus};
use diesel_outbox::store::MemoryStore;
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome, StoredMessage, TransportUnderTest};
use diesel_outbox::transport::{FailureClass, RocketMqTransport};
use diesel_outbox::{Envelope, Limits, MessageId, Outbox, Topic};
use xtask::servers::rocketmq::Flush;

use super::broker::{TIMEOUT, envelope};
use super::rocketmq::config;
use super::rocketmq_down::OwnBroker;

impl OwnBroker {
    async fn ids(&self, topic: &str) -> BTreeSet<MessageId> {
        self.stored(topic).await.iter().filter_map(StoredMessage::message_id).collect()
    }
}

fn keyed(topic: &str, number: usize) -> Envelope {
    envelope(topic, Some(&format!("key-{}", number % 7)))
}

#[tokio::test]
async fn a_frozen_broker_is_an_outage_until_it_resumes() {
    let Some(own) = OwnBroker::open(Flush::Sync) else { return };
    let (topic, rocketmq) = (own.new_topic().await, own.transport());
    let messages: Vec<Envelope> = (0..3_000).map(|number| keyed(&topic, number)).collect();
    let send = |messages: &[Envelope]| {
        let outcomes = OutcomeRecorder::new();
        (0..).zip(messages).for_each(|(id, message)| outcomes.send(&*rocketmq, id, message.clone()));
        outcomes
    };
    let (first, others) = messages.split_at(1);
    assert_eq!(send(first).wait_for(1, TIMEOUT).await[0].1, RecordedOutcome::Delivered);
    own.hang();
    let hung_at = Instant::now();
    let seen = send(others).wait_for(others.len(), rocketmq.delivery_timeout() + Duration::from_secs(1)).await;
    let taken = hung_at.elapsed();
    assert_eq!(seen.len(), others.len(), "one outcome each");
    assert!(taken < rocketmq.delivery_timeout(), "{taken:?}");
    let other = seen.iter().find(|(_, seen)| seen.class() != Some(FailureClass::Connection));
    assert_eq!(other, None, "a heartbeat gets no response either");
    assert_eq!(rocketmq.outage(), Some(FailureClass::Connection));
    assert_eq!(rocketmq.probe().await.map_err(|error| error.class()), Err(FailureClass::Connection));
    own.go_on();
    let back = async { while rocketmq.probe().await.is_err() {} };
    tokio::time::timeout(own.max_wait(), back).await.expect("the broker runs again, and no probe succeeds");
    assert_eq!(rocketmq.outage(), None);
    let seen = send(others).wait_for(others.len(), TIMEOUT).await;
    assert!(seen.iter().all(|(_, seen)| *seen == RecordedOutcome::Delivered), "{:?}", seen.last());
    assert_eq!(own.ids(&topic).await, messages.iter().map(|message| message.message_id).collect());
}

async fn until(what: &str, state: impl Fn() -> bool, within: Duration) {
    let reached = async {
        while !state() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(within, reached).await.is_ok(), "not within {within:?}: {what}");
}

fn is_down(relay: &Relay) -> bool {
    matches!(relay.status().transport, TransportStatus::Down { .. })
}

/// The whole way: it hangs under load, the breaker opens, it goes on, and everything is there.
#[tokio::test]
async fn a_frozen_broker_under_load_only_delays_a_relay() {
    let Some(own) = OwnBroker::open(Flush::Sync) else { return };
    let (topic, store) = (own.new_topic().await, MemoryStore::new());
    let commit = |count: usize| -> BTreeSet<MessageId> {
        (0..count).map(|number| store.insert(keyed(&topic, number), InsertOptions::default()).message_id).collect()
    };
    let mut committed = commit(20_000);
    let outbox = Outbox::builder().topic(Topic::new(topic.as_str())).build().expect("an outbox");
    let rocketmq = RocketMqTransport::new(config(&own.name_server).delivery_timeout(Duration::from_secs(5)));
    // What was in flight when it hung waits for the end of its lease.
    let limits = Limits::default().lease_duration(Duration::from_secs(8));
    let relay = outbox.relay().store(store.clone()).limits(limits).transport(rocketmq.expect("a transport"));
    let relay = relay.start().await.expect("a relay");
    let live = || store.live_rows().len();
    until("some are delivered", || live() < 18_000, TIMEOUT).await;
    own.hang();
    committed.extend(commit(500));
    until("the breaker is open", || is_down(&relay), TIMEOUT).await;
    assert!(live() >= 500, "rows without an outcome stay");
    let attempts: u32 = store.live_rows().iter().map(|row| row.attempts).sum();
    assert_eq!(attempts, 0, "an outage spends no attempt");
    own.go_on();
    until("everything is settled", || live() == 0, own.max_wait()).await;
    assert!(!is_down(&relay), "the breaker is closed");
    assert!(store.dead_letter_rows().is_empty());
    assert!(relay.shutdown(TIMEOUT).await.is_clean());
    assert_eq!(own.ids(&topic).await, committed, "nothing is lost");
}
