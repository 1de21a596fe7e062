//! What claims and the history read of large tables, in rows and pages as the server counted them.

use std::time::Duration;

use diesel_outbox::MessageId;
use diesel_outbox::internals::store::{HistoryRow, HistoryStore, Keep, Locking, PollSpec, Requeue, Store};

use super::reads::counted;
use super::under_test::PostgresUnderTest;
use crate::store::{insert, spec};

/// More calls than PostgreSQL needs to keep a plan.
const CALLS: i32 = 8;

const DELAYED: i32 = 1_000_000;

/// Just enough for the table to be worth an index.
const FEW: i32 = 10_000;

/// Rows of the history: a tenth in each of ten days, every hundredth of the same key.
const SENT: i32 = 100_000;

const DAYS: i32 = 10;

/// Pages that polls and claims of a few rows read while many other rows are due later, of the due topic and of the delayed one.
async fn pages_read_beside(delayed: i32) -> Option<i32> {
    let filled = counted(|test| {
        test.run(&format!(
            "INSERT INTO {{m}} (message_id, topic, kind, headers, due_at, deliver_at) \
             SELECT gen_random_uuid(), 'orders', '', '[]', later, later \
             FROM generate_series(1, {delayed}) n, LATERAL (SELECT now() + interval '30 days' + n * interval '1 ms') l (later)"
        ));
        test.run("VACUUM ANALYZE {m}");
    });
    let (counted, before) = filled.await?;
    let store = &counted.test.inner.store;
    for _ in 0..CALLS {
        let key = insert(&counted.test.inner).await;
        assert_eq!(store.poll(&PollSpec::everything(["orders".into()])).await.expect("poll").due.len(), 1);
        let claim = store.claim(&spec()).await.expect("claim");
        assert_eq!(claim.rows.len(), 1);
        claim.handle.close(&[key], &[]).await.expect("close");
        let nothing = store.claim(&spec()).await.expect("claim");
        assert!(nothing.rows.is_empty());
        nothing.handle.close(&[], &[]).await.expect("close");
    }
    let reads = counted.since(before).await;
    assert_eq!(reads.table_scans, 0);
    Some(reads.live_pages)
}

/// The index is a level deeper, and that is all.
#[tokio::test]
async fn a_million_delayed_messages_cost_a_sweeper_no_page() {
    let Some(alone) = pages_read_beside(FEW).await else { return };
    let Some(beside) = pages_read_beside(DELAYED).await else { return };
    assert!(alone > 0, "nothing was counted");
    assert!(beside <= alone * 2, "{beside} pages instead of {alone}");
}

fn fill_history(test: &PostgresUnderTest<impl diesel_outbox::store::ConnectionPool<diesel::pg::Pg>>) {
    let history = test.names.history();
    for day in 1..=DAYS {
        test.run(&format!(
            "DO $$ BEGIN EXECUTE format('CREATE TABLE {history}_%s PARTITION OF {history} FOR VALUES FROM (%L) TO (%L)', \
               to_char(current_date + {day}, 'YYYYMMDD'), current_date + {day}, current_date + {day} + 1); END $$"
        ));
    }
    test.run(&format!(
        "INSERT INTO {history} (id, message_id, topic, lane, key, kind, headers, payload, epoch, attempts, failures, errors, \
           created_at, sent_at, falls_on, awaits_processing, processed_at) \
         SELECT n, gen_random_uuid(), 'orders', -1, (n % 1000)::text, '', '[]', '', 0, 0, 0, '[]', now(), \
           now() - interval '1 day' + n * interval '1 ms', current_date + 1 + n % {DAYS}, true, \
           CASE WHEN n % 1000 > 0 THEN now() END FROM generate_series(1, {SENT}) n"
    ));
    test.run(&format!("ANALYZE {history}"));
}

/// By id and by key, whatever else is kept. Moving a message there or back reads none of the others.
#[tokio::test]
async fn the_history_is_read_by_its_indexes() {
    let filled = counted(fill_history);
    let Some((counted, before)) = filled.await else { return };
    let (store, orders) = (&counted.test.inner.store, "orders".into());
    for call in 0..CALLS {
        let key = insert(&counted.test.inner).await;
        let kept = [HistoryRow { key, keep: Keep { days: 3, awaits_processing: true } }];
        assert_eq!(store.settle_into_history(&kept, Locking::Skip).await.expect("settle"), [key]);
        assert!(store.sent(key.message_id).await.expect("sent").is_some());
        assert_eq!(store.sent(MessageId::new()).await.expect("sent"), None);
        let of_key = store.sent_of_key(&orders, &call.to_string().into(), None, 10).await.expect("sent of a key");
        assert_eq!(of_key.len(), 10);
        let next = of_key.last().map(|sent| sent.cursor());
        assert_eq!(store.sent_of_key(&orders, &"5".into(), next.as_ref(), 10).await.expect("a page").len(), 10);
        let late = store.unprocessed(&orders, Duration::ZERO, None, 10).await.expect("unprocessed");
        assert_eq!(late.len(), 10);
        assert_eq!(store.report_processed(&[late[0].message_id], None).await.expect("report").len(), 1);
        assert_eq!(
            store.resend(&[Requeue { message_id: late[1].message_id, lane: None }], None).await.expect("resend").len(),
            1
        );
        assert_eq!(store.prune(100).await.expect("prune").rows, 0);
        assert_eq!(store.apply_processed_reports(Duration::ZERO, 100).await.expect("apply_processed_reports"), 0);
    }
    let reads = counted.since(before).await;
    assert!(reads.scanned_rows < SENT / DAYS / 10, "{} rows by scans of whole tables", reads.scanned_rows);
    // A few index pages per partition, in each of a dozen calls.
    let most = CALLS * 12 * (DAYS + 1) * 10;
    assert!(reads.history_pages < most, "{} pages, of {most} at most", reads.history_pages);
}
