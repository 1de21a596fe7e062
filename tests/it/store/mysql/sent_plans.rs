//! How MariaDB scans a large history.

use diesel::mysql::MysqlConnection;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel_outbox::internals::store::Store as _;

use super::live_plans::{plan, with_values};
use super::under_test::MysqlUnderTest;
use crate::store::live_calls::StatementLog;
use crate::store::sent_calls::scan_all;

const ROWS: u32 = 100_000;

fn fill(test: &MysqlUnderTest<Pool<ConnectionManager<MysqlConnection>>>) {
    let history = test.names.history();
    test.run(&format!(
        "INSERT INTO {history} (id, message_id, topic, lane, `key`, kind, headers, payload, epoch, attempts, failures, errors, created_at, \
           sent_at, falls_on, awaits_processing) \
         SELECT seq, UNHEX(MD5(seq)), IF(seq % 2, 'invoices', 'orders'), -1, seq % 1000, 'placed', '[]', REPEAT('x', 200), 0, 0, 0, '[]', \
           UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), '2040-01-01', 0 FROM seq_1_to_{ROWS}"
    ));
    test.run(&format!("ANALYZE TABLE {history}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_of_the_history_reads_ranges_of_the_primary_key() {
    let log = StatementLog::default();
    let customizer = log.clone();
    let opened = MysqlUnderTest::open(|url| {
        let pool = Pool::builder().max_size(2).min_idle(Some(0)).connection_customizer(Box::new(customizer));
        pool.build(ConnectionManager::<MysqlConnection>::new(url)).expect("a pool")
    });
    let Some(test) = opened else { return };
    fill(&test);
    let found = scan_all(test.store.history(), 500).await;
    assert!((4_000..6_000).contains(&found), "{found}");
    let statements = log.on(&test.names.history());
    assert!(statements.len() >= 40, "{statements:?}");
    for (text, binds) in statements {
        let steps = plan(&mut test.control(), &with_values(&text, &binds));
        let history = steps.iter().find(|step| step.table.as_deref().is_some_and(|of| of != "p")).expect("its step");
        assert_eq!((history.access.as_deref(), history.key.as_deref()), (Some("range"), Some("PRIMARY")), "{text}");
    }
}
