//! What a look goes over, and what it says of that.

use std::time::Duration;

use crate::store::{Look, LookAt, LookFrom, LookSpec};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

const SECOND: Duration = Duration::from_secs(1);

/// With no slack, so that only the rows hold the watermark back.
async fn look(under_test: &dyn StoreUnderTest, from: LookFrom, ahead: Duration) -> Look {
    look_with_slack(under_test, from, ahead, Duration::ZERO).await
}

async fn look_with_slack(under_test: &dyn StoreUnderTest, from: LookFrom, ahead: Duration, slack: Duration) -> Look {
    let topics = vec![LookAt { topic: TOPIC.into(), from }];
    let spec = LookSpec { topics, ahead, watermark_slack_duration: slack };
    let look = under_test.store().look(&spec).await.expect("look");
    assert_eq!(look.ranges.len(), 1, "it tells what it looked at: {look:?}");
    look
}

/// What a look found, where it found one row or none.
async fn overdue_by(under_test: &dyn StoreUnderTest, from: LookFrom, ahead: Duration) -> Option<Duration> {
    look(under_test, from, ahead).await.due.first().map(|due| due.overdue_by)
}

/// A look begins behind its mark and ends as far ahead as is said; from its own watermark on, the next one finds what it found.
pub async fn look_keeps_to_its_range(under_test: &dyn StoreUnderTest) {
    insert(under_test, DUE).await;
    insert(under_test, leased(LEASE)).await;
    under_test.pass(SECOND).await;
    let first = look(under_test, LookFrom::Beginning, SECOND).await;
    assert!(first.due[0].overdue_by >= SECOND && first.due[0].later_in.is_none(), "not so far ahead: {first:?}");
    let further = look(under_test, LookFrom::Beginning, LEASE * 2).await;
    assert!(further.due[0].later_in.is_some(), "{further:?}");

    let claimed = claim(under_test, &spec(TOPIC)).await;
    let due = keys(&claimed.rows);
    claimed.batch.close(&due, &[]).await.expect("close");
    let from = LookFrom::After(first.ranges[0].watermark);
    let nothing = look(under_test, from, SECOND).await;
    assert_eq!((nothing.due.len(), nothing.ranges[0].after), (0, first.ranges[0].watermark), "{nothing:?}");
    assert!(nothing.ranges[0].watermark > first.ranges[0].watermark, "what was in its way is gone: {nothing:?}");
    insert(under_test, DUE).await;
    let from = LookFrom::After(nothing.ranges[0].watermark);
    eventually("what is due later is found behind it", async || overdue_by(under_test, from, SECOND).await).await;
}

/// What fell due before that is not looked at.
pub async fn look_goes_back_as_far_as_is_said(under_test: &dyn StoreUnderTest) {
    insert(under_test, DUE).await;
    under_test.pass(SECOND * 20).await;
    assert_eq!(overdue_by(under_test, LookFrom::Past(SECOND * 10), SECOND).await, None);
    for from in [LookFrom::Past(SECOND * 600), LookFrom::Beginning] {
        let overdue_by = overdue_by(under_test, from, SECOND).await.expect("it is due");
        assert!(overdue_by >= SECOND * 20 && overdue_by < SECOND * 300, "{overdue_by:?}");
    }
    let (short, long) = (look(under_test, LookFrom::Past(SECOND * 10), SECOND), LookFrom::Past(Duration::MAX));
    let (short, long) = (short.await, look(under_test, long, SECOND).await);
    assert!(long.ranges[0].after < short.ranges[0].after && short.ranges[0].after < short.ranges[0].watermark);
    assert!(
        long.ranges[0].watermark < short.ranges[0].after,
        "the row is below where the other began: {short:?} {long:?}"
    );
}

/// A row that another session holds locked is above the watermark, as in a claim.
pub async fn look_watermark_hides_no_locked_row(under_test: &dyn StoreUnderTest) {
    let key = insert(under_test, DUE).await;
    under_test.pass(SECOND).await;
    let Some(lock) = under_test.lock(key).await else { return };
    let watermark = look(under_test, LookFrom::Beginning, SECOND).await.ranges[0].watermark;
    lock.roll_back().await;
    assert!(overdue_by(under_test, LookFrom::After(watermark), SECOND).await.is_some());
}

/// A row whose transaction commits behind the look is found from its watermark on, within the slack; later only from the beginning.
pub async fn look_watermark_hides_no_late_commit(under_test: &dyn StoreUnderTest) {
    let other = under_test.insert(&message("payments"), DUE).await;
    // Without row locks an open transaction may keep looks out altogether.
    let Some(lock) = under_test.lock(other).await else { return };
    lock.roll_back().await;
    let (_, transaction) = under_test.insert_uncommitted(&message(TOPIC)).await;
    let within = look_with_slack(under_test, LookFrom::Beginning, SECOND, LEASE).await.ranges[0].watermark;
    let beyond = look(under_test, LookFrom::Beginning, SECOND).await.ranges[0].watermark;
    transaction.commit().await;
    assert!(overdue_by(under_test, LookFrom::After(within), SECOND).await.is_some());
    assert_eq!(overdue_by(under_test, LookFrom::After(beyond), SECOND).await, None);
    assert!(overdue_by(under_test, LookFrom::Beginning, SECOND).await.is_some());
}
