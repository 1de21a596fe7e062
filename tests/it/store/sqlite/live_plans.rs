//! How SQLite reads live messages for `Admin` in a large table.

use super::plans::{open_logged, scans, steps};
use super::under_test::SqliteUnderTest;
use crate::store::live_calls::call_all;

/// A third of them in lanes.
const ROWS: i32 = 300_000;

const NOW: &str = "CAST((julianday('now') - 2440587.5) * 86400000 AS integer)";

fn fill(test: &SqliteUnderTest<super::R2d2Pool>) {
    test.run(&format!(
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {ROWS} / 3 * 2) \
         INSERT INTO outbox_messages (message_id, topic, key, kind, headers, due_at, deliver_at, epoch, attempts, failures) \
         SELECT CAST(printf('%016d', n) AS blob), 'orders', CAST(n % 1000 AS text), 'placed', '[]', \
           CASE n % 4 WHEN 0 THEN {NOW} - 3600000 WHEN 1 THEN {NOW} + 600000 WHEN 2 THEN {NOW} + 86400000 \
             ELSE {NOW} + 3600000 + n END, \
           CASE n % 4 WHEN 2 THEN {NOW} + 86400000 END, CASE n % 4 WHEN 1 THEN 1 WHEN 3 THEN 3 ELSE 0 END, \
           CASE n % 4 WHEN 3 THEN 2 ELSE 0 END, CASE n % 4 WHEN 3 THEN 2 ELSE 0 END FROM n; \
         WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {ROWS} / 3) \
         INSERT INTO outbox_messages (message_id, topic, key, kind, headers, lane, due_at, failures) \
         SELECT CAST(printf('p%015d', n) AS blob), 'payments', CAST(n % 1000 AS text), 'paid', '[]', n % 16, 0, n <= 100 FROM n; \
         ANALYZE"
    ));
}

#[tokio::test]
async fn every_plan_for_live_messages_uses_an_index() {
    let (test, log) = open_logged().await;
    fill(&test);
    call_all(&test.store).await;
    let statements = log.statements();
    assert!(statements.len() > 20, "{statements:?}");
    for text in statements {
        assert_eq!(scans(&mut test.control(), &text), [""; 0]);
        let steps = steps(&mut test.control(), &text);
        let bounded = |step: &&String| step.contains("outbox_messages") && !step.contains('(');
        assert_eq!(steps.iter().find(bounded), None, "{text}: {steps:?}");
    }
}
