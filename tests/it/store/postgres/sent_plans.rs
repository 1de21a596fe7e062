//! How PostgreSQL scans a history of several days.

use diesel::pg::Pg;
use diesel_outbox::store::ConnectionPool;

use super::reads::counted;
use super::under_test::PostgresUnderTest;
use crate::store::sent_calls::scan_all;

const ROWS: i32 = 200_000;

/// A tenth of it in the default partition, the rest in those of three days. Half of it is of another topic.
fn fill(test: &PostgresUnderTest<impl ConnectionPool<Pg>>) {
    let history = test.names.history();
    for day in 1..=3 {
        test.run(&format!(
            "CREATE TABLE {history}_2020010{day} (LIKE {history} INCLUDING ALL); \
             ALTER TABLE {history} ATTACH PARTITION {history}_2020010{day} FOR VALUES FROM ('2020-01-0{day}') TO ('2020-01-0{}')",
            day + 1
        ));
    }
    test.run(&format!(
        "INSERT INTO {history} (id, message_id, topic, lane, key, kind, headers, payload, epoch, attempts, failures, errors, created_at, \
           sent_at, falls_on, awaits_processing) \
         SELECT n, gen_random_uuid(), CASE n % 2 WHEN 0 THEN 'orders' ELSE 'invoices' END, -1, (n % 1000)::text, 'placed', '[]', \
           convert_to(repeat('x', 200), 'UTF8'), 0, 0, 0, '[]', now(), now(), \
           CASE WHEN n % 10 = 0 THEN date '2021-01-01' ELSE date '2020-01-01' + n % 3 END, false \
         FROM generate_series(1, {ROWS}) n"
    ));
    test.run(&format!("VACUUM ANALYZE {history}"));
}

/// Counted by the server. Of a page, PostgreSQL reads the index of each partition twice, and the rows.
#[tokio::test]
async fn a_scan_of_the_history_reads_as_many_rows_as_it_was_told() {
    const ROWS_MAX: usize = 500;
    let Some((counted, before)) = counted(fill).await else { return };
    let found = scan_all(&counted.test.inner.store, ROWS_MAX).await;
    // Ten steps from the beginning and ten from the middle, half of which is of the topic.
    assert!((4_000..6_000).contains(&found), "{found}");
    let reads = counted.since(before).await;
    assert!(reads.scanned_rows < 100, "{} rows by scans of whole tables", reads.scanned_rows);
    let read = 20 * ROWS_MAX as i32;
    assert!(reads.history_pages < 6 * read, "{} pages for {read} rows", reads.history_pages);
}
