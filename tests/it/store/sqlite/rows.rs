//! What SQLite accepts in a row.

use std::time::{Duration, SystemTime};

use diesel_outbox::internals::limits;
use diesel_outbox::internals::store::{Failed, Held, HistoryRow, HistoryStore, Keep, Loaded, Locking, Pruned, Store};
use diesel_outbox::internals::store_suite::StoreUnderTest;

use super::open;
use crate::store::edited::assert_edits_are_isolated;
use crate::store::{insert, spec};

/// T5: without AUTOINCREMENT the id of the last row is reused as soon as that row is gone.
#[tokio::test]
async fn a_late_settle_removes_no_row_with_a_reused_id() {
    let under_test = open().await;
    let settled = insert(&under_test).await;
    under_test.store.settle(&[settled], Locking::Skip).await.expect("settle");
    let next = insert(&under_test).await;
    assert!(next.id > settled.id, "the id {} was given again", next.id);

    // A table without it, as made by a tool that copies tables.
    under_test.run(&format!("UPDATE outbox_messages SET id = {} WHERE id = {}", settled.id, next.id));
    assert!(under_test.store.settle(&[settled], Locking::Skip).await.expect("settle").is_empty());
    assert_eq!(under_test.live_rows().await.len(), 1);
}

/// T8: the database's clock counts from 1970 in UTC, whatever the version of SQLite or the zone of the machine.
#[tokio::test]
async fn instants_are_utc() {
    let under_test = open().await;
    let key = insert(&under_test).await;
    let claim = under_test.store.claim(&spec()).await.expect("claim");
    let Some(Loaded::Row(row)) = claim.rows.first() else { panic!("no sound row: {:?}", claim.rows) };
    let is_now = |at: SystemTime| {
        #[expect(clippy::disallowed_methods, reason = "the test compares dates")]
        let now = SystemTime::now();
        now.duration_since(at).or_else(|_| at.duration_since(now)).expect("one of the two is later")
            < Duration::from_secs(60)
    };
    assert!(is_now(row.envelope.created_at), "{:?}", row.envelope.created_at);
    let leased = under_test.live_rows().await[0].due_at - spec().lease_duration;
    assert!(is_now(leased), "{leased:?}");
    claim.handle.close(&[key], &[]).await.expect("close");
}

#[tokio::test]
async fn text_that_is_no_utf8_poisons_only_its_row() {
    let under_test = open().await;
    for column in ["key", "kind", "headers"] {
        let (spoiled, sound) = (insert(&under_test).await, insert(&under_test).await);
        under_test.run(&format!("UPDATE outbox_messages SET {column} = CAST(x'ff' AS text) WHERE id = {}", spoiled.id));
        let claim = under_test.store.claim(&spec()).await.expect("claim");
        for row in &claim.rows {
            let is_poisoned = matches!(row, Loaded::Poisoned(_));
            assert_eq!(is_poisoned, row.key() == spoiled, "{column}: {row:?}");
        }
        claim.handle.close(&[spoiled, sound], &[]).await.expect("close");
    }
}

#[tokio::test]
async fn a_row_of_other_types_is_refused_where_it_is_written() {
    let under_test = open().await;
    insert(&under_test).await;
    for (column, value) in [("message_id", "x'00'"), ("key", "x'ff'"), ("due_at", "'soon'"), ("epoch", "NULL")] {
        let update = format!("UPDATE outbox_messages SET {column} = {value}");
        let refused = diesel::connection::SimpleConnection::batch_execute(&mut *under_test.control(), &update);
        assert!(refused.is_err(), "{update}");
    }
}

#[tokio::test]
async fn a_row_edited_by_hand_blocks_no_other_row() {
    let under_test = open().await;
    let own = [
        "errors = 'no json'",
        "errors = ''",
        "due_at = -9223372036854775808",
        "due_at = -1",
        "due_at = 0",
        "attempts = 9223372036854775807, failures = 9223372036854775807",
        "attempts = -9223372036854775808, failures = -9223372036854775808",
        "created_at = 9223372036854775807",
        "created_at = -9223372036854775808",
        "deliver_at = -9223372036854775808",
        "kind = '', key = ''",
    ];
    let set = |edit: &str| under_test.run(&format!("UPDATE outbox_messages SET {edit}"));
    assert_edits_are_isolated(&under_test, &own, set).await;
}

#[tokio::test]
async fn errors_that_are_no_json_fail_no_batch() {
    let under_test = open().await;
    let mut failures = Vec::new();
    for spoiled in ["no json", "{}", "null", ""] {
        let key = insert(&under_test).await;
        under_test.run(&format!("UPDATE outbox_messages SET errors = '{spoiled}' WHERE id = {}", key.id));
        let held = Held { key, epoch: 0 };
        let wait = Duration::from_secs(1);
        failures.push(Failed { held, wait, spends_attempt: true, class: "temporary", error: "timed out".to_owned() });
    }
    let noted = under_test.store.fail(&failures).await.expect("fail");
    assert_eq!(noted.len(), failures.len());
    for row in under_test.live_rows().await {
        assert_eq!(row.errors.iter().map(|kept| &*kept.error).collect::<Vec<_>>(), ["timed out"]);
    }
}

/// Every writer waits for a removal step, and its cost is in bytes.
#[tokio::test]
async fn large_messages_are_removed_few_at_a_time() {
    let under_test = open().await;
    for _ in 0..5 {
        let key = insert(&under_test).await;
        let keep = Keep { days: 1, awaits_processing: false };
        assert_eq!(
            under_test.store.settle_into_history(&[HistoryRow { key, keep }], Locking::Skip).await.expect("settle"),
            [key]
        );
    }
    let third = limits::PRUNE_BYTES_MAX / 3;
    under_test.run(&format!("UPDATE outbox_history SET falls_on = 0, payload = zeroblob({third})"));
    let mut steps = Vec::new();
    while steps.last().is_none_or(|step: &Pruned| step.more) {
        steps.push(under_test.store.prune(100).await.expect("prune"));
    }
    assert_eq!(steps.iter().map(|step| step.rows).collect::<Vec<_>>(), [4, 1]);
}
