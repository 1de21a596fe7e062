//! The query plans that SQLite reports for a store's statements: each by an index, none over a whole table.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use diesel::connection::{Connection as _, InstrumentationEvent};
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Pool};
use diesel::sql_types::Text;
use diesel::{QueryableByName, RunQueryDsl as _, SqliteConnection};
use diesel_outbox::MessageId;
use diesel_outbox::internals::store::{
    AdminStore, AuditFilter, AuditStore, HistoryRow, HistoryStore, Keep, Locking, PollSpec, Requeue, RowRef, Store,
};
use diesel_outbox::store::SqliteStore;

use super::R2d2Pool;
use super::under_test::SqliteUnderTest;
use crate::store::audit::{each_condition, record};
use crate::store::{insert, spec};

#[derive(Debug, Clone, Default)]
pub(super) struct SqlLog(Arc<Mutex<Vec<String>>>);

impl CustomizeConnection<SqliteConnection, diesel::r2d2::Error> for SqlLog {
    fn on_acquire(&self, conn: &mut SqliteConnection) -> Result<(), diesel::r2d2::Error> {
        let log = Arc::clone(&self.0);
        conn.set_instrumentation(move |event: InstrumentationEvent<'_>| {
            if let InstrumentationEvent::StartQuery { query, .. } = event {
                let query = query.to_string();
                let text = query.split(" -- binds").next().unwrap_or_default().trim().to_owned();
                log.lock().expect("unpoisoned").push(text);
            }
        });
        Ok(())
    }
}

#[derive(QueryableByName)]
struct Step {
    #[diesel(sql_type = Text)]
    detail: String,
}

pub(super) fn steps(conn: &mut SqliteConnection, text: &str) -> Vec<String> {
    let steps = diesel::sql_query(format!("EXPLAIN QUERY PLAN {text}")).load::<Step>(conn);
    let steps = steps.unwrap_or_else(|error| panic!("{text}: {error}"));
    steps.into_iter().map(|step| step.detail).collect()
}

/// Scans of a table that grows, under any alias that statements use for it.
pub(super) fn scans(conn: &mut SqliteConnection, text: &str) -> Vec<String> {
    let is_ours = |name: &str| ["m", "h", "d", "p"].contains(&name) || name.starts_with("outbox_");
    let scanned =
        |step: &String| step.strip_prefix("SCAN ").is_some_and(|of| of.split(' ').next().is_some_and(is_ours));
    // The latest entries of the audit are the first of an index.
    let is_ordered = |step: &String| step.contains("USING INDEX outbox_audit_began");
    steps(conn, text)
        .into_iter()
        .filter(scanned)
        .filter(|step| !is_ordered(step))
        .map(|step| format!("{step}: {text}"))
        .collect()
}

/// A store whose statements are recorded.
pub(super) async fn open_logged() -> (SqliteUnderTest<R2d2Pool>, SqlLog) {
    let log = SqlLog::default();
    let customizer = log.clone();
    let pool = |file: &str| {
        let pool = Pool::builder().max_size(2).connection_customizer(Box::new(customizer));
        pool.build(ConnectionManager::new(file)).expect("a pool")
    };
    (SqliteUnderTest::open(async |file| pool(file)).await, log)
}

impl SqlLog {
    /// The statements on the outbox's tables, without duplicates.
    pub(super) fn statements(&self) -> Vec<String> {
        let mut statements: Vec<String> = self.0.lock().expect("unpoisoned").clone();
        statements.sort();
        statements.dedup();
        statements.retain(|text| text.contains("outbox_") && !text.contains("sqlite_"));
        statements
    }
}

async fn live(store: &SqliteStore<R2d2Pool>, test: &SqliteUnderTest<R2d2Pool>) {
    let [key, other] = [insert(test).await, insert(test).await];
    let row = RowRef { id: Some(key.id), message_id: key.message_id };
    assert_eq!(store.confirm(&[row]).await.expect("confirm").len(), 1);
    assert_eq!(store.poll(&PollSpec::everything(["orders".into()])).await.expect("poll").due.len(), 1);
    let claim = store.claim(&spec()).await.expect("claim");
    claim.handle.close(&[key], &[]).await.expect("close");
    assert_eq!(store.settle(&[other], Locking::Skip).await.expect("settle"), [other]);
}

