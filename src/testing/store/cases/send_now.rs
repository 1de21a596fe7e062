use std::time::Duration;

use crate::message::MessageId;
use crate::store::{CancelOutcome, InsertOptions, Locking, SendNowOutcome};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

const HOUR: Duration = Duration::from_secs(3_600);

/// A row that waits for its delivery time, or for an attempt far ahead, is due at once, under the next epoch.
pub async fn send_now_makes_a_waiting_row_due(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let delayed = insert(under_test, InsertOptions::default().deliver_after(HOUR)).await;
    let soon = insert(under_test, InsertOptions::default().deliver_after(LEASE / 2)).await;
    for key in [delayed, soon] {
        assert_eq!(admin.send_now(key.message_id, LEASE, None).await.expect("send now"), Some(SendNowOutcome::Due));
        assert_eq!(live_row(under_test, key).await.epoch, 1, "an older epoch has no say any more");
        let live = admin.find_live(key.message_id).await.expect("a live message").expect("it is there");
        let deliver_at = live.deliver_at.expect("it is still a delayed one");
        assert!(deliver_at <= under_test.now().await, "its delivery time has come");
        assert_eq!(admin.cancel_delayed(key.message_id, None).await.expect("cancel"), CancelOutcome::AlreadyClaimed);
    }
    assert_eq!(sorted(claim_and_close(under_test, &spec(TOPIC)).await), [delayed, soon]);

    under_test.store().settle(&[delayed, soon], Locking::Wait).await.expect("settle");

    let mut failure = failed(insert_held(under_test, 1).await[0], "not now");
    failure.wait = HOUR;
    under_test.store().fail(&[failure.clone()]).await.expect("fail");
    let outcome = admin.send_now(failure.held.key.message_id, LEASE, None).await.expect("send now");
    assert_eq!(outcome, Some(SendNowOutcome::Due));
    assert_eq!(claim_and_close(under_test, &spec(TOPIC)).await, [failure.held.key]);
}

/// A row that somebody may hold is left alone: leased at birth, held, locked, or due already.
pub async fn send_now_leaves_held_rows(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let held = insert_held(under_test, 1).await[0];
    let born = insert(under_test, leased(Duration::from_secs(3))).await;
    // Longer than a lease, as a topic's staleness may be.
    let born_for_long = insert(under_test, leased(LEASE * 2)).await;
    let due = insert(under_test, DUE).await;
    for (key, epoch) in [(held.key, held.epoch), (born, 0), (born_for_long, 0), (due, 0)] {
        assert_eq!(admin.send_now(key.message_id, LEASE, None).await.expect("send now"), Some(SendNowOutcome::Soon));
        assert_eq!(live_row(under_test, key).await.epoch, epoch);
    }
    let delayed = insert(under_test, InsertOptions::default().deliver_after(HOUR)).await;
    if let Some(lock) = under_test.lock(delayed).await {
        assert_eq!(
            admin.send_now(delayed.message_id, LEASE, None).await.expect("send now"),
            Some(SendNowOutcome::Soon)
        );
        lock.roll_back().await;
    }
    let ordered = insert(under_test, InsertOptions::default().in_lane(3)).await;
    for message in [MessageId::new(), ordered.message_id] {
        assert_eq!(admin.send_now(message, LEASE, None).await.expect("send now"), None);
    }
}
