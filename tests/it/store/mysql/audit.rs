//! What the statements of the audit read of a large table, in rows as the server counted them for the session.

use std::time::Duration;

use diesel::mysql::MysqlConnection;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel_outbox::internals::store::{AuditFilter, AuditStore};

use super::plans_at_size::Tally;
use super::under_test::MysqlUnderTest;
use crate::store::audit::{each_condition, message};
use crate::store::eventually;

/// Operations of others, so that alice's are few.
const OTHERS: u64 = 50_000;

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_is_read_by_its_indexes() {
    let tally = Tally::default();
    let customizer = tally.clone();
    let test = MysqlUnderTest::open(|url| {
        let pool = Pool::builder().max_size(1).min_idle(Some(0)).connection_customizer(Box::new(customizer));
        pool.build(ConnectionManager::<MysqlConnection>::new(url)).expect("a pool")
    });
    let Some(test) = test else { return };
    let audit = test.names.audit();
    test.run(&format!(
        "INSERT INTO {audit} (id, began_at, actor, action, message_id, changed) \
         SELECT UNHEX(LPAD(HEX(seq), 32, '0')), UTC_TIMESTAMP(6) - INTERVAL seq MINUTE, CONCAT('actor', seq % 100), 'redrive', \
           UNHEX(LPAD(HEX(seq + 100), 32, '0')), 1 FROM seq_1_to_{OTHERS}"
    ));
    test.run(&format!(
        "INSERT INTO {audit} (id, began_at, actor, action, message_id, changed) \
         VALUES (UNHEX(REPLACE(UUID(), '-', '')), UTC_TIMESTAMP(6), 'alice', 'pause', UNHEX('{}'), 1)",
        message().as_uuid().simple()
    ));
    test.run(&format!("ANALYZE TABLE {audit}"));
    let store = &test.store;
    for _ in 0..8 {
        for filter in each_condition().into_iter().chain([AuditFilter::new(), AuditFilter::new().actor("actor7")]) {
            let entries = store.audit_entries(&filter, None, 10).await.expect("audit entries");
            let next = entries.last().map(|entry| entry.cursor()).expect("entries");
            store.audit_entries(&filter, Some(&next), 10).await.expect("a page");
        }
        store.prune_audit(Duration::from_secs(30 * 86_400), 100).await.expect("prune");
    }
    drop(test);
    let read = eventually("the session has recorded its reads", || tally.0.lock().expect("unpoisoned").pop()).await;
    // A single read of them all would be more. Where the store looks for its table, it also reads the names of those of other tests.
    assert!(0 < read && read < OTHERS, "{read} rows");
}
