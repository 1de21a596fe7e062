//! RocketMQ that goes away and comes back: a broker for each case. None of the servers' data is lost meanwhile.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use diesel_outbox::MessageId;
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome, StoredMessage, TransportUnderTest, transport::cases};
use diesel_outbox::transport::{RocketMqTopic, RocketMqTransport, Transport};
use rustix::process::Signal;
use xtask::servers::Rocketmq;
use xtask::servers::rocketmq::{Access, Flush, Options};
use xtask::test_servers;

use super::broker::{TIMEOUT, envelope, signal};
use super::rocketmq::{config, transport, unique_name};
use super::rocketmq_broker;

/// A broker that a test may take away.
pub(super) struct OwnBroker {
    server: Mutex<Rocketmq>,
    pub(super) name_server: String,
}

impl OwnBroker {
    pub(super) fn open(flush: Flush) -> Option<Self> {
        let server = test_servers::own_or_skip(Rocketmq::start(&Options { flush, ..Options::default() }))?;
        Some(Self { name_server: server.name_server(), server: Mutex::new(server) })
    }

    pub(super) fn with<T>(&self, run: impl FnOnce(&mut Rocketmq) -> T) -> T {
        run(&mut self.server.lock().expect("no panic"))
    }

    /// Its process stands still: its port is open, its connections are, and nobody answers.
    pub(super) fn hang(&self) {
        signal(self.with(|server| server.broker_pid()), Signal::STOP);
    }

    pub(super) fn go_on(&self) {
        signal(self.with(|server| server.broker_pid()), Signal::CONT);
    }
}

#[async_trait]
impl TransportUnderTest for OwnBroker {
    fn transport(&self) -> Box<dyn Transport> {
        transport(config(&self.name_server))
    }

    async fn stored(&self, topic: &str) -> Vec<StoredMessage> {
        rocketmq_broker::read(&self.name_server, topic).iter().map(rocketmq_broker::Message::stored).collect()
    }

    async fn new_topic(&self) -> String {
        let name = unique_name("taken");
        self.with(|server| server.create_topic(&name)).expect("a topic");
        name
    }

    fn max_wait(&self) -> Duration {
        TIMEOUT * 2
    }

    async fn go_down(&self) -> bool {
        self.with(Rocketmq::kill9).expect("kill -9");
        true
    }

    async fn go_up(&self) {
        self.with(Rocketmq::start_again).expect("start again");
    }

    async fn freeze(&self) -> bool {
        self.hang();
        true
    }

    async fn unfreeze(&self) {
        self.go_on();
    }
}

mod conformance {
    async fn open() -> Option<super::OwnBroker> {
        super::OwnBroker::open(super::Flush::Sync)
    }

    diesel_outbox::transport_conformance_tests! { open;
        stopped_broker_is_an_outage_until_restarted,
        frozen_broker_times_out_every_message,
        send_never_blocks,
        dropping_the_transport_fails_held_messages,
    }
}

#[tokio::test]
async fn kill_9_under_load_loses_nothing() {
    dies_under_load(Flush::Sync).await;
}

/// What a broker has in its mapped files the system writes, whoever dies but itself.
#[tokio::test]
async fn kill_9_under_load_loses_nothing_with_async_flush_either() {
    dies_under_load(Flush::Async).await;
}

