//! Name servers and brokers, some of which are down or know nothing yet.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, pending, ready};
use rocketmq_client_rust::SendStatus;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_protocol::protocol::route::topic_route_data::TopicRouteData;
use tokio::runtime::Handle;

use super::super::admin::{self, RocketMqTopic, TopicSpec};
use super::super::batch::Content;
use super::super::classify::CallError;
use super::super::client::Client;
use super::super::config::RocketMqConfig;
use super::super::nodes::masters;
use super::super::queues::Queue;
use super::super::work;
use super::route_of;
use crate::transport::FailureClass;
use crate::transport::rocketmq::connection::{Call, Connect, Connection, Fields, StoredHalf};

const MAKE_TOPIC: i32 = 17;
const LIST_BROKERS: i32 = 106;
const TWO_BROKERS: &str = r#"{"brokerAddrTable":{
    "a":{"brokerAddrs":{0:"a:1"},"cluster":"one"},
    "b":{"brokerAddrs":{0:"b:1"},"cluster":"one"}}}"#;
const TOPIC: Option<&str> = Some(r#"{"readQueueNums":8,"writeQueueNums":8}"#);

/// What runs at each address. The silent ones never answer; any other address has no server.
struct Nodes {
    responses: HashMap<&'static str, Option<&'static str>>,
    requests: Mutex<Vec<(String, i32)>>,
}

impl Nodes {
    fn new(responses: impl IntoIterator<Item = (&'static str, Option<&'static str>)>) -> Arc<Self> {
        Arc::new(Self { responses: responses.into_iter().collect(), requests: Mutex::default() })
    }

    fn times(&self, address: &str, code: i32) -> usize {
        self.requests.lock().expect("no panic").iter().filter(|request| **request == (address.to_owned(), code)).count()
    }
}

impl Connection for Nodes {
    fn send(&self, _content: Content, _topic: &str, _queue: &Queue) -> Call<'_, SendStatus> {
        unreachable!("no message is sent here")
    }

    fn send_half(&self, _message: Message, _topic: &str, _queue: &Queue) -> Call<'_, StoredHalf> {
        unreachable!("no message is sent here")
    }

    fn route(&self, _topic: &str) -> Call<'_, Option<TopicRouteData>> {
        ready(Ok(Some(route_of(&["a"])))).boxed()
    }

    fn request(&self, address: &str, code: i32, _: Fields<'_>, _: Vec<u8>) -> Call<'_, Option<Vec<u8>>> {
        self.requests.lock().expect("no panic").push((address.to_owned(), code));
        if address.starts_with("silent") {
            return pending().boxed();
        }
        let gone = || CallError::new(FailureClass::Connection, "gone");
        let response = self.responses.get(address).map(|response| response.map(|text| text.as_bytes().to_vec()));
        ready(response.ok_or_else(gone)).boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }
}

#[tokio::test]
async fn a_name_server_without_brokers_is_not_final() {
    let nodes = Nodes::new([("new:1", Some("{}")), ("torn:1", Some("<html>")), ("names:1", Some(TWO_BROKERS))]);
    let masters = async |servers: &'static str| masters(&*nodes, servers, &AtomicUsize::new(0)).await;
    let found = masters("gone:1;new:1;torn:1;names:1;never:1").await.expect("the last but one knows the masters");
    assert_eq!(found.iter().map(|node| &*node.name).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(masters("gone:1;new:1;torn:1").await.expect("an answer"), []);
    let class = async |servers: &'static str| masters(servers).await.map_err(|call_error| call_error.class);
    assert_eq!(class("gone:1").await, Err(FailureClass::Connection));
    assert_eq!(class("gone:1;torn:1").await, Err(FailureClass::Temporary));
}

#[tokio::test(start_paused = true)]
async fn a_topic_is_found_behind_silent_name_servers() {
    let nodes = Nodes::new([("names:1", Some(TWO_BROKERS))]);
    let client = client(&nodes, "silent:1;silent:2;silent:3;names:1");
    let topic = client.topics.of(&"orders".into(), &client.config);
    for requests in [0, 1, 2] {
        work::read(Arc::clone(&client), Arc::clone(&topic)).await;
        assert!(!topic.hand_over(Vec::new(), &client.health).reads, "the queues are known");
        assert_eq!(nodes.times("names:1", LIST_BROKERS), requests);
    }
    let silent = ["silent:1", "silent:2", "silent:3"].map(|address| nodes.times(address, LIST_BROKERS));
    assert_eq!(silent, [1, 1, 1], "each of them costs its time-out once");
}

/// A client whose only connection has these nodes.
fn client(nodes: &Arc<Nodes>, name_servers: &str) -> Arc<Client> {
    let life = Arc::clone(nodes);
    let open: Connect = Box::new(move || {
        let life = Arc::clone(&life);
        Box::pin(async move { Ok(life as Arc<dyn Connection>) })
    });
    Arc::new(Client::new(RocketMqConfig::new(name_servers), Handle::current(), open))
}

/// Creates, or only checks, two topics of 8 queues on brokers a and b.
async fn prepared(nodes: &Arc<Nodes>, create: bool) -> Result<(), FailureClass> {
    let client = client(nodes, "names:1");
    let wanted = ["orders", "bills"].map(|name| TopicSpec { topic: RocketMqTopic::new(name).queues(8), create });
    admin::prepare(&client, &wanted).await.map_err(|error| error.class())
}

#[tokio::test]
async fn topics_are_created_and_checked_while_a_broker_is_gone() {
    let with_b = |response| Nodes::new([("names:1", Some(TWO_BROKERS)), ("b:1", response)]);
    let nodes = with_b(None);
    assert_eq!(prepared(&nodes, true).await, Ok(()));
    assert_eq!(nodes.times("b:1", MAKE_TOPIC), 2, "the topics are created there");
    assert_eq!(nodes.requests.lock().expect("no panic").iter().filter(|(address, _)| address == "a:1").count(), 1);
    assert_eq!(prepared(&with_b(TOPIC), false).await, Ok(()));
    assert_eq!(prepared(&with_b(None), false).await, Err(FailureClass::Topic), "no broker has them");
    let other = Some(r#"{"readQueueNums":4,"writeQueueNums":4}"#);
    assert_eq!(prepared(&with_b(other), false).await, Err(FailureClass::Topic), "they have 4 queues");
    let alone = Nodes::new([("names:1", Some(TWO_BROKERS))]);
    assert_eq!(prepared(&alone, true).await, Err(FailureClass::Connection), "no broker is left");
}
