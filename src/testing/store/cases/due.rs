use std::collections::HashMap;
use std::time::Duration;

use crate::store::{ClaimSpec, DueWatermark, InsertOptions, NextDue};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// Each topic's earliest row is reported; a topic without rows is left out.
pub async fn poll_reports_each_topic(under_test: &dyn StoreUnderTest) {
    insert(under_test, leased(LEASE * 2)).await;
    insert(under_test, leased(LEASE)).await;
    under_test.insert(&message("payments"), DUE).await;
    under_test.insert(&message("unasked"), DUE).await;
    under_test.advance(Duration::from_secs(5)).await;
    let spec = poll_spec(&["payments", TOPIC, "empty"]);
    let due_topics = under_test.store().poll(&spec).await.expect("poll").due;
    let due: HashMap<&str, &NextDue> = due_topics.iter().map(|due| (&*due.topic, due)).collect();
    assert_eq!((due_topics.len(), due.len()), (2, 2), "one answer for each topic with rows: {due_topics:?}");

    let order = due[TOPIC];
    assert!(order.due_in <= LEASE - Duration::from_secs(5) && order.due_in > LEASE / 2, "{order:?}");
    assert_eq!(order.overdue_by, Duration::ZERO);
    let payment = due["payments"];
    assert!(payment.overdue_by >= Duration::from_secs(5) && payment.overdue_by < LEASE, "{payment:?}");
    assert_eq!(payment.due_in, Duration::ZERO);
}

/// Delays may be years long.
pub async fn poll_reports_delays_of_years(under_test: &dyn StoreUnderTest) {
    let year = Duration::from_secs(365 * 24 * 3_600);
    insert(under_test, InsertOptions::default().deliver_after(year * 10)).await;
    let due_topics = under_test.store().poll(&poll_spec(&[TOPIC])).await.expect("poll").due;
    assert!(due_topics[0].due_in > year * 9 && due_topics[0].due_in <= year * 10, "{due_topics:?}");
}

/// In addition to a due row, the next one is reported that is not due.
pub async fn poll_reports_the_next_row_not_due(under_test: &dyn StoreUnderTest) {
    insert(under_test, leased(LEASE)).await;
    insert(under_test, leased(LEASE * 2)).await;
    let store = under_test.store();
    let first = store.poll(&poll_spec(&[TOPIC])).await.expect("poll").due;
    assert_eq!(first[0].later_in, Some(first[0].due_in), "nothing is due yet");
    insert_due(under_test, 2).await;
    under_test.advance(Duration::from_secs(5)).await;
    let behind = store.poll(&poll_spec(&[TOPIC])).await.expect("poll").due;
    assert_eq!(behind[0].due_in, Duration::ZERO);
    let later_in = behind[0].later_in.expect("two are not due yet");
    assert!(later_in <= LEASE - Duration::from_secs(5) && later_in > LEASE / 2, "{later_in:?}");
    under_test.advance(LEASE * 2).await;
    let over = store.poll(&poll_spec(&[TOPIC])).await.expect("poll").due;
    assert_eq!(over[0].later_in, None, "everything is due");
}

/// No write of `due_at` sets a time in the past, or a row would have two holders.
pub async fn due_is_never_set_to_the_past(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 2).await;
    let began_at = under_test.now().await;
    let store = under_test.store();
    insert(under_test, DUE).await;
    store.extend(&held[..1], Duration::ZERO).await.expect("extend");
    let mut failure = failed(held[1], "at once");
    failure.wait = Duration::ZERO;
    store.fail(&[failure]).await.expect("fail");
    let rows = under_test.live_rows().await;
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert!(row.due_at >= began_at, "{row:?} was due before it was written, after {began_at:?}");
    }
}

/// A claim that found all rows says so, and where the next may begin; a row that becomes due later is still found.
pub async fn watermark_hides_no_later_row(under_test: &dyn StoreUnderTest) {
    let empty = claim(under_test, &spec_without_slack()).await;
    assert!(empty.found_all && empty.watermark.is_some(), "an empty claim found all there was");
    let watermark = empty.watermark;
    empty.handle.close(&[], &[]).await.expect("close");
    let inserted = insert_due(under_test, 2).await;
    let next = ClaimSpec { after: watermark, ..spec_without_slack() };
    assert_eq!(sorted(claim_and_close(under_test, &next).await), inserted);
}

