use std::time::Duration;

use crate::message::MessageId;
use crate::store::{CancelOutcome, InsertOptions};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

const HOUR: Duration = Duration::from_secs(3_600);

/// A row that is due, delayed, or waits for an attempt far ahead is removed, and no other with it.
pub async fn cancel_waiting_removes_what_nobody_holds(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let mut failure = failed(insert_held(under_test, 1).await[0], "not now");
    failure.wait = HOUR;
    under_test.store().fail(&[failure.clone()]).await.expect("fail");
    let due = insert(under_test, DUE).await;
    let delayed = insert(under_test, InsertOptions::default().deliver_after(HOUR)).await;
    let kept = insert(under_test, DUE).await;
    for key in [due, delayed, failure.held.key] {
        let outcome = admin.cancel_waiting(key.message_id, LEASE, None).await.expect("cancel");
        assert_eq!(outcome, CancelOutcome::Cancelled { topic: TOPIC.into() });
        let again = admin.cancel_waiting(key.message_id, LEASE, None).await.expect("cancel");
        assert_eq!(again, CancelOutcome::NotFound);
    }
    assert_eq!(live_keys(under_test).await, [kept]);
}

/// A row that somebody may hold is left alone: leased at birth, claimed, held, locked, or about to be tried again.
pub async fn cancel_waiting_leaves_held_rows(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let [held, failing] = insert_held(under_test, 2).await[..] else { panic!("two rows") };
    under_test.store().fail(&[failed(failing, "not now")]).await.expect("fail");
    let born = insert(under_test, leased(Duration::from_secs(3))).await;
    // Longer than a lease, as a topic's staleness may be.
    let born_for_long = insert(under_test, leased(LEASE * 2)).await;
    let claimed = insert(under_test, DUE).await;
    let claim = claim(under_test, &spec(TOPIC)).await;
    assert_eq!(keys(&claim.rows), [claimed]);
    for key in [held.key, failing.key, born, born_for_long, claimed] {
        let outcome = admin.cancel_waiting(key.message_id, LEASE, None).await.expect("cancel");
        assert_eq!(outcome, CancelOutcome::AlreadyClaimed, "{key:?}");
    }
    claim.handle.close(&[], &[]).await.expect("close");
    let free = insert(under_test, DUE).await;
    if let Some(lock) = under_test.lock(free).await {
        let outcome = admin.cancel_waiting(free.message_id, LEASE, None).await.expect("cancel");
        assert_eq!(outcome, CancelOutcome::AlreadyClaimed, "it is locked");
        lock.roll_back().await;
    }
    let ordered = insert(under_test, InsertOptions::default().in_lane(3)).await;
    for message in [MessageId::new(), ordered.message_id] {
        assert_eq!(admin.cancel_waiting(message, LEASE, None).await.expect("cancel"), CancelOutcome::NotFound);
    }
    assert_eq!(live_keys(under_test).await.len(), 7, "all are there");
}
