//! Consumers of RocketMQ. What is the same for each broker is in the files above.

mod crash;
mod failures;
pub(super) mod offsets;
mod once;
mod outages;
mod rebalance;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use diesel_outbox::consumer::RocketMqConsumer;
use diesel_outbox::retry::Fixed;
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome};
use diesel_outbox::transport::{RocketMqConfig, RocketMqTransport};
use diesel_outbox::{Envelope, MessageId};
use xtask::servers::ServerKind;
use xtask::servers::rocketmq::{create_topic, request};
use xtask::test_servers;

use super::bed::{Bed, Broker, On, Place, wait_until};
use crate::transport::broker::TIMEOUT;
use crate::transport::rocketmq_broker::{GET_MAX_OFFSET, broker_of, field, wait_for_queues};

const QUERY_CONSUMER_OFFSET: u16 = 14;
pub(super) const UPDATE_CONSUMER_OFFSET: u16 = 15;
/// The group has committed nothing there.
const QUERY_NOT_FOUND: i32 = 22;
/// As many as the servers of the tests make.
pub(super) const QUEUES: i32 = 4;

/// On the shared broker; `None` where something cannot be had.
pub(super) fn bed(on: On) -> Option<Bed> {
    bed_at(on, test_servers::shared_or_skip(ServerKind::Rocketmq)?)
}

fn bed_at(on: On, name_server: String) -> Option<Bed> {
    let (database_url, file) = Bed::database(on)?;
    let topic = format!("consumed-{}", MessageId::new());
    create_topic(&name_server, &topic).expect("a topic");
    let broker = Broker::Rocketmq;
    Some(Bed::with(Place { on, database_url, broker, bootstrap: name_server, topic, partitions: QUEUES }, file))
}

/// With short waits, so that a test need not wait.
pub(super) fn consumer(place: &Place) -> RocketMqConsumer {
    let config = RocketMqConfig::new(&place.bootstrap).request_timeout(Duration::from_secs(1));
    RocketMqConsumer::new(config, place.group())
        .topic(place.topic.as_str())
        .retry(Fixed::from(vec![Duration::from_millis(50)]))
        .attempts_max(3)
        .commit_interval(Duration::from_millis(50))
}

/// Sends what a relay would send, one after the other: a busy broker may refuse one, and the later ones of its key must not overtake it.
pub(super) fn send(place: &Place, records: impl IntoIterator<Item = (MessageId, i32, String)>) -> Vec<MessageId> {
    let rocketmq = RocketMqTransport::new(RocketMqConfig::new(&place.bootstrap)).expect("a transport");
    let mut ids = Vec::new();
    for (id, number, key) in records {
        let mut envelope = Envelope::new(id, place.topic.as_str().into(), SystemTime::UNIX_EPOCH);
        envelope.key = (!key.is_empty()).then_some(key);
        envelope.payload = Some(number.to_string().into_bytes());
        wait_until(&format!("the broker takes {number}"), || {
            let outcomes = OutcomeRecorder::new();
            outcomes.send(&rocketmq, i64::from(number), envelope.clone());
            let seen = async { outcomes.wait_for(1, TIMEOUT).await };
            let seen = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(seen));
            seen.iter().all(|(_, outcome)| *outcome == RecordedOutcome::Delivered)
        });
        ids.push(id);
    }
    ids
}

/// A queue's end, or what the group has committed there; 0 where that is nothing.
fn offset(place: &Place, broker: &str, code: u16, queue: i32) -> Option<i64> {
    let (group, queue) = (place.group(), queue.to_string());
    let fields = [
        ("consumerGroup", group.as_str()),
        ("topic", place.topic.as_str()),
        ("queueId", queue.as_str()),
        ("setZeroIfNotFound", "false"),
    ];
    let answer = request(broker, code, &fields).ok()?;
    match answer.code {
        0 => Some(field(&answer.header, "offset").parse().expect("an offset")),
        QUERY_NOT_FOUND => Some(0),
        code => panic!("{code}: {}", answer.header),
    }
}

fn offsets(place: &Place, broker: &str, code: u16) -> Option<BTreeMap<i32, i64>> {
    (0..QUEUES).map(|queue| Some((queue, offset(place, broker, code, queue)?))).collect()
}

/// Waits until the group has committed everything that is in the topic.
pub(super) fn wait_until_consumed(place: &Place) {
    let broker = broker_of(&place.bootstrap, &place.topic);
    wait_for_queues(&broker);
    let ends = offsets(place, &broker, GET_MAX_OFFSET).expect("a broker");
    wait_until(&format!("the group commits {ends:?}"), || {
        offsets(place, &broker, QUERY_CONSUMER_OFFSET).as_ref() == Some(&ends)
    });
}