/// Rows that a claim left because of its limits are above its watermark, if it returns one.
pub async fn watermark_hides_no_row_left(under_test: &dyn StoreUnderTest) {
    let inserted = insert_due(under_test, 3).await;
    under_test.advance(Duration::from_secs(1)).await;
    let first = claim(under_test, &ClaimSpec { rows_max: 1, ..spec_without_slack() }).await;
    assert!(!first.found_all);
    let taken = keys(&first.rows);
    first.handle.close(&taken, &[]).await.expect("close");
    let rest = claim_and_close(under_test, &ClaimSpec { after: first.watermark, ..spec_without_slack() }).await;
    assert_eq!(sorted(taken.into_iter().chain(rest)), inserted);
}

/// Claims that begin where the last one ended take every row once, whether or not the earlier ones are closed.
pub async fn successive_claims_take_every_row_once(under_test: &dyn StoreUnderTest) {
    let inserted = insert_due(under_test, 5).await;
    under_test.advance(Duration::from_secs(1)).await;
    let (mut taken, mut after) = (Vec::new(), None);
    for _ in 0..=inserted.len() {
        let claim = claim(under_test, &ClaimSpec { rows_max: 2, after, ..spec_without_slack() }).await;
        let claimed = keys(&claim.rows);
        claim.handle.close(&claimed, &[]).await.expect("close");
        taken.extend(claimed);
        if claim.found_all {
            break;
        }
        after = claim.reached;
    }
    assert_eq!(sorted(taken), inserted);
}

/// A claim after an open one skips its rows, and the next traversal finds them again.
pub async fn successive_claims_may_be_open_at_once(under_test: &dyn StoreUnderTest) {
    let inserted = insert_due(under_test, 4).await;
    under_test.advance(Duration::from_secs(1)).await;
    let first = claim(under_test, &ClaimSpec { rows_max: 2, ..spec_without_slack() }).await;
    let next = claim(under_test, &ClaimSpec { rows_max: 2, after: first.reached, ..spec_without_slack() }).await;
    assert_eq!(sorted(keys(&first.rows).into_iter().chain(keys(&next.rows))), inserted);
    let settled = keys(&next.rows);
    next.handle.close(&settled, &[]).await.expect("close");
    let given_back = keys(&first.rows);
    first.handle.close(&[], &[]).await.expect("close");
    assert_eq!(sorted(claim_and_close(under_test, &spec_without_slack()).await), sorted(given_back));
}

/// Rows that a claim takes and releases are above its own watermark.
pub async fn watermark_hides_no_released_row(under_test: &dyn StoreUnderTest) {
    let inserted = insert_due(under_test, 2).await;
    under_test.advance(Duration::from_secs(1)).await;
    let next = ClaimSpec { after: claim_watermark(under_test, &spec_without_slack()).await, ..spec_without_slack() };
    assert_eq!(sorted(claim_and_close(under_test, &next).await), inserted);
}

/// A row that another session has locked, and that a claim skips, is above that claim's watermark: if that session dies, the row
/// must still be found.
pub async fn watermark_hides_no_locked_row(under_test: &dyn StoreUnderTest) {
    let key = insert(under_test, DUE).await;
    under_test.advance(Duration::from_secs(1)).await;
    let Some(lock) = under_test.lock(key).await else { return };
    let watermark = claim_watermark(under_test, &spec_without_slack()).await;
    lock.roll_back().await;
    let next = ClaimSpec { after: watermark, ..spec_without_slack() };
    assert_eq!(claim_and_close(under_test, &next).await, [key]);
}

/// The slack keeps the watermark below the current time: a row whose transaction commits late is still found.
pub async fn watermark_hides_no_late_commit(under_test: &dyn StoreUnderTest) {
    let other = under_test.insert(&message("payments"), DUE).await;
    // Without row locks an open transaction blocks claims altogether.
    let Some(lock) = under_test.lock(other).await else { return };
    lock.roll_back().await;
    let (key, transaction) = under_test.insert_uncommitted(&message(TOPIC)).await;
    let watermark = claim_watermark(under_test, &spec(TOPIC)).await;
    transaction.commit().await;
    let next = ClaimSpec { after: watermark, ..spec(TOPIC) };
    assert_eq!(claim_and_close(under_test, &next).await, [key]);
}

/// With no more slack than a clock's resolution, so that only the rows themselves keep the watermark low.
fn spec_without_slack() -> ClaimSpec {
    ClaimSpec { watermark_slack_duration: Duration::from_millis(2), ..spec(TOPIC) }
}

async fn claim_watermark(under_test: &dyn StoreUnderTest, spec: &ClaimSpec) -> Option<DueWatermark> {
    let claim = claim(under_test, spec).await;
    claim.handle.close(&[], &[]).await.expect("close");
    claim.watermark
}
