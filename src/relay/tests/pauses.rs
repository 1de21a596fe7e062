//! Topics that somebody has paused.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::lanes::{TOPIC as ORDERED, world as ordered_world};
use super::{World, envelope, inline};
use crate::relay::Relay;
use crate::retry::Fixed;
use crate::store::{AdminStore as _, Call, Fault, InsertOptions, StoreError};
use crate::topic::Topic;
use crate::transport::{FailureClass, ScriptedResponse};

impl World {
    async fn pause(&self, topic: &str) {
        self.store.pause(&topic.into(), None).await.unwrap();
    }

    async fn resume(&self, topic: &str) {
        assert!(self.store.resume(&topic.into(), None).await.unwrap());
    }

    async fn paused(&self, relay: &Relay, topic: &str) {
        self.until("it is seen", || relay.status().paused_topics.iter().any(|paused| &**paused == topic)).await;
    }
}

/// On every path, also in a process that starts meanwhile; and nothing is written.
#[tokio::test(start_paused = true)]
async fn nothing_of_a_paused_topic_is_sent_or_written() {
    let world = ordered_world();
    for topic in ["orders", ORDERED] {
        world.pause(topic).await;
    }
    let relay = world.start().await;
    assert_eq!(relay.status().paused_topics.len(), 2, "the pauses are known before anything is sent");
    let due = world.commit("orders");
    let handed_over = world.commit_and_hand_over("orders");
    let verified = envelope("orders");
    let key = world.store.insert(verified.clone(), InsertOptions::default().leased_for(Duration::from_secs(3)));
    world.link.hand_over(vec![inline(key, verified, world.now())]);
    let keyed = world.commit_keyed("a");
    world.hand_over_keyed(keyed, "a", true);
    let other = world.commit_and_hand_over("invoices");
    assert_eq!(world.delivered(1).await, [other.message_id], "others go on");
    sleep(Duration::from_secs(100)).await;
    assert_eq!(world.broker.sends(), 1);
    let rows = world.store.live_rows();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| (row.epoch, row.attempts, row.failures) == (0, 0, 0)), "{rows:?}");
    let claims = world.store.calls(Call::Claim) + world.store.calls(Call::LaneEntries);
    assert!(claims <= 3, "only the invoices are claimed, and the paused topic is not read: {claims}");

    let began = Instant::now();
    for topic in ["orders", ORDERED] {
        world.resume(topic).await;
    }
    let sent = world.delivered(5).await;
    assert!([due, handed_over, key, keyed].iter().all(|key| sent.contains(&key.message_id)));
    assert!(began.elapsed() <= world.limits.poll_interval * 2, "{:?}", began.elapsed());
    assert_eq!(relay.status().paused_topics.len(), 0);
    world.drained().await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_obeyed_within_a_poll_and_messages_in_flight_are_delivered() {
    let world = World::new();
    world.broker.hold();
    let relay = world.start().await;
    let in_flight = world.commit_and_hand_over("orders");
    world.until("it is sent", || world.broker.sends() == 1).await;
    let began = Instant::now();
    world.pause("orders").await;
    world.paused(&relay, "orders").await;
    assert!(began.elapsed() <= world.limits.poll_interval, "{:?}", began.elapsed());
    let waits = world.commit_and_hand_over("orders");
    world.broker.release();
    assert_eq!(world.delivered(1).await, [in_flight.message_id]);
    world.until("it is settled", || world.store.live_rows().len() == 1).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!((world.store.live_rows()[0].key, world.broker.sends()), (waits, 1));
}

