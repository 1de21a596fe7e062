//! Client library calls that panic, hang or return wrong answers.

mod cluster;
mod half;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use rocketmq_client_rust::SendStatus;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_protocol::protocol::route::route_data_view::{BrokerData, QueueData};
use rocketmq_protocol::protocol::route::topic_route_data::TopicRouteData;
use tokio::runtime::Handle;

use super::batch::Content;
use super::connection::{Call, Connect, Connection, Fields, StoredHalf};
use super::queues::Queue;
use super::*;
use crate::clock::system_now;
use crate::limits::{
    ROCKETMQ_BROKER_BACK_OFF, ROCKETMQ_REPLACE_AFTER, ROCKETMQ_ROUTE_INTERVAL, ROCKETMQ_ROUTE_INTERVAL_MIN,
};
use crate::message::MessageId;
use crate::store::RowKey;
use crate::transport::{InFlightCounter, OutcomeSink};

/// How a connection answers messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    Takes,
    Panics,
    Hangs,
    Answers(i32),
    Half(SendStatus),
    /// There is a second broker, and it is down.
    SecondIsGone,
}

/// How a connection answers requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    Answers,
    Hangs,
    Denies,
    Panics,
}

struct Scripted(Sending, Asking);

impl Connection for Scripted {
    fn send(&self, _content: Content, _topic: &str, queue: &Queue) -> Call<'_, SendStatus> {
        let is_second = &*queue.broker == "b";
        Box::pin(async move {
            match self.0 {
                Sending::SecondIsGone if is_second => Err(CallError::new(FailureClass::Connection, "gone")),
                Sending::SecondIsGone => Ok(SendStatus::SendOk),
                Sending::Takes => Ok(SendStatus::SendOk),
                Sending::Panics => panic!("in the client library"),
                Sending::Hangs => std::future::pending().await,
                Sending::Answers(code) => Err(CallError::answered(code)),
                Sending::Half(status) => Ok(status),
            }
        })
    }

    fn send_half(&self, _message: Message, _topic: &str, _queue: &Queue) -> Call<'_, StoredHalf> {
        unreachable!("no half message is sent here")
    }

    fn route(&self, _topic: &str) -> Call<'_, Option<TopicRouteData>> {
        Box::pin(async {
            assert_ne!(self.1, Asking::Panics, "in the client library");
            let names = if self.0 == Sending::SecondIsGone { &["a", "b"][..] } else { &["a"] };
            Ok(Some(route_of(names)))
        })
    }

    fn request(&self, _: &str, code: i32, _: Fields<'_>, _: Vec<u8>) -> Call<'_, Option<Vec<u8>>> {
        const HEART_BEAT: i32 = 34;
        Box::pin(async move {
            match self.1 {
                Asking::Hangs if code == HEART_BEAT => std::future::pending().await,
                Asking::Denies if code == HEART_BEAT => Err(CallError::answered(16)),
                _ => {
                    let list = r#"{"brokerAddrTable":{"a":{"brokerAddrs":{0:"127.0.0.1:1"},"cluster":"one"}}}"#;
                    Ok(Some(list.as_bytes().to_vec()))
                }
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// A topic with four queues on each of these brokers.
fn route_of(names: &[&str]) -> TopicRouteData {
    let addresses = HashMap::from([(0, "127.0.0.1:1".into())]);
    let broker = |name: &&str| BrokerData::new("one".into(), (*name).into(), HashMap::clone(&addresses), None);
    let mut route = TopicRouteData::new();
    route.broker_datas = names.iter().map(broker).collect();
    route.queue_datas = names.iter().map(|name| QueueData::new((*name).into(), 4, 4, 6, 0)).collect();
    route
}

#[derive(Default)]
struct RecordingSink {
    outcomes: std::sync::Mutex<Vec<Option<FailureClass>>>,
    in_flight: InFlightCounter,
}

impl OutcomeSink for RecordingSink {
    fn complete(&self, _row: RowKey, outcome: Outcome) {
        let class = match outcome {
            Outcome::Delivered => None,
            Outcome::Busy => unreachable!("there is capacity"),
            Outcome::Failed(error) => Some(error.class()),
        };
        self.outcomes.lock().expect("no panic").push(class);
    }
}

impl RecordingSink {
    /// Hands messages over and waits for their outcomes, one for each.
    async fn after(self: &Arc<Self>, client: &Arc<Client>, count: usize) -> Vec<Option<FailureClass>> {
        for id in 0..count {
            let mut envelope = Envelope::new(MessageId::new(), "orders".into(), system_now());
            envelope.key = Some(format!("key-{}", id % 5));
            let row = RowKey { id: i64::try_from(id).expect("few"), message_id: envelope.message_id };
            let sender =
                OutcomeSender::of_row(row, Arc::clone(self) as Arc<dyn OutcomeSink>).tracked_by(&self.in_flight);
            hand_over(client, vec![(envelope, sender)]);
        }
        let left = self.in_flight.wait_until_none(client.config.delivery_timeout).await;
        let outcomes = std::mem::take(&mut *self.outcomes.lock().expect("no panic"));
        assert_eq!((left, outcomes.len()), (0, count), "one outcome each, in time");
        outcomes
    }
}

fn config() -> RocketMqConfig {
    RocketMqConfig::new("127.0.0.1:1")
}

/// A client whose connections follow each other as given; the last one stays.
fn client(lives: &'static [(Sending, Asking)]) -> Arc<Client> {
    client_with(lives, config())
}

fn client_with(lives: &'static [(Sending, Asking)], config: RocketMqConfig) -> Arc<Client> {
    let begun = AtomicUsize::new(0);
    let open: Connect = Box::new(move || {
        let (sending, asking) = lives[begun.fetch_add(1, Ordering::Relaxed).min(lives.len() - 1)];
        Box::pin(async move { Ok(Arc::new(Scripted(sending, asking)) as Arc<dyn Connection>) })
    });
    Arc::new(Client::new(config, Handle::current(), open))
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_the_held_messages_and_ends_the_client() {
    let client = client(&[(Sending::Panics, Asking::Answers), (Sending::Takes, Asking::Answers)]);
    let seen = Arc::<RecordingSink>::default();
    assert_eq!(seen.after(&client, 300).await, [Some(FailureClass::Fatal); 300]);
    assert_eq!(client.health.outage().map(|outage| outage.class()), Some(FailureClass::Fatal));
    client.probe().await.expect("another connection");
    assert_eq!(seen.after(&client, 300).await, [None; 300]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_during_a_topic_lookup_returns_the_messages() {
    let client = client(&[(Sending::Takes, Asking::Panics), (Sending::Takes, Asking::Answers)]);
    let seen = Arc::<RecordingSink>::default();
    assert_eq!(seen.after(&client, 10).await, [Some(FailureClass::Fatal); 10]);
    client.probe().await.expect("another connection");
    assert_eq!(seen.after(&client, 10).await, [None; 10]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_is_an_outage_only_if_no_broker_responds() {
    let seen = Arc::<RecordingSink>::default();
    let slow = client(&[(Sending::Hangs, Asking::Answers)]);
    assert_eq!(seen.after(&slow, 3_000).await, [Some(FailureClass::Temporary); 3_000]);
    assert!(slow.health.outage().is_none());
    let gone = client(&[(Sending::Hangs, Asking::Hangs)]);
    assert_eq!(seen.after(&gone, 3_000).await, [Some(FailureClass::Connection); 3_000]);
    assert_eq!(gone.probe().await.map_err(|call_error| call_error.class), Err(FailureClass::Connection));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_is_gone_is_no_outage_while_another_takes_messages() {
    let (client, seen) = (client(&[(Sending::SecondIsGone, Asking::Answers)]), Arc::<RecordingSink>::default());
    let outcomes = seen.after(&client, 300).await;
    assert!(outcomes.contains(&None) && outcomes.contains(&Some(FailureClass::Temporary)), "{outcomes:?}");
    assert!(outcomes.iter().all(|class| class.is_none_or(|class| !class.is_outage())), "{outcomes:?}");
    assert!(client.health.outage().is_none() && client.health.is_down("b"));
    tokio::time::advance(ROCKETMQ_BROKER_BACK_OFF).await;
    assert!(!client.health.is_down("b"), "the broker is tried again");
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_concerns_the_login_or_the_topic() {
    let seen = Arc::<RecordingSink>::default();
    let stranger = client(&[(Sending::Answers(16), Asking::Denies)]);
    assert_eq!(seen.after(&stranger, 10).await, [Some(FailureClass::Authentication); 10]);
    let known = client(&[(Sending::Answers(16), Asking::Answers)]);
    assert_eq!(seen.after(&known, 10).await, [Some(FailureClass::Topic); 10]);
}

#[tokio::test(start_paused = true)]
async fn unreplicated_messages_are_not_delivered() {
    let seen = Arc::<RecordingSink>::default();
    for status in [SendStatus::FlushDiskTimeout, SendStatus::FlushSlaveTimeout, SendStatus::SlaveNotAvailable] {
        let lives: &'static [_] = Box::leak(Box::new([(Sending::Half(status), Asking::Answers)]));
        assert_eq!(seen.after(&client(lives), 1).await, [Some(FailureClass::Temporary)], "{status:?}");
        let accepts = client_with(lives, config().accept_unreplicated());
        let is_unflushed = status == SendStatus::FlushDiskTimeout;
        let class = is_unflushed.then_some(FailureClass::Temporary);
        assert_eq!(seen.after(&accepts, 1).await, [class], "{status:?} where replicas are not waited for");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_messages_are_abandoned_at_shutdown() {
    let (client, seen) = (client(&[(Sending::Hangs, Asking::Hangs)]), Arc::<RecordingSink>::default());
    let closes = async {
        while seen.in_flight.count() < 3_000 {
            tokio::task::yield_now().await;
        }
        client.close();
        client.capacity.taken()
    };
    let (outcomes, in_request) = tokio::join!(seen.after(&client, 3_000), closes);
    let timed_out = outcomes.iter().filter(|class| **class == Some(FailureClass::Temporary)).count();
    assert_eq!(timed_out, 3_000 - in_request, "all but those in a request");
    assert!(outcomes.iter().all(Option::is_some));
}

#[tokio::test(start_paused = true)]
async fn topic_routes_are_refreshed_periodically_and_after_a_failure() {
    let (client, moment) = (client(&[(Sending::Takes, Asking::Answers)]), Duration::from_millis(1));
    let topic = client.topics.of(&"orders".into(), &client.config);
    let wants_read = || topic.hand_over(Vec::new(), &client.health).reads;
    let read = || drop(topic.found(vec![Queue { broker: "a".into(), number: 0 }], &client.health));
    assert!(wants_read() && !wants_read(), "the queues are unknown, and requested once");
    read();
    tokio::time::advance(ROCKETMQ_ROUTE_INTERVAL_MIN - moment).await;
    assert!(!topic.request_refresh());
    tokio::time::advance(moment).await;
    assert!(topic.request_refresh() && !topic.request_refresh());
    read();
    tokio::time::advance(ROCKETMQ_ROUTE_INTERVAL - moment).await;
    assert!(!wants_read());
    tokio::time::advance(moment).await;
    assert!(wants_read());
}

#[tokio::test(start_paused = true)]
async fn a_client_library_that_does_not_recover_is_replaced() {
    let client = client(&[(Sending::Takes, Asking::Denies), (Sending::Takes, Asking::Answers)]);
    let (began, probe_interval) = (Instant::now(), Duration::from_secs(1));
    while client.probe().await.is_err() {
        assert!(began.elapsed() <= ROCKETMQ_REPLACE_AFTER * 2, "it is never replaced");
        tokio::time::sleep(probe_interval).await;
    }
    assert!(began.elapsed() >= ROCKETMQ_REPLACE_AFTER, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_hanging_connect_is_waited_for_once() {
    let begun = AtomicUsize::new(0);
    let open: Connect = Box::new(move || {
        let is_first = begun.fetch_add(1, Ordering::Relaxed) == 0;
        Box::pin(async move {
            if !is_first {
                std::future::pending::<()>().await;
            }
            Ok(Arc::new(Scripted(Sending::Takes, Asking::Answers)) as Arc<dyn Connection>)
        })
    });
    let (client, seen) = (Arc::new(Client::new(config(), Handle::current(), open)), Arc::<RecordingSink>::default());
    assert_eq!(seen.after(&client, 300).await, [None; 300], "on each of the queues");
    client.replace();
    let began = Instant::now();
    assert_eq!(seen.after(&client, 300).await, [Some(FailureClass::Temporary); 300]);
    assert!(began.elapsed() < client.config.request_timeout * 2, "the queues run in parallel: {:?}", began.elapsed());
}
