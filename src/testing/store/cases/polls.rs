//! The range that a poll reads, and what it reports about it.

use std::time::Duration;

use crate::store::{PollFrom, PollResult, PollSpec, PollTopic};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

const SECOND: Duration = Duration::from_secs(1);

/// Without slack, so that only the rows keep the watermark low.
async fn poll(under_test: &dyn StoreUnderTest, from: PollFrom, ahead: Duration) -> PollResult {
    poll_with_slack(under_test, from, ahead, Duration::ZERO).await
}

async fn poll_with_slack(
    under_test: &dyn StoreUnderTest,
    from: PollFrom,
    ahead: Duration,
    slack: Duration,
) -> PollResult {
    let topics = vec![PollTopic { topic: TOPIC.into(), from }];
    let spec = PollSpec { topics, ahead, watermark_slack_duration: slack };
    let poll = under_test.store().poll(&spec).await.expect("poll");
    assert_eq!(poll.ranges.len(), 1, "it returns the range it read: {poll:?}");
    poll
}

/// The result of a poll that finds at most one row.
async fn overdue_by(under_test: &dyn StoreUnderTest, from: PollFrom, ahead: Duration) -> Option<Duration> {
    poll(under_test, from, ahead).await.due.first().map(|due| due.overdue_by)
}

/// A poll begins after its watermark and ends at its limit. From the returned watermark on, the next poll finds the same rows.
pub async fn poll_stays_in_its_range(under_test: &dyn StoreUnderTest) {
    insert(under_test, DUE).await;
    insert(under_test, leased(LEASE)).await;
    under_test.advance(SECOND).await;
    let first = poll(under_test, PollFrom::Beginning, SECOND).await;
    assert!(first.due[0].overdue_by >= SECOND && first.due[0].later_in.is_none(), "not so far ahead: {first:?}");
    let further = poll(under_test, PollFrom::Beginning, LEASE * 2).await;
    assert!(further.due[0].later_in.is_some(), "{further:?}");

    let claimed = claim(under_test, &spec(TOPIC)).await;
    let due = keys(&claimed.rows);
    claimed.handle.close(&due, &[]).await.expect("close");
    let from = PollFrom::After(first.ranges[0].watermark);
    let nothing = poll(under_test, from, SECOND).await;
    assert_eq!((nothing.due.len(), nothing.ranges[0].after), (0, first.ranges[0].watermark), "{nothing:?}");
    assert!(
        nothing.ranges[0].watermark > first.ranges[0].watermark,
        "the rows that held it back are gone: {nothing:?}"
    );
    insert(under_test, DUE).await;
    let from = PollFrom::After(nothing.ranges[0].watermark);
    eventually("a row that is due later is found after it", async || overdue_by(under_test, from, SECOND).await).await;
}

/// Rows that became due earlier are not read.
pub async fn poll_goes_back_as_far_as_requested(under_test: &dyn StoreUnderTest) {
    insert(under_test, DUE).await;
    under_test.advance(SECOND * 20).await;
    assert_eq!(overdue_by(under_test, PollFrom::Past(SECOND * 10), SECOND).await, None);
    for from in [PollFrom::Past(SECOND * 600), PollFrom::Beginning] {
        let overdue_by = overdue_by(under_test, from, SECOND).await.expect("it is due");
        assert!(overdue_by >= SECOND * 20 && overdue_by < SECOND * 300, "{overdue_by:?}");
    }
    let (short, long) = (poll(under_test, PollFrom::Past(SECOND * 10), SECOND), PollFrom::Past(Duration::MAX));
    let (short, long) = (short.await, poll(under_test, long, SECOND).await);
    assert!(long.ranges[0].after < short.ranges[0].after && short.ranges[0].after < short.ranges[0].watermark);
    assert!(
        long.ranges[0].watermark < short.ranges[0].after,
        "the row is below where the other began: {short:?} {long:?}"
    );
}

/// A row that another session has locked is above the watermark, as in a claim.
pub async fn poll_watermark_hides_no_locked_row(under_test: &dyn StoreUnderTest) {
    let key = insert(under_test, DUE).await;
    under_test.advance(SECOND).await;
    let Some(lock) = under_test.lock(key).await else { return };
    let watermark = poll(under_test, PollFrom::Beginning, SECOND).await.ranges[0].watermark;
    lock.roll_back().await;
    assert!(overdue_by(under_test, PollFrom::After(watermark), SECOND).await.is_some());
}

/// A row that commits after the poll is found from the watermark on, within the slack; later only from the beginning.
pub async fn poll_watermark_hides_no_late_commit(under_test: &dyn StoreUnderTest) {
    let other = under_test.insert(&message("payments"), DUE).await;
    // Without row locks an open transaction may block polls altogether.
    let Some(lock) = under_test.lock(other).await else { return };
    lock.roll_back().await;
    let (_, transaction) = under_test.insert_uncommitted(&message(TOPIC)).await;
    let within = poll_with_slack(under_test, PollFrom::Beginning, SECOND, LEASE).await.ranges[0].watermark;
    let beyond = poll(under_test, PollFrom::Beginning, SECOND).await.ranges[0].watermark;
    transaction.commit().await;
    assert!(overdue_by(under_test, PollFrom::After(within), SECOND).await.is_some());
    assert_eq!(overdue_by(under_test, PollFrom::After(beyond), SECOND).await, None);
    assert!(overdue_by(under_test, PollFrom::Beginning, SECOND).await.is_some());
}
