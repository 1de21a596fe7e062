//! How MariaDB reads live messages for `Admin` in a large table.

use diesel::mysql::MysqlConnection;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel::sql_types::{Nullable, Text};
use diesel::{QueryableByName, RunQueryDsl as _};
use serde_json::Value;

use super::under_test::MysqlUnderTest;
use crate::store::live_calls::{StatementLog, call_all};

/// A third of them in lanes. It loads in seconds; a million takes a minute.
const ROWS: u32 = 300_000;

#[derive(Debug, QueryableByName)]
pub(super) struct Step {
    #[diesel(sql_type = Nullable<Text>)]
    pub(super) table: Option<String>,
    #[diesel(sql_type = Nullable<Text>, column_name = "type")]
    pub(super) access: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    pub(super) key: Option<String>,
}

/// The text with its binds in place of the placeholders: the server explains no statement without values.
pub(super) fn with_values(text: &str, binds: &str) -> String {
    let binds: Vec<Value> = serde_json::from_str(binds).unwrap_or_else(|error| panic!("{binds}: {error}"));
    let mut values = binds.iter().map(|value| match value {
        Value::String(text) => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''")),
        other => other.to_string(),
    });
    let mut parts = text.split('?');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |sql, part| sql + &values.next().expect("a value for each placeholder") + part)
}

pub(super) fn plan(conn: &mut MysqlConnection, statement: &str) -> Vec<Step> {
    let steps = diesel::sql_query(format!("EXPLAIN {statement}")).load::<Step>(conn);
    steps.unwrap_or_else(|error| panic!("{statement}: {error}"))
}

fn fill(test: &MysqlUnderTest<Pool<ConnectionManager<MysqlConnection>>>) {
    test.run(&format!(
        "INSERT INTO {{m}} (message_id, topic, `key`, kind, headers, due_at, deliver_at, epoch, attempts, failures) \
         SELECT UNHEX(LPAD(HEX(seq), 32, '0')), 'orders', seq % 1000, 'placed', '[]', \
           CASE seq % 4 WHEN 0 THEN UTC_TIMESTAMP(6) - INTERVAL 1 HOUR WHEN 1 THEN UTC_TIMESTAMP(6) + INTERVAL 10 MINUTE \
             WHEN 2 THEN UTC_TIMESTAMP(6) + INTERVAL 1 DAY \
             ELSE UTC_TIMESTAMP(6) + INTERVAL 1 HOUR + INTERVAL seq * 1000 MICROSECOND END, \
           CASE seq % 4 WHEN 2 THEN UTC_TIMESTAMP(6) + INTERVAL 1 DAY END, CASE seq % 4 WHEN 1 THEN 1 WHEN 3 THEN 3 ELSE 0 END, \
           CASE seq % 4 WHEN 3 THEN 2 ELSE 0 END, CASE seq % 4 WHEN 3 THEN 2 ELSE 0 END \
         FROM seq_1_to_{of_orders}",
        of_orders = ROWS / 3 * 2
    ));
    test.run(&format!(
        "INSERT INTO {{m}} (message_id, topic, `key`, kind, headers, lane, due_at, failures) \
         SELECT UNHEX(CONCAT('01', LPAD(HEX(seq), 30, '0'))), 'payments', seq % 1000, 'paid', '[]', seq % 16, \
           '1970-01-01 00:00:00', seq <= 100 FROM seq_1_to_{of_payments}",
        of_payments = ROWS / 3
    ));
    test.run("ANALYZE TABLE {m}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_plan_for_live_messages_uses_an_index() {
    let log = StatementLog::default();
    let customizer = log.clone();
    let opened = MysqlUnderTest::open(|url| {
        let pool = Pool::builder().max_size(2).min_idle(Some(0)).connection_customizer(Box::new(customizer));
        pool.build(ConnectionManager::<MysqlConnection>::new(url)).expect("a pool")
    });
    let Some(test) = opened else { return };
    fill(&test);
    call_all(&test.store).await;
    let mut statements: Vec<String> =
        log.on(&test.names.messages()).iter().map(|(text, binds)| with_values(text, binds)).collect();
    statements.sort();
    statements.dedup();
    assert!(statements.len() > 20, "{statements:?}");
    for statement in statements {
        let steps = plan(&mut test.control(), &statement);
        let is_scan = |step: &&Step| {
            let of_table = step.table.as_deref().is_some_and(|table| table == "outbox_messages");
            of_table && (step.key.is_none() || matches!(step.access.as_deref(), Some("ALL" | "index")))
        };
        let scans: Vec<&Step> = steps.iter().filter(is_scan).collect();
        assert!(scans.is_empty(), "{statement}: {steps:?}");
    }
}
