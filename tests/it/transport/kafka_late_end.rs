//! The end of a fenced lane's transaction that reaches the broker late, when the lane is in its next one.
//!
//! The client repeats an end that is not answered, and goes on when the repetition is. The first one may still be on its way, and
//! in the versions that librdkafka speaks nothing tells the broker which transaction it was meant for.

use std::sync::Arc;

use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome, StoredMessage};
use diesel_outbox::transport::{
    FailureClass, FencedLane, KafkaConfig, KafkaTransport, KeySequence, LaneName, Transport,
};
use diesel_outbox::{Envelope, MessageId, Topic};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use xtask::servers::Kafka;
use xtask::servers::kafka::Options;
use xtask::test_servers;

use super::broker::{self, TIMEOUT, client, envelope, unique_name};
use super::kafka_proxy::{ProxyAction, Request, RequestProxy};

/// `INVALID_PRODUCER_EPOCH` and `PRODUCER_FENCED`.
const OF_A_FENCE: [i16; 2] = [47, 90];

/// One message in the client at a time: the partition of the next is added to the transaction when the one before is answered.
fn config(proxy: &RequestProxy) -> KafkaConfig {
    broker::config(&format!("127.0.0.1:{}", proxy.port())).set("queue.buffering.max.messages", "1")
}

/// Holds the first end back that commits, or does not, and lets it go before that partition joins the next transaction.
fn late(commits: bool, hold: ProxyAction, next: i32) -> impl FnMut(&Request<'_>) -> ProxyAction + Send {
    let (mut is_held, mut is_repeated) = (false, false);
    move |request| match (request.ends_transaction(), request.adds_partition()) {
        (Some(ends), _) if ends == commits && !is_held => {
            is_held = true;
            hold
        }
        (Some(_), _) => {
            is_repeated = is_held;
            ProxyAction::Pass
        }
        (_, Some(partition)) if is_repeated && partition == next => ProxyAction::LetGoBefore,
        _ => ProxyAction::Pass,
    }
}

/// What sends a lane's messages as its owner does.
struct Owner {
    kafka: KafkaTransport,
    lane: LaneName,
    fenced_lane: Arc<dyn FencedLane>,
}

impl Owner {
    /// A message goes to the partition that its kind says.
    async fn of(topic: &str, config: KafkaConfig) -> Self {
        let kafka = KafkaTransport::builder(config).partition_with(|envelope, _| envelope.kind.parse().ok());
        let kafka = kafka.build().expect("a transport");
        kafka.prepare(&[Topic::new(topic).ordered_by_key().fenced()]).await.expect("prepared");
        let lane = LaneName { outbox: "late".into(), topic: topic.into(), lane: 0 };
        let fenced_lane = kafka.fence(lane.clone()).await.expect("fenced");
        Self { kafka, lane, fenced_lane }
    }

    /// Hands over messages of a run, in one transaction; those that came back because their transaction ended go again, and
    /// through a way that is fenced anew where the last one closed.
    async fn send(&mut self, messages: &[Envelope]) -> Vec<RecordedOutcome> {
        loop {
            if !self.fenced_lane.is_open() {
                self.fenced_lane = self.kafka.fence(self.lane.clone()).await.expect("fenced anew");
            }
            let outcomes = OutcomeRecorder::new();
            outcomes.send_fenced(&*self.fenced_lane, &KeySequence::new(), (0..).zip(messages.iter().cloned()));
            let mut seen = outcomes.wait_for(messages.len(), TIMEOUT).await;
            seen.sort_by_key(|(id, _)| *id);
            let seen: Vec<RecordedOutcome> = seen.into_iter().map(|(_, seen)| seen).collect();
            if seen[0].class() != Some(FailureClass::Aborted) {
                return seen;
            }
        }
    }
}

fn to(topic: &str, partition: i32) -> Envelope {
    let mut envelope = envelope(topic, Some("key"));
    envelope.kind = partition.to_string();
    envelope
}

pub(super) async fn make(bootstrap: &str, new: &NewTopic<'_>) {
    let admin: AdminClient<DefaultClientContext> = client(bootstrap).create().expect("an admin client");
    let options = AdminOptions::new().operation_timeout(Some(TIMEOUT)).request_timeout(Some(TIMEOUT));
    for made in admin.create_topics([new], &options).await.expect("an answer") {
        made.expect("the topic is made");
    }
}