async fn history(store: &SqliteStore<R2d2Pool>, test: &SqliteUnderTest<R2d2Pool>) {
    let (key, orders) = (insert(test).await, "orders".into());
    let keep = Keep { days: 3, awaits_processing: true };
    assert_eq!(store.settle_into_history(&[HistoryRow { key, keep }], Locking::Skip).await.expect("settle"), [key]);
    assert!(store.sent(key.message_id).await.expect("sent").is_some());
    store.sent_of_key(&orders, &"a".into(), None, 10).await.expect("sent of a key");
    store.unprocessed(&orders, Duration::ZERO, None, 10).await.expect("unprocessed");
    store.unprocessed_cursors(&orders, Duration::ZERO, None, 10).await.expect("their cursors");
    store.count_sent(&orders, 10).await.expect("count");
    crate::store::sent_calls::scan_all(store, 10).await;
    store.report_processed(&[MessageId::new()], None).await.expect("report");
    store.resend(&[Requeue { message_id: key.message_id, lane: None }], None).await.expect("resend");
    store.prune(10).await.expect("prune");
    test.run("UPDATE outbox_history SET falls_on = 0");
    store.prune(10).await.expect("prune");
    store.prune_dead_letters(&orders, Duration::ZERO, 10).await.expect("prune dead letters");
    store.apply_processed_reports(Duration::from_secs(3_600), 10).await.expect("apply_processed_reports");
}

async fn audit(store: &SqliteStore<R2d2Pool>) {
    let pause = record("pause");
    store.pause(&"orders".into(), Some(&pause)).await.expect("pause");
    store.end_operation(pause.id).await.expect("end");
    for filter in each_condition() {
        let entries = store.audit_entries(&filter, None, 10).await.expect("audit entries");
        let next = entries.first().map(|entry| entry.cursor());
        assert!(next.is_some(), "{filter:?}");
        store.audit_entries(&filter, next.as_ref(), 10).await.expect("a page");
    }
    store.audit_entries(&AuditFilter::new(), None, 10).await.expect("the latest");
    store.prune_audit(Duration::from_secs(3_600), 10).await.expect("prune");
}

#[tokio::test]
async fn no_statement_goes_over_a_whole_table() {
    let (test, log) = open_logged().await;
    live(&test.store, &test).await;
    history(&test.store, &test).await;
    audit(&test.store).await;
    let sent = log.statements();
    assert!(sent.len() > 15, "{sent:?}");
    let scanned: Vec<String> = sent.iter().flat_map(|text| scans(&mut test.control(), text)).collect();
    assert!(scanned.is_empty(), "{}", scanned.join("\n"));
}

/// Messages that are due next month. A plan that handles them handles any number, because its index condition bounds what it reads.
const DELAYED: i32 = 200_000;

/// A claim reads the index between its watermark and now. A poll reads the first entry, twice, within its range.
#[tokio::test]
async fn delayed_messages_cost_a_sweeper_nothing() {
    let (test, log) = open_logged().await;
    test.run(&format!(
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {DELAYED}) \
         INSERT INTO outbox_messages (message_id, topic, kind, headers, due_at, deliver_at) \
         SELECT CAST(printf('%016d', n) AS blob), 'orders', '', '[]', later, later FROM ( \
           SELECT n, CAST((julianday('now') - 2440587.5) * 86400000 AS integer) + 30 * 86400000 + n AS later FROM n)"
    ));
    test.run("ANALYZE");
    let store = &test.store;
    for _ in 0..3 {
        let key = insert(&test).await;
        assert_eq!(store.poll(&PollSpec::everything(["orders".into()])).await.expect("poll").due.len(), 1);
        let claim = store.claim(&spec()).await.expect("claim");
        assert_eq!(claim.rows.len(), 1);
        claim.handle.close(&[key], &[]).await.expect("close");
        let nothing = store.claim(&spec()).await.expect("claim");
        assert!(nothing.rows.is_empty());
        nothing.handle.close(&[], &[]).await.expect("close");
    }
    let (mut bounded, mut polls) = (0, 0);
    for text in log.statements() {
        assert_eq!(scans(&mut test.control(), &text), [""; 0]);
        let steps = steps(&mut test.control(), &text);
        let by_due: Vec<&String> = steps.iter().filter(|step| step.contains("outbox_messages_due")).collect();
        let ends = by_due.iter().filter(|step| step.contains("due_at<?")).count();
        assert_eq!(by_due.len(), ends, "{text}: {steps:?}");
        // In a poll, each reads only the first entry, as long as nothing must be sorted.
        let firsts = text.matches("ORDER BY due_at LIMIT 1").count();
        assert!(firsts == 0 || !steps.iter().any(|step| step.contains("TEMP B-TREE")), "{text}: {steps:?}");
        (bounded, polls) = (bounded + ends, polls + firsts);
    }
    assert!(bounded > polls && polls > 0, "neither a claim nor a poll was seen: {:?}", log.statements());
}
