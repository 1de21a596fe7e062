use std::time::{Duration, SystemTime};

use uuid::Uuid;

use crate::message::MessageId;
use crate::store::{Held, HistoryRow, InsertOptions, Keep, Locking, RowKey, SentScan};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

const KEEP: Keep = Keep { days: 7, awaits_processing: false };

async fn send(under_test: &dyn StoreUnderTest, topic: &str) -> RowKey {
    let key = under_test.insert(&message(topic), DUE).await;
    settle(under_test, key).await;
    key
}

async fn settle(under_test: &dyn StoreUnderTest, key: RowKey) {
    let row = HistoryRow { key, keep: KEEP };
    let settled = under_test.store().history().settle_into_history(&[row], Locking::Wait).await;
    assert_eq!(settled.expect("settle"), [key]);
}

/// The time after that of all rows so far: some clocks tick in milliseconds.
async fn next_tick(under_test: &dyn StoreUnderTest) -> SystemTime {
    let tick = Duration::from_millis(2);
    let end = under_test.now().await + tick;
    loop {
        // It moves the clock of the memory store only.
        under_test.advance(tick).await;
        let now = under_test.now().await;
        if now > end {
            return now;
        }
        tokio::task::yield_now().await;
    }
}

/// Every message of the topic, whenever it was enqueued.
fn whole(after: MessageId, until: MessageId) -> SentScan {
    let before = SystemTime::UNIX_EPOCH + Duration::from_secs(100 * 365 * 24 * 3_600);
    SentScan { topic: TOPIC.into(), from: SystemTime::UNIX_EPOCH, before, after, until }
}

fn nil() -> MessageId {
    Uuid::nil().into()
}

fn max() -> MessageId {
    Uuid::max().into()
}

/// A sent message has the id and the delivery time of its row. In a lane, it tells whether it was requeued: its row id is a later one
/// then.
pub async fn sent_message_knows_its_row(under_test: &dyn StoreUnderTest) {
    let (store, history) = (under_test.store(), under_test.store().history());
    let hour = Duration::from_secs(3_600);
    let delayed = insert(under_test, InsertOptions::default().deliver_after(hour)).await;
    let [plain, failed_once, resent] = [
        insert(under_test, InsertOptions::default().in_lane(3)).await,
        insert(under_test, InsertOptions::default().in_lane(3)).await,
        insert(under_test, InsertOptions::default().in_lane(3)).await,
    ];
    store.fail(&[failed(Held { key: failed_once, epoch: 0 }, "no leader")]).await.expect("fail");
    for key in [delayed, plain, failed_once, resent] {
        settle(under_test, key).await;
    }
    assert_eq!(
        history.resend(&[requeue(resent.message_id, Some(3))], None).await.expect("resend"),
        [resent.message_id]
    );
    let again = live_keys(under_test).await.remove(0);
    settle(under_test, again).await;
    for (key, is_requeued) in [(delayed, false), (plain, false), (failed_once, false), (again, true)] {
        let sent = history.sent(key.message_id).await.expect("sent").expect("it is kept");
        assert_eq!((sent.id, sent.is_requeued), (key.id, is_requeued));
        let delay = sent.deliver_at.map(|at| at.duration_since(sent.created_at).expect("later"));
        // The delivery time is set a moment before or after the time of the row.
        let is_right = |delay: Duration| delay.abs_diff(hour) < Duration::from_secs(60);
        assert_eq!(delay.map(is_right), (key == delayed).then_some(true), "{sent:?}");
    }
    assert!(again.id > resent.id);
}

/// A scan has the messages of its topic, its period and its range of ids, by message id.
pub async fn sent_scan_reads_a_topic_and_a_period(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let early = send(under_test, TOPIC).await;
    let from = next_tick(under_test).await;
    let mut within = Vec::new();
    for topic in [TOPIC, "invoices", TOPIC] {
        let key = send(under_test, topic).await;
        within.extend((topic == TOPIC).then_some(key.message_id));
    }
    let before = next_tick(under_test).await;
    let late = send(under_test, TOPIC).await;
    insert(under_test, DUE).await;

    let ids = async |scan: &SentScan| -> Vec<MessageId> {
        let found = history.sent_in_scan(scan).await.expect("a scan");
        found.into_iter().map(|sent| sent.message_id).collect()
    };
    within.sort_unstable();
    assert_eq!(ids(&SentScan { from, before, ..whole(nil(), max()) }).await, within);
    let mut all = [&within[..], &[early.message_id, late.message_id]].concat();
    all.sort_unstable();
    assert_eq!(ids(&whole(nil(), max())).await, all);
    assert_eq!(ids(&whole(all[0], all[2])).await, all[1..=2], "after one id, up to another");
    let whole = history.sent_in_scan(&whole(nil(), all[0])).await.expect("a scan").remove(0);
    assert_eq!(Some(whole), history.sent(all[0]).await.expect("sent"), "with everything it had");
}

/// A range of ids is cut off after so many sent messages of any topic.
pub async fn sent_scans_are_bounded(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let mut ids = Vec::new();
    for topic in [TOPIC, "invoices", TOPIC, "invoices", TOPIC] {
        ids.push(send(under_test, topic).await.message_id);
    }
    ids.sort_unstable();
    let end = async |after, until, rows_max| history.sent_scan_end(after, until, rows_max).await.expect("an end");
    assert_eq!(end(nil(), max(), 2).await, Some(ids[1]));
    assert_eq!(end(ids[1], max(), 3).await, Some(ids[4]));
    assert_eq!(end(ids[1], max(), 4).await, None, "it has fewer");
    assert_eq!(end(nil(), ids[2], 3).await, Some(ids[2]));
    assert_eq!(end(nil(), ids[2], 4).await, None, "the range ends before");
    assert_eq!(end(ids[4], max(), 1).await, None);
}