/// A claim that waits for room was admitted before the pause.
#[tokio::test(start_paused = true)]
async fn a_claim_that_waited_for_room_sends_nothing_of_a_topic_paused_meanwhile() {
    let mut world = World::new();
    world.limits.in_flight_max = 1;
    world.broker.hold();
    for _ in 0..3 {
        world.commit("orders");
    }
    let relay = world.start().await;
    world.until("one is sent", || world.broker.sends() == 1).await;
    world.pause("orders").await;
    world.paused(&relay, "orders").await;
    world.broker.release();
    world.until("it is settled", || world.store.live_rows().len() == 2).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.broker.sends(), 1);
    assert!(relay.flush(Duration::from_secs(1)).await.is_settled(), "a flush does not wait for paused topics");
    world.resume("orders").await;
    world.drained().await;
    assert_eq!(world.broker.sends(), 3);
}

/// An unknown pause counts as a pause: a relay that starts without its database reads the pauses first.
#[tokio::test(start_paused = true)]
async fn a_relay_that_cannot_read_the_pauses_sends_nothing_until_it_can() {
    let world = World::new();
    world.pause("orders").await;
    for _ in 0..3 {
        let gone = StoreError::Unreachable("as the test says".into());
        world.store.inject(Call::Poll, Fault::Refused(gone));
    }
    let relay = world.start().await;
    let paused = world.commit_and_hand_over("orders");
    let other = world.commit_and_hand_over("invoices");
    assert_eq!(world.delivered(1).await, [other.message_id], "the sweeper has it");
    world.paused(&relay, "orders").await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!((world.store.live_rows()[0].key, world.broker.sends()), (paused, 1));
}

/// A failure of a row in flight is written as usual, and its next attempt waits for the end of the pause.
#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_the_end_of_the_pause() {
    let world = World::new();
    world.broker.hold();
    world.broker.respond_next(1, ScriptedResponse::Fail(FailureClass::Record));
    let relay = world.start().await;
    let row = world.commit_and_hand_over("orders");
    world.until("it is sent", || world.broker.sends() == 1).await;
    world.pause("orders").await;
    world.paused(&relay, "orders").await;
    world.broker.release();
    world.until("it is noted", || world.store.live_rows()[0].attempts == 1).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.broker.sends(), 1);
    world.resume("orders").await;
    assert_eq!(world.delivered(1).await, [row.message_id]);
}

/// The wait is in the memory of the lane's owner, where no statement can shorten it.
#[tokio::test(start_paused = true)]
async fn a_held_key_is_tried_at_once_when_its_topic_is_resumed() {
    let mut world = World::new();
    world.topics.push(Topic::new(ORDERED).ordered_by_key().retry(Fixed::seconds(&[3_600])));
    world.broker.respond_next(1, ScriptedResponse::Fail(FailureClass::Record));
    let relay = world.start().await;
    let held = world.commit_keyed("a");
    world.until("it is refused", || world.store.live_rows().iter().any(|row| row.failures == 1)).await;
    let behind = [(); 3].map(|()| world.commit_keyed("a"));
    let other = world.commit_keyed("b");
    assert_eq!(world.delivered(1).await, [other.message_id]);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.broker.sends(), 2, "its key waits");

    world.pause(ORDERED).await;
    world.paused(&relay, ORDERED).await;
    let began = Instant::now();
    world.resume(ORDERED).await;
    world.delivered(5).await;
    assert!(began.elapsed() <= world.limits.poll_interval * 2, "{:?}", began.elapsed());
    let expected: Vec<_> = [held].iter().chain(&behind).map(|row| row.message_id).collect();
    assert_eq!(world.first_appearances()["a"], expected);
    world.drained().await;
}

/// A backlog whose born leases end one after the other wakes nobody while its topic is paused.
#[tokio::test(start_paused = true)]
async fn a_paused_backlog_costs_no_more_than_an_idle_relay() {
    let world = World::new();
    world.pause("orders").await;
    for row in 0..1_000 {
        world.commit_leased("orders", Duration::from_millis(10 * row));
    }
    let _relay = world.start().await;
    sleep(Duration::from_secs(2)).await;
    let polls = world.store.calls(Call::Poll);
    sleep(Duration::from_secs(5)).await;
    assert!(world.store.calls(Call::Poll) - polls <= 6, "{}", world.store.calls(Call::Poll) - polls);
}
