//! Scenarios that drive each counter, with its labels. Those of ordered topics are in `lane_counted`.

use std::time::Duration;

use metrics_util::debugging::{DebugValue, Snapshotter};

use super::measured::recorded;
use super::{World, envelope, handed_over, inline};
use crate::limits::STALENESS;
use crate::message::MessageId;
use crate::metrics;
use crate::store::{
    AdminStore as _, Call, Fault, Held, InsertOptions, Locking, MemoryStore, NewDeadLetter, RowKey, Store as _,
    StoreError,
};
use crate::transport::{FailureClass, ScriptedResponse};

/// The counters of a scenario: name, labels as `name=value`, and count. Zeros are left out.
pub(super) struct Counts(Vec<(String, String, u64)>);

impl Counts {
    pub(super) fn of_recorded(recorder: &Snapshotter) -> Self {
        let mut counts = Vec::new();
        for (key, _, _, value) in recorder.snapshot().into_vec() {
            if let DebugValue::Counter(count @ 1..) = value {
                let labels = key.key().labels().map(|label| format!("{}={}", label.key(), label.value()));
                let mut labels: Vec<String> = labels.collect();
                labels.sort_unstable();
                counts.push((key.key().name().to_owned(), labels.join(" "), count));
            }
        }
        counts.sort_unstable();
        Self(counts)
    }

    /// The counts of one counter, by its labels.
    pub(super) fn of(&self, metric: &str) -> Vec<(&str, u64)> {
        let of_metric = self.0.iter().filter(|(name, ..)| name == metric);
        of_metric.map(|(_, labels, count)| (labels.as_str(), *count)).collect()
    }
}

/// Runs a scenario on virtual time and returns its counts.
pub(super) fn counted(scenario: impl AsyncFnOnce()) -> Counts {
    Counts::of_recorded(&recorded(scenario))
}

/// Asserts that the hook lost this many rows in a scenario, all for this reason.
#[track_caller]
fn assert_lost(reason: &str, rows: u64, scenario: impl AsyncFnOnce()) {
    let counts = counted(scenario);
    assert_eq!(counts.of(metrics::LEFT_TO_SWEEPER), [(format!("reason={reason}").as_str(), rows)]);
}

pub(super) fn conflict() -> Fault {
    Fault::Refused(StoreError::Conflict("as the test says".into()))
}

#[test]
fn rows_of_a_transaction_longer_than_their_staleness_miss_their_leases() {
    let counts = counted(async || {
        let mut world = World::new();
        // So long that no sweeper comes first.
        world.limits.poll_interval = Duration::from_secs(60);
        let _relay = world.start().await;
        let (inserted_at, born) = (world.now(), InsertOptions::default().leased_for(STALENESS));
        let message = envelope("orders");
        let verified = world.store.insert_uncommitted(message.clone(), born);
        let read = world.store.insert_uncommitted(envelope("orders"), born);
        tokio::time::sleep(STALENESS).await;
        let rows = vec![inline(verified.commit(), message, inserted_at), handed_over(read.commit(), "orders")];
        world.link.hand_over(rows);
        world.drained().await;
    });
    assert_eq!(counts.of(metrics::LEASE_EXPIRED), [("path=confirmed", 1), ("path=inline", 1)]);
}

#[test]
fn rows_of_a_claim_that_was_read_too_late_miss_their_leases() {
    let counts = counted(async || {
        let mut world = World::new();
        world.limits.claim_workers = 1;
        let late = world.limits.claim_lease_duration + Duration::from_millis(1);
        world.store.inject(Call::Claim, Fault::Slow(late));
        for _ in 0..5 {
            world.commit("orders");
        }
        let _relay = world.start().await;
        world.drained().await;
        assert_eq!(world.broker.sends(), 5);
    });
    assert_eq!(counts.of(metrics::LEASE_EXPIRED), [("path=swept", 5)]);
}

#[test]
fn a_lease_that_ends_while_the_database_is_away_is_lost() {
    let counts = counted(async || {
        let world = World::new();
        world.broker.hold();
        let relay = world.start().await;
        let row = world.commit_and_hand_over("orders");
        world.until("it is in flight", || world.broker.in_flight() == 1).await;
        world.store.set_down(true);
        world.until("its lease is over", || relay.engines.all[0].ledger.lease(row).is_none()).await;
        world.store.set_down(false);
        world.broker.release();
        world.drained().await;
    });
    assert_eq!(counts.of(metrics::LEASE_LOST), [("", 1)]);
}

#[test]
fn a_failure_of_a_row_that_is_another_holders_by_now_is_a_lost_lease() {
    let counts = counted(async || {
        let world = World::new();
        world.broker.hold();
        world.broker.respond_next(1, ScriptedResponse::Fail(FailureClass::Record));
        let relay = world.start().await;
        let row = world.commit_and_hand_over("orders");
        world.until("it is in flight", || world.broker.in_flight() == 1).await;
        assert_eq!(world.store.settle(&[row], Locking::Skip).await.unwrap(), [row]);
        world.broker.release();
        assert!(relay.flush(Duration::from_secs(10)).await.is_settled());
    });
    assert_eq!(counts.of(metrics::LEASE_LOST), [("", 1)]);
}

