//! Half messages on a broker that moves, or that does not store them safely.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use rocketmq_client_rust::SendStatus;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_protocol::protocol::route::topic_route_data::TopicRouteData;
use tokio::runtime::Handle;

use super::super::batch::Content;
use super::super::classify::CallError;
use super::super::client::Client;
use super::super::config::RocketMqConfig;
use super::super::half::HalfProducer;
use super::super::library::Library;
use super::super::queues::Queue;
use super::route_of;
use crate::clock::system_now;
use crate::message::{Envelope, MessageId};
use crate::transport::FailureClass;
use crate::transport::rocketmq::connection::{Call, Connect, Connection, Fields, StoredHalf};

/// A broker `a` that the name server lists at one address, and that may run at another.
struct MovingBroker {
    keeps: SendStatus,
    listed: Mutex<&'static str>,
    is_there: bool,
    requested_addresses: Mutex<Vec<String>>,
}

impl MovingBroker {
    fn new(keeps: SendStatus, is_there: bool) -> Arc<Self> {
        Arc::new(Self { keeps, listed: Mutex::new("a:1"), is_there, requested_addresses: Mutex::default() })
    }

    fn move_to(&self, address: &'static str) {
        *self.listed.lock().expect("no panic") = address;
    }
}

impl Connection for MovingBroker {
    fn send(&self, _content: Content, _topic: &str, _queue: &Queue) -> Call<'_, SendStatus> {
        unreachable!("only half messages are sent here")
    }

    fn send_half(&self, _message: Message, _topic: &str, _queue: &Queue) -> Call<'_, StoredHalf> {
        let (client_id, transaction_id) = ("id".to_owned(), "id".to_owned());
        let stored = StoredHalf { status: self.keeps, queue_offset: 1, log_offset: 2, client_id, transaction_id };
        ready(Ok(stored)).boxed()
    }

    fn route(&self, _topic: &str) -> Call<'_, Option<TopicRouteData>> {
        ready(Ok(Some(route_of(&["a"])))).boxed()
    }

    fn request(&self, address: &str, _: i32, _: Fields<'_>, _: Vec<u8>) -> Call<'_, Option<Vec<u8>>> {
        let listed = *self.listed.lock().expect("no panic");
        if address == "names:1" {
            let list = format!(r#"{{"brokerAddrTable":{{"a":{{"brokerAddrs":{{0:"{listed}"}},"cluster":"one"}}}}}}"#);
            return ready(Ok(Some(list.into_bytes()))).boxed();
        }
        self.requested_addresses.lock().expect("no panic").push(address.to_owned());
        let gone = CallError::new(FailureClass::Connection, "gone");
        ready((self.is_there && address == listed).then(|| Some(Vec::new())).ok_or(gone)).boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }
}

fn halves(life: &Arc<MovingBroker>, config: RocketMqConfig) -> HalfProducer {
    let life = Arc::clone(life);
    let open: Connect = Box::new(move || {
        let life = Arc::clone(&life);
        Box::pin(async move { Ok(life as Arc<dyn Connection>) })
    });
    let (library, ..) = Library::start().expect("a library");
    HalfProducer::with_client(Arc::new(Client::new(config, Handle::current(), open)), library)
}

fn config() -> RocketMqConfig {
    RocketMqConfig::new("names:1")
}

fn envelope() -> Envelope {
    Envelope::new(MessageId::new(), "orders".into(), system_now())
}

#[tokio::test]
async fn a_broker_with_a_new_address_gets_the_decision() {
    let life = MovingBroker::new(SendStatus::SendOk, true);
    let halves = halves(&life, config());
    let half = halves.send(envelope()).await.expect("a broker");
    halves.end(&half, true).await.expect("the broker has not moved");
    life.move_to("a:2");
    halves.end(&half, true).await.expect("the broker has moved");
    halves.end(&half, true).await.expect("the new address is known");
    assert_eq!(*life.requested_addresses.lock().expect("no panic"), ["a:1", "a:1", "a:2", "a:2"]);
}

#[tokio::test]
async fn a_broker_that_is_gone_is_tried_once() {
    let life = MovingBroker::new(SendStatus::SendOk, false);
    let halves = halves(&life, config());
    let half = halves.send(envelope()).await.expect("a broker");
    for calls in 1..3 {
        let error = halves.end(&half, true).await.expect_err("the broker is down");
        assert_eq!(error.class(), FailureClass::Connection);
        assert_eq!(life.requested_addresses.lock().expect("no panic").len(), calls);
    }
}

#[tokio::test]
async fn a_half_message_is_sent_when_it_is_as_durable_as_configured() {
    for keeps in [SendStatus::FlushDiskTimeout, SendStatus::FlushSlaveTimeout, SendStatus::SlaveNotAvailable] {
        let life = MovingBroker::new(keeps, true);
        let error = halves(&life, config()).send(envelope()).await.expect_err("stored less safely than asked");
        assert_eq!(error.class(), FailureClass::Temporary, "{keeps:?}");
        let accepts = halves(&life, config().accept_unreplicated()).send(envelope()).await;
        let is_flushed = keeps != SendStatus::FlushDiskTimeout;
        assert_eq!(accepts.is_ok(), is_flushed, "{keeps:?} where replicas are not waited for: {accepts:?}");
    }
}
