//! The library's calls that panic, hang or lie: a life of it in which they do.

mod cluster;
mod half;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use rocketmq_client_rust::SendStatus;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_protocol::protocol::route::route_data_view::{BrokerData, QueueData};
use rocketmq_protocol::protocol::route::topic_route_data::TopicRouteData;
use tokio::runtime::Handle;

use super::batch::Content;
use super::link::{Fields, Kept, Link, Open};
use super::queues::Queue;
use super::*;
use crate::clock::wall_now;
use crate::limits::{
    ROCKETMQ_BROKER_REST, ROCKETMQ_REPLACE_AFTER, ROCKETMQ_ROUTE_INTERVAL, ROCKETMQ_ROUTE_INTERVAL_MIN,
};
use crate::message::MessageId;
use crate::store::RowKey;
use crate::transport::{ReceiptSink, Unanswered};

/// How a life answers to messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    Takes,
    Panics,
    Hangs,
    Answers(i32),
    Half(SendStatus),
    /// There is a second broker, and it is gone.
    SecondIsGone,
}

/// And to questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    Answers,
    Hangs,
    Denies,
    Panics,
}

struct Scripted(Sending, Asking);

#[async_trait]
impl Link for Scripted {
    async fn send(&self, _content: Content, _topic: &str, queue: &Queue) -> Result<SendStatus, Trouble> {
        match self.0 {
            Sending::SecondIsGone if &*queue.broker == "b" => Err(Trouble::new(FailureClass::Connection, "gone")),
            Sending::SecondIsGone => Ok(SendStatus::SendOk),
            Sending::Takes => Ok(SendStatus::SendOk),
            Sending::Panics => panic!("of the client library"),
            Sending::Hangs => std::future::pending().await,
            Sending::Answers(code) => Err(Trouble::answered(code)),
            Sending::Half(status) => Ok(status),
        }
    }

    async fn send_half(&self, _message: Message, _topic: &str, _queue: &Queue) -> Result<Kept, Trouble> {
        unreachable!("no half message is sent here")
    }

    async fn route(&self, _topic: &str) -> Result<Option<TopicRouteData>, Trouble> {
        assert_ne!(self.1, Asking::Panics, "of the client library");
        let names = if self.0 == Sending::SecondIsGone { &["a", "b"][..] } else { &["a"] };
        Ok(Some(route_of(names)))
    }

    async fn ask(&self, _: &str, code: i32, _: Fields<'_>, _: Vec<u8>) -> Result<Option<Vec<u8>>, Trouble> {
        const HEART_BEAT: i32 = 34;
        match self.1 {
            Asking::Hangs if code == HEART_BEAT => std::future::pending().await,
            Asking::Denies if code == HEART_BEAT => Err(Trouble::answered(16)),
            _ => {
                let list = r#"{"brokerAddrTable":{"a":{"brokerAddrs":{0:"127.0.0.1:1"},"cluster":"one"}}}"#;
                Ok(Some(list.as_bytes().to_vec()))
            }
        }
    }

