//! Kafka that is taken away: a broker of the test's own, killed and frozen.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use diesel_outbox::Envelope;
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome, StoredMessage, TransportUnderTest};
use diesel_outbox::transport::{FailureClass, Transport};
use rustix::process::Signal;
use xtask::servers::Kafka;
use xtask::servers::kafka::Options;
use xtask::test_servers;

use super::broker::{self, config, envelope, make, transport, unique_name};

struct KillableBroker(Mutex<Kafka>);

impl KillableBroker {
    fn open() -> Option<Self> {
        Self::open_with(&Options::default())
    }

    fn open_with(options: &Options) -> Option<Self> {
        test_servers::own_or_skip(Kafka::start(options)).map(|kafka| Self(Mutex::new(kafka)))
    }

    fn server(&self) -> MutexGuard<'_, Kafka> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bootstrap(&self) -> String {
        self.server().bootstrap()
    }

    fn signal(&self, signal: Signal) {
        broker::signal(self.server().pid(), signal);
    }
}

#[async_trait]
impl TransportUnderTest for KillableBroker {
    fn transport(&self) -> Box<dyn Transport> {
        transport(config(&self.bootstrap()))
    }

    async fn stored(&self, topic: &str) -> Vec<StoredMessage> {
        broker::read(&self.bootstrap(), topic).into_iter().map(|(_, stored)| stored).collect()
    }

    async fn new_topic(&self) -> String {
        let name = unique_name("taken");
        make(&self.bootstrap(), &name, 3).await;
        name
    }

    fn max_wait(&self) -> Duration {
        broker::TIMEOUT
    }

    async fn go_down(&self) -> bool {
        self.server().kill9().expect("kill -9");
        true
    }

    async fn go_up(&self) {
        self.server().start_again().expect("start again");
    }

    async fn freeze(&self) -> bool {
        self.signal(Signal::STOP);
        true
    }

    async fn unfreeze(&self) {
        self.signal(Signal::CONT);
    }
}

mod conformance {
    async fn open() -> Option<super::KillableBroker> {
        super::KillableBroker::open()
    }

    // The other cases without a broker are held against the mock cluster: each takes two starts of a real one.
    diesel_outbox::transport_conformance_tests! { open;
        stopped_broker_is_an_outage_until_restarted,
        frozen_broker_times_out_every_message,
    }
}

/// As the relay would: what failed is sent again once a probe succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_messages_survive_kill_9_under_load() {
    const COUNT: usize = 20_000;
    let Some(broker) = KillableBroker::open() else { return };
    let (kafka, topic) = (broker.transport(), broker.new_topic().await);
    let messages: Vec<Envelope> = (0..COUNT).map(|id| envelope(&topic, Some(&format!("key-{}", id % 7)))).collect();
    let (mut left, mut acknowledged): (Vec<usize>, Vec<usize>) = ((0..COUNT).collect(), Vec::new());
    let started = Instant::now();
    while !left.is_empty() {
        assert!(started.elapsed() < 4 * broker::TIMEOUT, "{} are still not delivered", left.len());
        let outcomes = OutcomeRecorder::new();
        for &id in &left {
            outcomes.send(&*kafka, i64::try_from(id).expect("few"), messages[id].clone());
        }
        if acknowledged.is_empty() {
            outcomes.wait_for(1_000, broker::TIMEOUT).await;
            broker.go_down().await;
            outcomes.wait_for(left.len(), kafka.delivery_timeout()).await;
            broker.go_up().await;
        }
        let seen = outcomes.wait_for(left.len(), kafka.delivery_timeout()).await;
        left.clear();
        for (id, seen) in seen {
            let id = usize::try_from(id).expect("a message of ours");
            match seen.class() {
                None => acknowledged.push(id),
                Some(FailureClass::Connection | FailureClass::Temporary) => left.push(id),
                Some(class) => panic!("{class:?}: {seen:?}"),
            }
        }
        while kafka.probe().await.is_err() && started.elapsed() < 4 * broker::TIMEOUT {}
    }
    acknowledged.sort_unstable();
    assert_eq!(acknowledged, (0..COUNT).collect::<Vec<_>>(), "one acknowledgement each");
    let stored: BTreeSet<_> = broker.stored(&topic).await.iter().filter_map(StoredMessage::message_id).collect();
    let lost: Vec<_> = messages.iter().filter(|message| !stored.contains(&message.message_id)).collect();
    assert!(lost.is_empty(), "{} messages were acknowledged and are gone: {:?}", lost.len(), lost.first());
}

/// A frozen broker keeps its connections: only time tells.
#[tokio::test]
async fn a_frozen_broker_is_noticed_within_the_delivery_timeout() {
    let Some(broker) = KillableBroker::open() else { return };
    let (kafka, topic, outcomes) = (broker.transport(), broker.new_topic().await, OutcomeRecorder::new());
    outcomes.send(&*kafka, 0, envelope(&topic, Some("key")));
    outcomes.wait_for(1, broker::TIMEOUT).await;
    broker.signal(Signal::STOP);
    let frozen_at = Instant::now();
    (1..=500).for_each(|id| outcomes.send(&*kafka, id, envelope(&topic, Some("key"))));
    let seen = outcomes.wait_for(501, kafka.delivery_timeout()).await;
    let taken = frozen_at.elapsed();
    let probed = kafka.probe().await;
    broker.signal(Signal::CONT);
    assert!(taken <= kafka.delivery_timeout(), "{taken:?}");
    for (_, seen) in &seen[1..] {
        let class = seen.class();
        assert!(matches!(class, Some(FailureClass::Temporary | FailureClass::Connection)), "{seen:?}");
    }
    assert_eq!(probed.map_err(|error| error.class()), Err(FailureClass::Connection));
    let back = async { while kafka.probe().await.is_err() {} };
    tokio::time::timeout(broker::TIMEOUT, back).await.expect("a probe succeeds");
    let again = OutcomeRecorder::new();
    again.send(&*kafka, 0, envelope(&topic, Some("key")));
    assert_eq!(again.wait_for(1, broker::TIMEOUT).await[0].1, RecordedOutcome::Delivered);
}

/// Only the broker knows when it has closed a connection, so the messages come well after the time when it does.
#[tokio::test]
async fn an_idle_connection_that_the_broker_closes_is_no_outage() {
    let settings = vec![("connections.max.idle.ms".to_owned(), "1000".to_owned())];
    let Some(broker) = KillableBroker::open_with(&Options { settings, ..Options::default() }) else { return };
    let (kafka, topic) = (broker.transport(), broker.new_topic().await);
    let mut idle = tokio::time::interval(Duration::from_secs(2));
    for round in 0..4 {
        idle.tick().await;
        let outcomes = OutcomeRecorder::new();
        outcomes.send(&*kafka, round, envelope(&topic, Some("key")));
        assert_eq!(outcomes.wait_for(1, broker::TIMEOUT).await[0].1, RecordedOutcome::Delivered, "round {round}");
    }
}
