use std::time::{Duration, SystemTime};

use crate::lane::lane_of;
use crate::message::{Headers, MessageId};
use crate::store::InsertOptions;
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// The dead letter is gone, and in its place is a new message, whole, due now, with none of the old failures.
pub async fn edited_message_replaces_its_dead_letter(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let held = insert_held(under_test, 1).await[0];
    under_test.store().fail(&[failed(held, "no such field")]).await.expect("fail");
    dead_letter(under_test, held.key, held.epoch + 1, "refused").await;
    let kept = insert_dead_letter(under_test, TOPIC, "1", "refused").await;
    let mut edited = message("invoices");
    edited.key = Some("43, \u{e9}".to_owned());
    edited.kind = "order.corrected".to_owned();
    edited.payload = Some(vec![0, 0xff]);
    edited.headers = [("trace", "a"), ("trace", "b")].into_iter().collect::<Headers>();
    let replace = admin.replace(held.key.message_id, &edited, None, None);
    let (window, replaced) = WriteWindow::of(under_test, replace).await;
    assert!(replaced.expect("replace"));
    assert_eq!(dead_letter_keys(under_test).await, [kept]);
    let rows = under_test.live_rows().await;
    let [row] = &rows[..] else { panic!("one row: {rows:?}") };
    assert_eq!((row.key.message_id, &*row.topic), (edited.message_id, "invoices"));
    assert_ne!(row.key.id, held.key.id, "a late settle of the old row must not remove it");
    assert_eq!((row.epoch, row.attempts, row.failures, row.errors.len()), (0, 0, 0, 0));
    window.assert_due_after(row, Duration::ZERO);
    let claim = claim(under_test, &spec("invoices")).await;
    let sent = decoded(claim.rows.into_iter().next().expect("a row")).envelope;
    assert_eq!((sent.key, sent.kind), (edited.key, edited.kind));
    assert_eq!((sent.payload, sent.headers), (edited.payload, edited.headers));
    window.assert_at(sent.created_at);
    claim.handle.close(&[row.key], &[]).await.expect("close");
}

/// In a lane it goes after everything that is there. It may have no key and no payload.
pub async fn edited_message_goes_to_the_tail_of_a_lane(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let lane = lane_of("42", 16);
    let dead = insert(under_test, InsertOptions::default().in_lane(lane)).await;
    dead_letter(under_test, dead, 0, "refused").await;
    let stays = insert(under_test, InsertOptions::default().in_lane(lane)).await;
    let edited = message(TOPIC);
    assert!(admin.replace(dead.message_id, &edited, Some(lane), None).await.expect("replace"));
    let rows = under_test.live_rows().await;
    let order: Vec<MessageId> = rows.iter().map(|row| row.key.message_id).collect();
    assert_eq!(order, [stays.message_id, edited.message_id]);
    assert!(rows.iter().all(|row| row.due_at == SystemTime::UNIX_EPOCH), "only their owner takes them");

    let other = insert_dead_letter(under_test, "invoices", "1", "refused").await;
    let mut bare = message("invoices");
    (bare.key, bare.payload) = (None, None);
    assert!(admin.replace(other.message_id, &bare, None, None).await.expect("replace"));
    let claim = claim(under_test, &spec("invoices")).await;
    let claimed = keys(&claim.rows);
    let sent = decoded(claim.rows.into_iter().next().expect("a row")).envelope;
    assert_eq!((sent.key, sent.payload), (None, None));
    claim.handle.close(&claimed, &[]).await.expect("close");
}

/// A live or unknown message is not replaced, and nothing is written.
pub async fn edit_requires_a_dead_letter(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let live = insert(under_test, leased(LEASE)).await;
    let dead = insert_dead_letter(under_test, TOPIC, "1", "refused").await;
    for letter in [live.message_id, MessageId::new()] {
        assert!(!admin.replace(letter, &message(TOPIC), None, None).await.expect("replace"));
    }
    assert_eq!((live_keys(under_test).await, dead_letter_keys(under_test).await), (vec![live], vec![dead]));
    assert!(admin.replace(dead.message_id, &message(TOPIC), None, None).await.expect("replace"));
    assert!(
        !admin.replace(dead.message_id, &message(TOPIC), None, None).await.expect("replace"),
        "it is no longer dead"
    );
    assert_eq!((live_keys(under_test).await.len(), dead_letter_keys(under_test).await.len()), (2, 0));
}
