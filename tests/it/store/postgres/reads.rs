//! What statements read of the tables, by the server's own counters.

use std::sync::Mutex;

use diesel::Connection as _;
use diesel::pg::PgConnection;
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::deadpool::Pool;

use super::connections::{NamedStore, deadpool};
use super::under_test::{PostgresUnderTest, numbers};
use crate::store::eventually;

/// What was read from the tables.
pub(super) struct Reads {
    pub(super) table_scans: i32,
    /// Rows read by scans of whole tables: an empty partition is read that way.
    pub(super) scanned_rows: i32,
    pub(super) due_entries: i32,
    pub(super) dead_entries: i32,
    /// Pages of the live messages and their indexes, in shared buffers or not.
    pub(super) live_pages: i32,
    /// Pages of the history, in all partitions.
    pub(super) history_pages: i32,
}

impl Reads {
    /// Read by all sessions that have ended: a session reports its counts at its end.
    fn read_now(control: &Mutex<PgConnection>, schema: &str) -> Self {
        let number = |column: &str, view: &str, which: &str| {
            let sql = format!("SELECT {column}::int AS number FROM {view} WHERE schemaname = '{schema}' AND {which}");
            numbers(control, &sql)[0]
        };
        let pages = "sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0))";
        Self {
            table_scans: number("sum(seq_scan)", "pg_stat_user_tables", "relname ~ '^outbox_'"),
            scanned_rows: number("sum(seq_tup_read)", "pg_stat_user_tables", "relname ~ '^outbox_'"),
            live_pages: number(pages, "pg_statio_user_tables", "relname = 'outbox_messages'"),
            history_pages: number(pages, "pg_statio_user_tables", "relname ~ '^outbox_history'"),
            due_entries: number("idx_tup_read", "pg_stat_user_indexes", "indexrelname = 'outbox_messages_due'"),
            dead_entries: number("idx_tup_read", "pg_stat_user_indexes", "indexrelname = 'outbox_dead_letters_topic'"),
        }
    }
}

/// A store whose reads are counted from now on.
pub(super) async fn counted(
    fill: impl FnOnce(&PostgresUnderTest<Pool<AsyncPgConnection>>),
) -> Option<(MeasuredStore, Reads)> {
    let test = NamedStore::open(deadpool)?;
    fill(&test.inner);
    // Creating an index scans the table, too.
    let migrated = test.inner.numbers("SELECT pg_backend_pid() AS number")[0];
    test.inner.reconnect();
    eventually("the session of the migration ends", || {
        let sql = format!("SELECT 1 AS number FROM pg_stat_activity WHERE pid = {migrated}");
        test.inner.numbers(&sql).is_empty().then_some(())
    })
    .await;
    let schema = test.inner.names.schema_name().expect("a schema").to_owned();
    test.inner.run(&format!("CREATE TABLE {schema}.marker AS SELECT 1 AS number"));
    wait_until_counted(&test.inner.control, &test.inner.url, &schema).await;
    let before = Reads::read_now(&test.inner.control, &schema);
    Some((MeasuredStore { test, schema }, before))
}

pub(super) struct MeasuredStore {
    pub(super) test: NamedStore<Pool<AsyncPgConnection>>,
    schema: String,
}

impl MeasuredStore {
    pub(super) async fn since(self, before: Reads) -> Reads {
        let Self { test: NamedStore { inner, name }, schema } = self;
        let url = inner.url.clone();
        let control = inner.drop_store();
        eventually("the sessions end", || {
            let sql = format!("SELECT 1 AS number FROM pg_stat_activity WHERE application_name = '{name}'");
            numbers(&control, &sql).is_empty().then_some(())
        })
        .await;
        wait_until_counted(&control, &url, &schema).await;
        let after = Reads::read_now(&control, &schema);
        Reads {
            table_scans: after.table_scans - before.table_scans,
            scanned_rows: after.scanned_rows - before.scanned_rows,
            live_pages: after.live_pages - before.live_pages,
            history_pages: after.history_pages - before.history_pages,
            due_entries: after.due_entries - before.due_entries,
            dead_entries: after.dead_entries - before.dead_entries,
        }
    }
}

/// Waits until what sessions read that have ended is counted.
///
/// Up to PostgreSQL 14 a collector counts, in the order in which sessions end, and publishes at most twice a second. So one more
/// session reads a table of its own: once that is counted, so is what came before.
async fn wait_until_counted(control: &Mutex<PgConnection>, url: &str, schema: &str) {
    let scans = || {
        let sql = format!(
            "SELECT seq_scan::int AS number FROM pg_stat_user_tables WHERE relid = '{schema}.marker'::regclass"
        );
        numbers(control, &sql)
    };
    let before = scans();
    let session = Mutex::new(PgConnection::establish(url).expect("connect"));
    numbers(&session, &format!("SELECT number FROM {schema}.marker"));
    drop(session);
    eventually("the reads are counted", || (scans() > before).then_some(())).await;
}
