//! Which dead letters reach the application's callbacks.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::sleep;

use super::counted::Counts;
use super::lanes::{TOPIC as ORDERED, world_with};
use super::measured::recorded_in_real_time;
use super::{World, envelope};
use crate::limits::{DEAD_LETTER_CALLBACKS_BATCH_MAX, DEAD_LETTER_CALLBACKS_QUEUE_MAX};
use crate::metrics;
use crate::relay::{DeadLetterEvent, StartError};
use crate::store::{Call, Fault, InsertOptions, StoreError};
use crate::topic::{OnFailedKey, Topic};
use crate::transport::{FailureClass, ScriptedResponse};

type Received = Arc<Mutex<Vec<DeadLetterEvent>>>;

fn callback() -> (Received, impl Fn(&DeadLetterEvent) + Send + Sync + 'static) {
    let received = Received::default();
    let sink = Arc::clone(&received);
    (received, move |letter: &DeadLetterEvent| sink.lock().unwrap().push(letter.clone()))
}

impl World {
    /// Commits a row that nobody can decode.
    fn commit_poisoned(&self) {
        let row = self.commit("orders");
        assert!(self.store.poison(row));
    }
}

/// By every path, once the letter is in the table, with what is known of it.
#[tokio::test(start_paused = true)]
async fn the_callback_gets_each_dead_letter_once() {
    let world = world_with(Topic::new(ORDERED).ordered_by_key().on_failed_key(OnFailedKey::DeadLetter));
    world.broker.respond_when(ScriptedResponse::Fail(FailureClass::Record), |_| true);
    let (received, callback) = callback();
    world.store.inject(Call::DeadLetter, Fault::Refused(StoreError::Conflict("as the test says".into())));
    let _relay = world.relay().on_dead_letter(callback).start().await.unwrap();
    let mut placed = envelope("orders");
    placed.kind = "order.placed".to_owned();
    let swept = world.store.insert(placed, InsertOptions::default());
    let handed_over = world.commit_and_hand_over("orders");
    let in_lane = world.commit_keyed("a");
    world.commit_poisoned();
    world.until("all are received", || received.lock().unwrap().len() == 4).await;
    sleep(Duration::from_secs(60)).await;
    let received = received.lock().unwrap();
    let of = |message_id| received.iter().find(|letter| letter.message_id == message_id).unwrap();
    for row in [swept, handed_over, in_lane] {
        let letter = of(row.message_id);
        assert_eq!((letter.reason.split(':').next(), letter.attempts), (Some("attempts"), 3), "{letter:?}");
    }
    assert_eq!((&*of(swept.message_id).topic, &*of(swept.message_id).kind), ("orders", "order.placed"));
    assert_eq!(&*of(in_lane.message_id).topic, ORDERED);
    let poisoned = received.iter().find(|letter| letter.reason.starts_with("poisoned: ")).unwrap();
    assert_eq!((&*poisoned.kind, poisoned.attempts), ("", 0));
    assert_eq!((received.len(), world.store.dead_letter_rows().len()), (4, 4));
    for dead in world.store.dead_letter_rows() {
        assert_eq!(of(dead.key.message_id).reason, dead.reason, "the callback gets the reason of the table");
    }
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_panics_is_called_for_the_next() {
    let world = World::new();
    let (received, callback) = callback();
    let builder = world.relay().on_dead_letter(move |letter| {
        callback(letter);
        panic!("as the test says");
    });
    let relay = builder.start().await.unwrap();
    for _ in 0..3 {
        world.commit_poisoned();
    }
    world.until("all are received", || received.lock().unwrap().len() == 3).await;
    let row = world.commit_and_hand_over("orders");
    assert_eq!(world.delivered(1).await, [row.message_id]);
    assert!(relay.shutdown(Duration::from_secs(5)).await.is_clean());
}

#[test]
fn a_blocking_relay_ends_although_a_callback_never_returns() {
    let world = World::new();
    let (go_on, gate) = mpsc::channel::<()>();
    let (gate, (called, calls)) = (Mutex::new(gate), mpsc::channel());
    let blocks = move |_: &DeadLetterEvent| {
        let _ = called.send(());
        let _ = gate.lock().unwrap().recv();
    };
    let relay = world.relay().on_dead_letter(blocks).start_blocking().unwrap();
    world.commit_poisoned();
    calls.recv_timeout(Duration::from_secs(60)).unwrap();
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || ended.send(relay.shutdown(Duration::ZERO)));
    assert!(end.recv_timeout(Duration::from_secs(60)).unwrap().is_ok());
    drop(go_on);
}