/// How often each of the messages is there, for who reads what is committed.
fn copies(bootstrap: &str, messages: &[&Envelope], topic: &str) -> Vec<usize> {
    let stored = broker::read(bootstrap, topic);
    let stored: Vec<MessageId> = stored.iter().filter_map(|(_, stored)| StoredMessage::message_id(stored)).collect();
    let count = |message: &&Envelope| stored.iter().filter(|id| **id == message.message_id).count();
    messages.iter().map(count).collect()
}

/// The client asks for the third partition's leader in vain, so that its message is refused and all of them are aborted. What the
/// late abort takes with it is the first part of the next transaction, which is committed then without it.
#[tokio::test]
async fn a_late_abort_removes_nothing_of_the_next_transaction() {
    let proxy = RequestProxy::before_a_broker(late(false, ProxyAction::HoldAndBreak, 1));
    let options = Options { behind_proxies: vec![proxy.port()], ..Options::default() };
    let Some(broker) = test_servers::own_or_skip(Kafka::start(&options)) else { return };
    proxy.set_broker(broker.proxied_ports()[0]);
    // Makes the coordinators, all on the first broker.
    let name = LaneName { outbox: "late".into(), topic: "before".into(), lane: 0 };
    broker::transport(config(&proxy)).fence(name).await.expect("fenced");
    // Not behind the proxy, whose clients find no leader where it is one.
    let second = Options { second_of: Some(broker.cluster()), ..Options::default() };
    let Some(_second) = test_servers::own_or_skip(Kafka::start(&second)) else { return };
    let topic = unique_name("late-abort");
    make(&broker.bootstrap(), &NewTopic::new(&topic, 3, TopicReplication::Variable(&[&[1], &[1], &[2]]))).await;

    let mut owner = Owner::of(&topic, config(&proxy)).await;
    let messages = [to(&topic, 0), to(&topic, 1), to(&topic, 2)];
    let seen = owner.send(&messages).await;
    assert_eq!(seen[..2], [RecordedOutcome::Delivered, RecordedOutcome::Delivered]);
    assert_eq!(seen[2].class(), Some(FailureClass::Temporary), "{:?}", seen[2]);
    assert_eq!(
        copies(&broker.bootstrap(), &[&messages[0], &messages[1]], &topic),
        [1, 1],
        "each delivered message is stored once"
    );
    let response = proxy.response().expect("the late end was forwarded");
    assert!(OF_A_FENCE.contains(&response), "the broker accepted the late end: {response}");
}

/// The second message is refused, and the transaction aborted. What the late commit has committed by then is the first part of it.
async fn a_late_commit(hold: ProxyAction, settings: &[(&str, &str)]) {
    let proxy = RequestProxy::before_a_broker(late(true, hold, 1));
    let options = Options { behind_proxies: vec![proxy.port()], ..Options::default() };
    let Some(broker) = test_servers::own_or_skip(Kafka::start(&options)) else { return };
    proxy.set_broker(broker.proxied_ports()[0]);
    let topic = unique_name("late-commit");
    let new = NewTopic::new(&topic, 2, TopicReplication::Fixed(1)).set("max.message.bytes", "10000");
    make(&broker.bootstrap(), &new).await;

    let config = settings.iter().fold(config(&proxy), |config, (name, value)| config.set(*name, *value));
    let mut owner = Owner::of(&topic, config).await;
    let first = to(&topic, 0);
    assert_eq!(owner.send(std::slice::from_ref(&first)).await, [RecordedOutcome::Delivered]);
    let mut messages = [to(&topic, 0), to(&topic, 1)];
    messages[1].payload = Some(vec![b'x'; 20_000]);
    let seen = owner.send(&messages).await;
    assert_eq!(seen[0], RecordedOutcome::Delivered);
    assert_eq!(seen[1].class(), Some(FailureClass::RecordRefused), "{:?}", seen[1]);
    assert_eq!(
        copies(&broker.bootstrap(), &[&first, &messages[0]], &topic),
        [1, 1],
        "each delivered message is stored once"
    );
    let response = proxy.response().expect("the late end was forwarded");
    assert!(OF_A_FENCE.contains(&response), "the broker accepted the late end: {response}");
}

#[tokio::test]
async fn after_a_broken_connection_a_late_commit_exposes_no_aborted_message() {
    a_late_commit(ProxyAction::HoldAndBreak, &[]).await;
}

#[tokio::test]
async fn after_a_socket_timeout_a_late_commit_exposes_no_aborted_message() {
    a_late_commit(ProxyAction::Hold, &[("socket.timeout.ms", "1000")]).await;
}
