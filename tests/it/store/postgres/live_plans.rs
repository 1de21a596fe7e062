//! How PostgreSQL reads live messages for `Admin` in a table of a million.

use diesel::connection::SimpleConnection as _;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel::sql_types::Text;
use diesel::{PgConnection, QueryableByName, RunQueryDsl as _};
use diesel_outbox::store::ConnectionPool;

use super::reads::counted;
use super::under_test::PostgresUnderTest;
use crate::store::live_calls::{ENTRIES_MAX, StatementLog, call_all};

/// A third of them in lanes.
const ROWS: i32 = 1_000_000;

/// A page of the largest table has several rows.
const ROWS_PER_PAGE: i32 = 8;

/// The statements that find a message by its id read the table once each, in steps.
const SEARCHES_BY_ID: i32 = 5;

fn fill(test: &PostgresUnderTest<impl ConnectionPool<diesel::pg::Pg>>) {
    test.run(&format!(
        "INSERT INTO {{m}} (message_id, topic, key, kind, headers, due_at, deliver_at, epoch, attempts, failures) \
         SELECT gen_random_uuid(), 'orders', (n % 1000)::text, 'placed', '[]', \
           CASE n % 4 WHEN 0 THEN now() - interval '1 hour' WHEN 1 THEN now() + interval '10 minutes' \
             WHEN 2 THEN now() + interval '1 day' ELSE now() + interval '1 hour' + n * interval '1 ms' END, \
           CASE n % 4 WHEN 2 THEN now() + interval '1 day' END, CASE n % 4 WHEN 1 THEN 1 WHEN 3 THEN 3 ELSE 0 END, \
           CASE n % 4 WHEN 3 THEN 2 ELSE 0 END, CASE n % 4 WHEN 3 THEN 2 ELSE 0 END \
         FROM generate_series(1, {ROWS} / 3 * 2) n; \
         INSERT INTO {{m}} (message_id, topic, key, kind, headers, lane, due_at, failures) \
         SELECT gen_random_uuid(), 'payments', (n % 1000)::text, 'paid', '[]', n % 16, 'epoch', (n <= 100)::int \
         FROM generate_series(1, {ROWS} / 3) n"
    ));
    test.run("VACUUM ANALYZE {m}");
}

/// Counted by the server: no scan of the table, and no more pages than the bounds of the statements allow.
#[tokio::test]
async fn a_million_live_messages_are_read_by_their_indexes() {
    let Some((counted, before)) = counted(fill).await else { return };
    call_all(&counted.test.inner.store).await;
    let reads = counted.since(before).await;
    assert_eq!(reads.table_scans, 0);
    assert!(reads.due_entries < ENTRIES_MAX as i32, "{} entries of the index", reads.due_entries);
    let by_id = SEARCHES_BY_ID * ROWS / ROWS_PER_PAGE;
    assert!(reads.live_pages < ENTRIES_MAX as i32 + by_id, "{} pages", reads.live_pages);
}

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text, column_name = "QUERY PLAN")]
    line: String,
}

/// The plan of a text for any values.
fn plan(conn: &mut PgConnection, text: &str) -> Vec<String> {
    let binds = (1..).take_while(|number| text.contains(&format!("${number}"))).map(|_| "NULL").collect::<Vec<_>>();
    let binds = if binds.is_empty() { String::new() } else { format!("({})", binds.join(", ")) };
    // As the store reads; it writes with the defaults.
    let switch = if text.contains("FOR UPDATE") { "on" } else { "off" };
    let settings =
        format!("SET enable_seqscan = {switch}; SET enable_sort = {switch}; SET enable_bitmapscan = {switch}");
    let prepared = conn.batch_execute(&format!(
        "{settings}; SET plan_cache_mode = force_generic_plan; DEALLOCATE ALL; PREPARE p AS {text}"
    ));
    prepared.unwrap_or_else(|error| panic!("{text}: {error}"));
    let lines = diesel::sql_query(format!("EXPLAIN (COSTS OFF) EXECUTE p{binds}")).load::<Line>(conn);
    let lines = lines.unwrap_or_else(|error| panic!("{text}: {error}"));
    lines.into_iter().map(|line| line.line).collect()
}

/// Scans of the live messages without a condition on an index.
fn unbounded_scans(plan: &[String]) -> Vec<&String> {
    let of_table = |line: &str| line.contains("Scan") && line.contains(" on outbox_messages");
    let is_bounded = |at: usize| plan.get(at + 1).is_some_and(|line| line.trim_start().starts_with("Index Cond"));
    let scans = plan.iter().enumerate().filter(|(at, line)| of_table(line) && !is_bounded(*at));
    scans.map(|(_, line)| line).collect()
}

#[tokio::test]
async fn every_plan_for_live_messages_has_a_condition_on_an_index() {
    let log = StatementLog::default();
    let customizer = log.clone();
    let opened = PostgresUnderTest::open(|url| {
        let pool = Pool::builder().max_size(2).min_idle(Some(0)).connection_customizer(Box::new(customizer));
        pool.build(ConnectionManager::<PgConnection>::new(url)).expect("a pool")
    });
    let Some(test) = opened else { return };
    fill(&test);
    call_all(&test.store).await;
    let mut texts: Vec<String> = log.on(&test.names.messages()).into_iter().map(|(text, _)| text).collect();
    texts.sort();
    texts.dedup();
    assert!(texts.len() > 20, "{texts:?}");
    for text in texts {
        let plan = plan(&mut test.control(), &text);
        assert!(plan.iter().any(|line| line.contains(" on outbox_messages")), "{text}: {plan:#?}");
        assert_eq!(unbounded_scans(&plan), Vec::<&String>::new(), "{text}: {plan:#?}");
    }
}