#[test]
fn failed_claims_are_counted_and_their_rows_in_flight_are_lost_leases() {
    let counts = counted(async || {
        let mut world = World::new();
        world.limits.claim_workers = 1;
        world.broker.hold();
        world.store.inject(Call::Claim, conflict());
        world.store.inject(Call::Close, Fault::Refused(StoreError::Unreachable("as the test says".into())));
        world.commit("orders");
        let _relay = world.start().await;
        world.until("a close has failed", || world.store.calls(Call::Close) == 1).await;
        world.broker.release();
        world.drained().await;
    });
    assert_eq!(counts.of(metrics::CLAIM_FAILED), [("", 2)], "one claim fails when it begins, one when it is closed");
    assert_eq!(counts.of(metrics::LEASE_LOST), [("", 1)]);
}

#[test]
fn delivered_rows_that_are_gone_are_counted_by_where_they_were_found() {
    let counts = counted(async || {
        let world = World::new();
        world.broker.hold();
        let relay = world.start().await;
        let [settled, dead] = [(); 2].map(|()| world.commit_and_hand_over("orders"));
        world.until("both are in flight", || world.broker.in_flight() == 2).await;
        assert_eq!(world.store.settle(&[settled], Locking::Skip).await.unwrap(), [settled]);
        let letter = NewDeadLetter { held: Held { key: dead, epoch: 0 }, reason: "dead-lettered elsewhere".to_owned() };
        assert_eq!(world.store.dead_letter(&[letter]).await.unwrap(), [dead]);
        world.broker.release();
        assert!(relay.flush(Duration::from_secs(10)).await.is_settled());
        assert!(world.store.dead_letter_rows().is_empty(), "it was delivered");
    });
    assert_eq!(counts.of(metrics::SETTLE_MISSED), [("found=dead_letter", 1), ("found=nowhere", 1)]);
}

#[test]
fn a_settle_that_failed_is_counted_and_tried_again() {
    let counts = counted(async || {
        let world = World::new();
        world.store.inject(Call::Settle, conflict());
        let _relay = world.start().await;
        world.commit_and_hand_over("orders");
        world.drained().await;
        assert_eq!(world.broker.sends(), 1);
    });
    assert_eq!(counts.of(metrics::SETTLE_RETRIED), [("", 1)]);
    assert!(counts.of(metrics::SETTLE_MISSED).is_empty());
}

#[test]
fn rows_that_a_confirm_does_not_find_are_counted_and_not_lost_to_the_hook() {
    let counts = counted(async || {
        let world = World::new();
        let _relay = world.start().await;
        let rolled_back = RowKey { id: 77, message_id: MessageId::new() };
        let open = world.store.insert_uncommitted(envelope("orders"), InsertOptions::default().leased_for(STALENESS));
        let gone = world.commit_leased("orders", STALENESS);
        assert_eq!(world.store.settle(&[gone], Locking::Skip).await.unwrap(), [gone]);
        for row in [rolled_back, open.key(), gone] {
            world.hand_over(row, "orders");
        }
        let found = world.commit_and_hand_over("orders");
        assert_eq!(world.delivered(1).await, [found.message_id]);
    });
    assert_eq!(counts.of(metrics::CONFIRM_MISSED), [("", 3)]);
    assert!(counts.of(metrics::LEFT_TO_SWEEPER).is_empty());
}

#[test]
fn a_message_whose_acknowledgement_was_lost_is_counted_as_sent_again_and_no_other() {
    for store in [MemoryStore::new(), MemoryStore::leasing()] {
        let counts = counted(async move || {
            let world = World::on(store);
            world.broker.respond_next(1, ScriptedResponse::StoreThenFail(FailureClass::Temporary));
            let _relay = world.start().await;
            world.commit_and_hand_over("orders");
            world.drained().await;
            world.commit("invoices");
            world.drained().await;
            assert_eq!(world.broker.delivered().len(), 3);
        });
        assert_eq!(counts.of(metrics::RETRIED), [("topic=orders transport=default", 1)]);
    }
}

/// Its relay died between the end of the claim and the settle.
#[test]
fn a_message_that_was_held_is_counted_as_sent_again() {
    let counts = counted(async || {
        let world = World::new();
        world.broker.hold();
        world.commit("orders");
        let relay = world.start().await;
        world.until("its claim is closed", || world.store.live_rows()[0].epoch == 1).await;
        drop(relay);
        world.broker.release();
        let _next = world.start().await;
        world.drained().await;
        assert_eq!(world.broker.delivered().len(), 2);
    });
    assert_eq!(counts.of(metrics::RETRIED), [("topic=orders transport=default", 1)]);
}