    async fn close(&self) {}
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
struct Seen {
    outcomes: std::sync::Mutex<Vec<Option<FailureClass>>>,
    unanswered: Unanswered,
}

impl ReceiptSink for Seen {
    fn settle(&self, _row: RowKey, outcome: Outcome) {
        let class = match outcome {
            Outcome::Delivered => None,
            Outcome::Busy => unreachable!("there is room"),
            Outcome::Failed(error) => Some(error.class()),
        };
        self.outcomes.lock().expect("no panic").push(class);
    }
}

impl Seen {
    /// Hands messages over and waits for their outcomes: each one, once.
    async fn after(self: &Arc<Self>, client: &Arc<Client>, count: usize) -> Vec<Option<FailureClass>> {
        for id in 0..count {
            let mut envelope = Envelope::new(MessageId::new(), "orders".into(), wall_now());
            envelope.key = Some(format!("key-{}", id % 5));
            let row = RowKey { id: i64::try_from(id).expect("few"), message_id: envelope.message_id };
            let receipt = Receipt::new(row, Arc::clone(self) as Arc<dyn ReceiptSink>).counted_by(&self.unanswered);
            hand_over(client, vec![(envelope, receipt)]);
        }
        let left = self.unanswered.none_within(client.config.delivery_timeout).await;
        let outcomes = std::mem::take(&mut *self.outcomes.lock().expect("no panic"));
        assert_eq!((left, outcomes.len()), (0, count), "one outcome each, in time");
        outcomes
    }
}

fn config() -> RocketMqConfig {
    RocketMqConfig::new("127.0.0.1:1")
}

/// A client whose lives follow each other as given; the last one stays.
fn client(lives: &'static [(Sending, Asking)]) -> Arc<Client> {
    client_with(lives, config())
}

fn client_with(lives: &'static [(Sending, Asking)], config: RocketMqConfig) -> Arc<Client> {
    let begun = AtomicUsize::new(0);
    let open: Open = Box::new(move || {
        let (sending, asking) = lives[begun.fetch_add(1, Ordering::Relaxed).min(lives.len() - 1)];
        Box::pin(async move { Ok(Arc::new(Scripted(sending, asking)) as Arc<dyn Link>) })
    });
    Arc::new(Client::new(config, Handle::current(), open))
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_the_outcome_of_what_it_held_and_ends_the_client() {
    let client = client(&[(Sending::Panics, Asking::Answers), (Sending::Takes, Asking::Answers)]);
    let seen = Arc::<Seen>::default();
    assert_eq!(seen.after(&client, 300).await, [Some(FailureClass::Fatal); 300]);
    assert_eq!(client.health.outage().map(|outage| outage.class()), Some(FailureClass::Fatal));
    client.probe().await.expect("another life");
    assert_eq!(seen.after(&client, 300).await, [None; 300]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_a_topic_is_looked_up_keeps_no_message() {
    let client = client(&[(Sending::Takes, Asking::Panics), (Sending::Takes, Asking::Answers)]);
    let seen = Arc::<Seen>::default();
    assert_eq!(seen.after(&client, 10).await, [Some(FailureClass::Fatal); 10]);
    client.probe().await.expect("another life");
    assert_eq!(seen.after(&client, 10).await, [None; 10]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_an_outage_only_where_nobody_answers() {
    let seen = Arc::<Seen>::default();
    let slow = client(&[(Sending::Hangs, Asking::Answers)]);
    assert_eq!(seen.after(&slow, 3_000).await, [Some(FailureClass::Temporary); 3_000]);
    assert!(slow.health.outage().is_none());
    let gone = client(&[(Sending::Hangs, Asking::Hangs)]);
    assert_eq!(seen.after(&gone, 3_000).await, [Some(FailureClass::Connection); 3_000]);
    assert_eq!(gone.probe().await.map_err(|trouble| trouble.class), Err(FailureClass::Connection));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_is_gone_is_no_outage_while_another_takes_messages() {
    let (client, seen) = (client(&[(Sending::SecondIsGone, Asking::Answers)]), Arc::<Seen>::default());
    let outcomes = seen.after(&client, 300).await;
    assert!(outcomes.contains(&None) && outcomes.contains(&Some(FailureClass::Temporary)), "{outcomes:?}");
    assert!(outcomes.iter().all(|class| class.is_none_or(|class| !class.is_outage())), "{outcomes:?}");
    assert!(client.health.outage().is_none() && client.health.is_down("b"));
    tokio::time::advance(ROCKETMQ_BROKER_REST).await;
    assert!(!client.health.is_down("b"), "it is tried again");
}

#[tokio::test(start_paused = true)]
async fn no_permission_is_the_logins_or_the_topics() {
    let seen = Arc::<Seen>::default();
    let stranger = client(&[(Sending::Answers(16), Asking::Denies)]);
    assert_eq!(seen.after(&stranger, 10).await, [Some(FailureClass::Authentication); 10]);
    let known = client(&[(Sending::Answers(16), Asking::Answers)]);
    assert_eq!(seen.after(&known, 10).await, [Some(FailureClass::Topic); 10]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_safe_is_not_delivered() {
    let seen = Arc::<Seen>::default();
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
async fn what_waits_is_given_up_at_the_end() {
    let (client, seen) = (client(&[(Sending::Hangs, Asking::Hangs)]), Arc::<Seen>::default());
    let closes = async {
        while seen.unanswered.count() < 3_000 {
            tokio::task::yield_now().await;
        }
        client.close();
        client.room.taken()
    };
    let (outcomes, in_request) = tokio::join!(seen.after(&client, 3_000), closes);
    let given_up = outcomes.iter().filter(|class| **class == Some(FailureClass::Temporary)).count();
    assert_eq!(given_up, 3_000 - in_request, "all but what is in a request");
    assert!(outcomes.iter().all(Option::is_some));
}

#[tokio::test(start_paused = true)]
async fn the_queues_of_a_topic_are_read_again_now_and_then_and_soon_where_one_failed() {
    let (client, moment) = (client(&[(Sending::Takes, Asking::Answers)]), Duration::from_millis(1));
    let topic = client.topics.of(&"orders".into(), &client.config);
    let wants_read = || topic.hand_over(Vec::new(), &client.health).reads;
    let read = || drop(topic.found(vec![Queue { broker: "a".into(), number: 0 }], &client.health));
    assert!(wants_read() && !wants_read(), "they are not known, and looked for once");
    read();
    tokio::time::advance(ROCKETMQ_ROUTE_INTERVAL_MIN - moment).await;
    assert!(!topic.suspect());
    tokio::time::advance(moment).await;
    assert!(topic.suspect() && !topic.suspect());
    read();
    tokio::time::advance(ROCKETMQ_ROUTE_INTERVAL - moment).await;
    assert!(!wants_read());
    tokio::time::advance(moment).await;
    assert!(wants_read());
}

#[tokio::test(start_paused = true)]
async fn a_library_that_does_not_find_back_is_replaced_after_a_while() {
    let client = client(&[(Sending::Takes, Asking::Denies), (Sending::Takes, Asking::Answers)]);
    let (began, probe_interval) = (Instant::now(), Duration::from_secs(1));
    while client.probe().await.is_err() {
        assert!(began.elapsed() <= ROCKETMQ_REPLACE_AFTER * 2, "it is never replaced");
        tokio::time::sleep(probe_interval).await;
    }
    assert!(began.elapsed() >= ROCKETMQ_REPLACE_AFTER, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_beginning_that_hangs_is_waited_for_once() {
    let begun = AtomicUsize::new(0);
    let open: Open = Box::new(move || {
        let is_first = begun.fetch_add(1, Ordering::Relaxed) == 0;
        Box::pin(async move {
            if !is_first {
                std::future::pending::<()>().await;
            }
            Ok(Arc::new(Scripted(Sending::Takes, Asking::Answers)) as Arc<dyn Link>)
        })
    });
    let (client, seen) = (Arc::new(Client::new(config(), Handle::current(), open)), Arc::<Seen>::default());
    assert_eq!(seen.after(&client, 300).await, [None; 300], "on each of the queues");
    client.replace();
    let began = Instant::now();
    assert_eq!(seen.after(&client, 300).await, [Some(FailureClass::Temporary); 300]);
    assert!(began.elapsed() < client.config.request_timeout * 2, "each queue for itself: {:?}", began.elapsed());
}