/// What was answered as delivered is there after the broker died under load, three times over.
async fn dies_under_load(flush: Flush) {
    let Some(own) = OwnBroker::open(flush) else { return };
    let (topic, rocketmq) = (own.new_topic().await, own.transport());
    let (mut delivered, mut id) = (BTreeSet::new(), 0);
    for _ in 0..3 {
        let outcomes = OutcomeRecorder::new();
        let mut sent: Vec<MessageId> = Vec::new();
        let mut send = |count: usize| {
            for _ in 0..count {
                let envelope = envelope(&topic, Some(&format!("key-{}", sent.len() % 7)));
                sent.push(envelope.message_id);
                outcomes.send(&*rocketmq, i64::try_from(sent.len() - 1).expect("few"), envelope);
            }
        };
        // On a busy machine the broker may let all of the first ones time out.
        let is_delivered = |(_, seen): &(i64, RecordedOutcome)| *seen == RecordedOutcome::Delivered;
        for sent in 1..=5 {
            send(2_000);
            let seen =
                outcomes.wait_until(|seen| seen.len() == sent * 2_000 || seen.iter().any(is_delivered), TIMEOUT).await;
            if seen.iter().any(is_delivered) {
                break;
            }
        }
        // Messages go on until the broker is gone: a fast one would else have answered them all by then.
        thread::scope(|scope| {
            let killed = scope.spawn(|| own.with(Rocketmq::kill9).expect("kill -9"));
            while !killed.is_finished() {
                send(1);
                thread::yield_now();
            }
        });
        send(100);
        let within = rocketmq.delivery_timeout() + Duration::from_secs(1);
        let seen = outcomes.wait_for(sent.len(), within).await;
        let numbers: BTreeSet<_> = seen.iter().map(|(id, _)| *id).collect();
        assert_eq!((seen.len(), numbers.len()), (sent.len(), sent.len()), "one outcome each");
        let ok = seen.iter().filter(|(_, seen)| *seen == RecordedOutcome::Delivered);
        delivered.extend(ok.map(|(id, _)| sent[usize::try_from(*id).expect("small")]));
        id += sent.len();

        own.with(Rocketmq::start_again).expect("start again");
        let back = async { while rocketmq.probe().await.is_err() {} };
        tokio::time::timeout(own.max_wait(), back).await.expect("the broker is back and no probe succeeds");
    }
    let stored: BTreeSet<_> = own.stored(&topic).await.iter().filter_map(StoredMessage::message_id).collect();
    let lost: Vec<_> = delivered.difference(&stored).collect();
    assert!(lost.is_empty(), "{} of {} delivered are lost: {lost:?}", lost.len(), delivered.len());
    assert!(delivered.len() < id, "the broker died behind the load");
}

struct SecuredBroker {
    server: Rocketmq,
}

#[async_trait]
impl TransportUnderTest for SecuredBroker {
    fn transport(&self) -> Box<dyn Transport> {
        let owner = self.server.credentials().expect("logins");
        transport(config(&self.server.name_server()).credentials(&owner.access_key, &owner.secret_key))
    }

    async fn stored(&self, _topic: &str) -> Vec<StoredMessage> {
        unreachable!("the reader has no login")
    }

    async fn new_topic(&self) -> String {
        let (owner, name) = (self.server.credentials().expect("logins"), unique_name("guarded"));
        let config = config(&self.server.name_server()).credentials(&owner.access_key, &owner.secret_key);
        let builder = RocketMqTransport::builder(config).create_topic(RocketMqTopic::new(&*name));
        builder.build().expect("a transport").prepare(&[]).await.expect("a topic");
        name
    }

    fn unauthorized_transport(&self) -> Option<(Box<dyn Transport>, Vec<String>)> {
        let secret = "wrong-secret-words".to_owned();
        let config = config(&self.server.name_server()).credentials("owner", &secret);
        Some((transport(config), vec![secret]))
    }
}

/// Logs in, with a wrong secret too; the secrets. `None` where the broker cannot be had.
pub(super) async fn logs_in() -> Option<Vec<String>> {
    let broker = logins::open().await?;
    cases::prepare_is_idempotent_and_probe_succeeds(&broker).await;
    cases::flush_waits_for_every_outcome(&broker).await;
    cases::authentication_failure_hides_secrets(&broker).await;
    let (_, mut secrets) = broker.unauthorized_transport()?;
    secrets.push(broker.server.credentials()?.secret_key.clone());
    Some(secrets)
}

mod logins {
    use super::*;

    pub(super) async fn open() -> Option<SecuredBroker> {
        let options = Options { access: Access::Signed, ..Options::default() };
        test_servers::own_or_skip(Rocketmq::start(&options)).map(|server| SecuredBroker { server })
    }

    diesel_outbox::transport_conformance_tests! { open;
        prepare_is_idempotent_and_probe_succeeds,
        flush_waits_for_every_outcome,
        authentication_failure_hides_secrets,
    }
}