#[test]
fn dead_lettered_messages_are_counted_by_topic_and_reason() {
    let counts = counted(async || {
        let world = World::new();
        for (topic, class) in [("invoices", FailureClass::RecordRefused), ("orders", FailureClass::Record)] {
            let id = world.commit(topic).message_id;
            world.broker.respond_when(ScriptedResponse::Fail(class), move |sent| sent.message_id == id);
        }
        let poisoned = world.commit("orders");
        assert!(world.store.poison(poisoned));
        // A dead letter that cannot be written is retried, and counts once.
        world.store.inject(Call::DeadLetter, conflict());
        let _relay = world.start().await;
        world.drained().await;
        assert_eq!((world.store.dead_letter_rows().len(), world.store.calls(Call::DeadLetter) > 1), (3, true));
    });
    let expected = [
        ("reason=attempts topic=orders transport=default", 1),
        ("reason=poisoned topic=orders transport=default", 1),
        ("reason=refused topic=invoices transport=default", 1),
    ];
    assert_eq!(counts.of(metrics::DEAD_LETTERED), expected);
}

#[test]
fn messages_beyond_a_full_queue_are_lost_to_the_hook() {
    assert_lost("queue_full", 15, async || {
        let mut world = World::new();
        world.limits.queue_rows_max = 10;
        let _relay = world.start().await;
        let rows = (0..25).map(|_| handed_over(world.commit_leased("orders", STALENESS), "orders"));
        world.link.hand_over(rows.collect());
        world.drained().await;
    });
}

#[test]
fn a_message_committed_after_the_end_of_the_relay_is_lost_to_the_hook() {
    assert_lost("no_relay", 1, async || {
        let world = World::new();
        let relay = world.start().await;
        let row = world.commit_leased("orders", STALENESS);
        assert!(relay.shutdown(Duration::from_secs(10)).await.is_clean());
        world.hand_over(row, "orders");
    });
}

#[test]
fn a_message_committed_in_an_outage_is_lost_to_the_hook() {
    assert_lost("outage", 1, async || {
        let world = World::new();
        world.broker.go_down();
        let relay = world.start().await;
        world.commit_and_hand_over("orders");
        world.until("it is left", || relay.status().queued == 0).await;
        world.broker.go_up();
        world.drained().await;
    });
}

#[test]
fn rows_that_could_not_be_read_are_lost_to_the_hook() {
    assert_lost("confirm_failed", 1, async || {
        let world = World::new();
        world.store.inject(Call::Confirm, conflict());
        let _relay = world.start().await;
        world.commit_and_hand_over("orders");
        world.drained().await;
    });
}

#[test]
fn a_message_of_a_refused_topic_is_lost_to_the_hook() {
    assert_lost("topic_waits", 1, async || {
        let world = World::new();
        world.broker.respond_next(1, ScriptedResponse::Fail(FailureClass::Topic));
        let relay = world.start().await;
        world.commit_and_hand_over("orders");
        world.until("the topic is refused", || !relay.status().refused_topics.is_empty()).await;
        world.commit_and_hand_over("orders");
        world.drained().await;
    });
}

#[test]
fn a_message_committed_while_a_suspect_goes_alone_is_lost_to_the_hook() {
    assert_lost("topic_waits", 1, async || {
        let world = World::new();
        world.broker.hold();
        world.broker.respond_next(1, ScriptedResponse::Fail(FailureClass::RecordRefused));
        let _relay = world.start().await;
        world.commit_and_hand_over("orders");
        world.until("it is in flight", || world.broker.in_flight() == 1).await;
        world.broker.release_next(1);
        world.until("it goes alone", || world.broker.sends() == 2).await;
        world.commit_and_hand_over("orders");
        world.until("the other is read", || world.store.calls(Call::Confirm) == 2).await;
        world.broker.release();
        world.drained().await;
    });
}

/// Before it is read, and while it is being read.
#[test]
fn a_message_of_a_paused_topic_is_lost_to_the_hook() {
    assert_lost("paused", 2, async || {
        let world = World::new();
        world.store.inject(Call::Confirm, Fault::Slow(Duration::from_secs(2)));
        let relay = world.start().await;
        world.commit_and_hand_over("orders");
        world.until("it is being read", || world.store.calls(Call::Confirm) == 1).await;
        world.store.pause(&"orders".into(), None).await.unwrap();
        world.until("the pause is seen", || !relay.status().paused_topics.is_empty()).await;
        world.commit_and_hand_over("orders");
        world.until("both are left", || relay.status().queued == 0).await;
        assert_eq!((world.store.calls(Call::Confirm), world.broker.sends()), (1, 0));
        assert!(world.store.resume(&"orders".into(), None).await.unwrap());
        world.drained().await;
    });
}

/// The other row is behind it in the queue.
#[test]
fn a_message_of_an_unknown_topic_is_lost_to_the_hook() {
    assert_lost("unknown_topic", 1, async || {
        let world = World::new();
        let _relay = world.start().await;
        world.commit_and_hand_over("letters");
        let other = world.commit_and_hand_over("orders");
        assert_eq!(world.delivered(1).await, [other.message_id]);
    });
}
