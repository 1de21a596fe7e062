//! RocketMQ's name servers: one that dies or hangs, alone and as the first of several.

use std::net::TcpListener;
use std::time::Duration;

use diesel_outbox::Topic;
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome, TransportUnderTest};
use diesel_outbox::transport::{FailureClass, Transport};
use tokio::io::copy_bidirectional;
use tokio::net::{self, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use xtask::servers::Rocketmq;
use xtask::servers::rocketmq::Flush;

use super::broker::{TIMEOUT, envelope};
use super::rocketmq::{SharedBroker, config, transport};
use super::rocketmq_down::OwnBroker;

/// Where a topic is, is known: its messages need no name server.
#[tokio::test]
async fn a_name_server_that_dies_stops_nothing() {
    let Some(own) = OwnBroker::open(Flush::Sync) else { return };
    let (topic, rocketmq, outcomes) = (own.new_topic().await, own.transport(), OutcomeRecorder::new());
    outcomes.send(&*rocketmq, 0, envelope(&topic, Some("key")));
    outcomes.wait_for(1, TIMEOUT).await;
    own.with(Rocketmq::kill9_name_server).expect("kill -9");
    (1..500).for_each(|id| outcomes.send(&*rocketmq, id, envelope(&topic, Some("key"))));
    let seen = outcomes.wait_for(500, TIMEOUT).await;
    assert!(seen.iter().all(|(_, seen)| *seen == RecordedOutcome::Delivered), "{:?}", seen.last());
}

/// Something that takes connections and says nothing: every call ends in time.
#[tokio::test]
async fn a_name_server_that_hangs_is_an_outage() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let rocketmq = transport(config(&silent.local_addr().expect("an address").to_string()));
    let outcomes = OutcomeRecorder::new();
    (0..100).for_each(|id| outcomes.send(&*rocketmq, id, envelope("hung", Some("key"))));
    let within = rocketmq.delivery_timeout() + Duration::from_secs(1);
    let seen = outcomes.wait_for(100, within).await;
    assert!(seen.iter().all(|(_, seen)| seen.class() == Some(FailureClass::Connection)), "{:?}", seen.last());
    let probed = rocketmq.probe().await.expect_err("no server answers");
    assert_eq!((probed.class(), rocketmq.outage()), (FailureClass::Connection, Some(FailureClass::Connection)));
}

/// What a new relay does first, and then messages.
async fn begins_and_delivers(name_servers: &str, topic: &str) {
    let rocketmq = transport(config(name_servers));
    rocketmq.prepare(&[Topic::new(topic)]).await.expect("one of them answers");
    delivers(&*rocketmq, topic).await;
    rocketmq.probe().await.expect("a probe finds it, too");
    assert_eq!(rocketmq.outage(), None);
}

/// As a relay does it: what fails because nobody answered goes again after a probe. The client asks its name servers in an order of its own.
async fn delivers(rocketmq: &dyn Transport, topic: &str) {
    let delivered = async {
        let mut left: Vec<i64> = (0..100).collect();
        loop {
            let outcomes = OutcomeRecorder::new();
            left.iter().for_each(|id| outcomes.send(rocketmq, *id, envelope(topic, Some(&format!("key-{}", id % 7)))));
            let seen = outcomes.wait_for(left.len(), TIMEOUT).await;
            let failed: Vec<_> = seen.into_iter().filter(|(_, seen)| *seen != RecordedOutcome::Delivered).collect();
            if failed.is_empty() {
                return;
            }
            // On a busy machine a request may take its time behind the silent one, and end as a time-out.
            let of_the_way = [Some(FailureClass::Connection), Some(FailureClass::Temporary)];
            assert!(failed.iter().all(|(_, seen)| of_the_way.contains(&seen.class())), "{failed:?}");
            left = failed.into_iter().map(|(id, _)| id).collect();
            // An answer of an error is waited for like any other.
            while rocketmq.probe().await.is_err() {
                tokio::task::yield_now().await;
            }
        }
    };
    timeout(TIMEOUT, delivered).await.expect("one of them answers");
}

#[tokio::test]
async fn a_dead_first_name_server_stops_nothing() {
    let Some(broker) = SharedBroker::open() else { return };
    let dead = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    begins_and_delivers(&format!("{dead};{}", broker.name_server), &broker.new_topic().await).await;
}

#[tokio::test]
async fn a_silent_first_name_server_only_costs_time() {
    let Some(broker) = SharedBroker::open() else { return };
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent_at = silent.local_addr().expect("an address");
    begins_and_delivers(&format!("{silent_at};{}", broker.name_server), &broker.new_topic().await).await;
}

/// A name server under one more address, which can go away.
struct NameServerProxy {
    address: String,
    open: JoinHandle<()>,
}

impl NameServerProxy {
    async fn of(name_server: &str) -> Self {
        let listener = net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (address, behind) = (listener.local_addr().expect("an address").to_string(), name_server.to_owned());
        let open = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let mut server = TcpStream::connect(&behind).await.expect("the name server");
                connections.spawn(async move { copy_bidirectional(&mut client, &mut server).await });
            }
        });
        Self { address, open }
    }

    /// Closes the port and every connection.
    async fn shut(self) {
        self.open.abort();
        self.open.await.expect_err("it has no end of its own");
    }
}

/// A topic that nobody asked about before is found by way of the other one.
#[tokio::test]
async fn the_first_name_server_dies_while_it_is_used() {
    let Some(broker) = SharedBroker::open() else { return };
    let (door, topic) = (NameServerProxy::of(&broker.name_server).await, broker.new_topic().await);
    let rocketmq = transport(config(&format!("{};{}", door.address, broker.name_server)));
    delivers(&*rocketmq, &topic).await;
    door.shut().await;
    delivers(&*rocketmq, &topic).await;
    delivers(&*rocketmq, &broker.new_topic().await).await;
    rocketmq.probe().await.expect("the other one answers");
    assert_eq!(rocketmq.outage(), None);
}
