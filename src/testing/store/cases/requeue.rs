//! Requeued messages go to the given lanes, whichever they were in.

use crate::message::MessageId;
use crate::store::{HistoryRow, InsertOptions, Keep, LaneScan, Locking, MessageKey, Requeue, RowKey};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

const OLD_LANES: [Option<u16>; 3] = [Some(12), Some(3), None];
const NEW_LANES: [Option<u16>; 3] = [Some(4), None, Some(7)];

async fn inserted(under_test: &dyn StoreUnderTest) -> Vec<RowKey> {
    let mut rows = Vec::new();
    for lane in OLD_LANES {
        rows.push(insert(under_test, InsertOptions { lane, ..DUE }).await);
    }
    rows
}

fn assert_message_keys(mut found: Vec<MessageKey>, rows: &[RowKey]) {
    let message_key = |(row, lane): (&RowKey, Option<u16>)| MessageKey {
        message_id: row.message_id,
        topic: TOPIC.into(),
        key: Some("42".to_owned()),
        lane,
    };
    let mut expected: Vec<MessageKey> = rows.iter().zip(OLD_LANES).map(message_key).collect();
    found.sort_unstable_by_key(|message_key| message_key.message_id);
    expected.sort_unstable_by_key(|message_key| message_key.message_id);
    assert_eq!(found, expected);
}

fn requested(rows: &[RowKey]) -> Vec<MessageId> {
    rows.iter().map(|row| row.message_id).chain([MessageId::new()]).collect()
}

fn requeues(rows: &[RowKey]) -> Vec<Requeue> {
    rows.iter().zip(NEW_LANES).map(|(row, lane)| requeue(row.message_id, lane)).collect()
}

async fn assert_requeued(under_test: &dyn StoreUnderTest, rows: &[RowKey]) {
    let lanes = under_test.store().lanes();
    let scans = [4, 7, 12, 3].map(|lane| LaneScan { lane, after: 0, rows_max: 9 });
    let entries = lanes.lane_entries(&TOPIC.into(), &scans).await.expect("entries");
    let found: Vec<_> = entries.iter().map(|entry| (scans[entry.scan].lane, entry.row.message_id)).collect();
    assert_eq!(found, [(4, rows[0].message_id), (7, rows[2].message_id)]);
    let unordered = claim_and_close(under_test, &spec(TOPIC)).await;
    let unordered: Vec<MessageId> = unordered.iter().map(|row| row.message_id).collect();
    assert_eq!(unordered, [rows[1].message_id], "outside of lanes it is due");
}

/// For dead letters.
pub async fn redrive_requeues_into_the_given_lane(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let rows = inserted(under_test).await;
    for row in &rows {
        dead_letter(under_test, *row, 0, "refused").await;
    }
    assert_message_keys(admin.dead_letter_keys(&requested(&rows)).await.expect("keys"), &rows);
    assert_eq!(admin.dead_letter_keys(&[]).await.expect("keys"), []);
    assert_eq!(admin.redrive(&requeues(&rows), None).await.expect("redrive").len(), rows.len());
    assert_requeued(under_test, &rows).await;
}

/// For sent messages.
pub async fn resend_requeues_into_the_given_lane(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let rows = inserted(under_test).await;
    let keep = Keep { days: 30, awaits_processing: true };
    let kept: Vec<HistoryRow> = rows.iter().map(|key| HistoryRow { key: *key, keep }).collect();
    assert_eq!(sorted(history.settle_into_history(&kept, Locking::Skip).await.expect("settle")), sorted(rows.clone()));
    assert_message_keys(history.sent_keys(&requested(&rows)).await.expect("keys"), &rows);
    assert_eq!(history.sent_keys(&[]).await.expect("keys"), []);
    assert_eq!(history.resend(&requeues(&rows), None).await.expect("resend").len(), rows.len());
    assert_requeued(under_test, &rows).await;
}
