//! What the statements of the audit read of a large table.

use std::time::Duration;

use diesel::pg::Pg;
use diesel_outbox::internals::store::{AdminStore, AuditFilter, AuditStore};
use diesel_outbox::store::ConnectionPool;

use super::reads::counted;
use super::under_test::PostgresUnderTest;
use crate::store::audit::{each_condition, message, record};

/// Operations of others, so that alice's are few.
const OTHERS: i32 = 50_000;

fn fill(test: &PostgresUnderTest<impl ConnectionPool<Pg>>) {
    let audit = test.names.audit();
    test.run(&format!(
        "INSERT INTO {audit} (id, began_at, actor, action, message_id, changed) \
         SELECT gen_random_uuid(), now() - n * interval '1 minute', 'actor' || n % 100, 'redrive', gen_random_uuid(), 1 \
         FROM generate_series(1, {OTHERS}) n"
    ));
    test.run(&format!("ANALYZE {audit}"));
}

#[tokio::test]
async fn the_audit_is_read_by_its_indexes() {
    let Some((counted, before)) = counted(fill).await else { return };
    let store = &counted.test.inner.store;
    for _ in 0..8 {
        let pause = record("pause");
        store.resume(&"orders".into(), None).await.expect("resume");
        store.pause(&"orders".into(), Some(&pause)).await.expect("pause");
        store.end_operation(pause.id).await.expect("end");
        for filter in each_condition().into_iter().chain([AuditFilter::new(), AuditFilter::new().actor("actor7")]) {
            let entries = store.audit_entries(&filter, None, 10).await.expect("audit entries");
            let next = entries.last().map(|entry| entry.cursor()).expect("entries");
            store.audit_entries(&filter, Some(&next), 10).await.expect("a page");
        }
        let alices = AuditFilter::new().actor("alice").action("pause").message_id(message());
        assert!(!store.audit_entries(&alices, None, 10).await.expect("audit entries").is_empty());
        store.prune_audit(Duration::from_secs(30 * 86_400), 100).await.expect("prune");
    }
    let reads = counted.since(before).await;
    // The table of paused topics has no row or one, and is read as a whole.
    assert!(reads.scanned_rows < 100, "{} rows by scans of whole tables", reads.scanned_rows);
}