/// In real time, because virtual time stands still while a thread blocks.
#[tokio::test]
async fn a_callback_that_blocks_keeps_nothing_waiting() {
    let world = World::new();
    let (received, callback) = callback();
    let (go_on, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let blocks = move |letter: &DeadLetterEvent| {
        // Until the test releases it.
        let _ = gate.lock().unwrap().recv();
        callback(letter);
    };
    let relay = world.relay().on_dead_letter(blocks).start().await.unwrap();
    let letters = DEAD_LETTER_CALLBACKS_QUEUE_MAX + 2 * DEAD_LETTER_CALLBACKS_BATCH_MAX;
    for _ in 0..letters {
        world.commit_poisoned();
    }
    world.until("all are dead", || world.store.dead_letter_rows().len() == letters).await;
    let row = world.commit_and_hand_over("orders");
    assert_eq!(world.delivered(1).await, [row.message_id]);
    world.drained().await;
    assert_eq!(received.lock().unwrap().len(), 0);
    drop(go_on);
    relay.shutdown(Duration::from_secs(30)).await;
    let received = received.lock().unwrap().len();
    assert!((DEAD_LETTER_CALLBACKS_QUEUE_MAX..letters).contains(&received), "no more than the queue holds: {received}");
}

/// In real time, as above.
#[test]
fn callbacks_that_a_shutdown_drops_are_reported_and_counted() {
    let counts = Counts::of_recorded(&recorded_in_real_time(async || {
        let world = World::new();
        let (go_on, gate) = mpsc::channel::<()>();
        let (gate, (called, calls)) = (Mutex::new(gate), mpsc::channel());
        let blocks = move |_: &DeadLetterEvent| {
            called.send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
        };
        let relay = world.relay().on_dead_letter(blocks).start().await.unwrap();
        for _ in 0..3 {
            world.commit_poisoned();
        }
        world.until("all are dead", || world.store.dead_letter_rows().len() == 3).await;
        world.until("one is called", || calls.try_recv().is_ok()).await;
        let report = relay.shutdown(Duration::ZERO).await;
        assert_eq!((report.dead_letter_callbacks, report.queued, report.in_flight), (2, 0, 0));
        assert!(!report.is_clean(), "nobody else calls them: {report:?}");
        drop(go_on);
    }));
    assert_eq!(counts.of(metrics::DEAD_LETTER_CALLBACKS_LOST), [("reason=shutdown", 2)]);
}

#[tokio::test(start_paused = true)]
async fn an_alert_is_raised_once_per_window() {
    let world = World::new();
    let (received, callback) = callback();
    let window = Duration::from_secs(60);
    let _relay = world.relay().dead_letter_alert(2, window, callback).start().await.unwrap();
    for (letters, alerts) in [(2, 0), (3, 1), (5, 1)] {
        while world.store.dead_letter_rows().len() < letters {
            world.commit_poisoned();
            world.until("it is dead", || world.store.live_rows().is_empty()).await;
        }
        sleep(Duration::from_secs(1)).await;
        assert_eq!(received.lock().unwrap().len(), alerts, "{letters} letters");
    }
    sleep(window).await;
    for _ in 0..3 {
        world.commit_poisoned();
    }
    world.until("it is received again", || received.lock().unwrap().len() == 2).await;
}

#[tokio::test]
async fn an_alert_without_a_window_is_refused() {
    let world = World::new();
    let refused = world.relay().dead_letter_alert(1, Duration::ZERO, |_| ()).start().await.unwrap_err();
    assert!(matches!(&refused, StartError::Limit { .. }) && refused.to_string().contains("alert"), "{refused}");
}
