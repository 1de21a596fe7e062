use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use diesel::connection::SimpleConnection;
use diesel::migration::MigrationSource;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Text};
use diesel::sqlite::Sqlite;
use diesel_outbox::internals::store::{DeadLetterRow, InsertOptions, LiveRow, RowKey, Store};
use diesel_outbox::internals::store_suite::{Marking, OpenTransaction, StoreUnderTest};
use diesel_outbox::migrations::MIGRATIONS;
use diesel_outbox::store::{ConnectionPool, SqliteStore};
use diesel_outbox::{Envelope, MessageId};
use tempfile::TempDir;

use crate::store::columns::{DeadLetterColumns, Instant, KeyRow, LiveColumns};
use crate::store::half_message_marks::{statement_before_mark, was_marked};

const NOW: &str = "CAST((julianday('now') - 2440587.5) * 86400000 AS integer)";

/// A store over its own file.
pub(super) struct SqliteUnderTest<P: ConnectionPool<Sqlite>> {
    pub(super) store: SqliteStore<P>,
    control: Mutex<SqliteConnection>,
    file: String,
    _folder: TempDir,
}

impl<P: ConnectionPool<Sqlite>> SqliteUnderTest<P> {
    pub(super) async fn open(pool: impl AsyncFnOnce(&str) -> P) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("outbox.db").to_str().expect("a plain path").to_owned();
        let mut control = connect(&file);
        control.batch_execute("PRAGMA journal_mode = WAL").expect("WAL");
        migrate(&mut control);
        let store = SqliteStore::new(pool(&file).await);
        Self { store, control: Mutex::new(control), file, _folder: folder }
    }

    pub(super) fn control(&self) -> MutexGuard<'_, SqliteConnection> {
        self.control.lock().expect("no test panicked with it")
    }

    /// Closes the control connection, so that others have the file alone.
    pub(super) fn close_control(&self) {
        *self.control() = connect(":memory:");
    }

    pub(super) fn file(&self) -> &str {
        &self.file
    }

    pub(super) fn configure(self, configure: impl FnOnce(SqliteStore<P>) -> SqliteStore<P>) -> Self {
        Self { store: configure(self.store), ..self }
    }

    pub(super) fn run(&self, text: &str) {
        self.control().batch_execute(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    /// Another connection, which holds the write lock.
    pub(super) fn begin(&self) -> OpenSqlite {
        let mut conn = connect(&self.file);
        conn.batch_execute("BEGIN IMMEDIATE").expect("begin");
        OpenSqlite(conn)
    }
}

pub(super) fn connect(file: &str) -> SqliteConnection {
    let mut conn = SqliteConnection::establish(file).expect("connect");
    // Not durable: a thousand rows are written one by one, and no test loses power.
    conn.batch_execute("PRAGMA busy_timeout = 5000; PRAGMA synchronous = OFF").expect("pragmas");
    conn
}

pub(super) fn migrate(conn: &mut SqliteConnection) {
    for migration in MigrationSource::<Sqlite>::migrations(&MIGRATIONS).expect("migrations") {
        migration.run(conn).expect("migrate");
    }
}

fn insert(conn: &mut SqliteConnection, envelope: &Envelope, options: InsertOptions) -> RowKey {
    let sql = format!(
        "INSERT INTO outbox_messages (message_id, topic, key, kind, headers, payload, deliver_at, lane, due_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, {NOW} + ?7, ?9, iif(?9 >= 0, 0, {NOW} + coalesce(?7, ?8))) RETURNING id, message_id"
    );
    let row: KeyRow = sql_query(sql)
        .bind::<Binary, _>(envelope.message_id.as_uuid().as_bytes().as_slice())
        .bind::<Text, _>(&*envelope.topic)
        .bind::<Nullable<Text>, _>(&envelope.key)
        .bind::<Text, _>(&envelope.kind)
        .bind::<Text, _>(envelope.headers.to_json())
        .bind::<Nullable<Binary>, _>(&envelope.payload)
        .bind::<Nullable<BigInt>, _>(options.deliver_after.map(millis))
        .bind::<BigInt, _>(millis(options.leased_for))
        .bind::<Integer, _>(options.lane.map_or(-1, i32::from))
        .get_result(conn)
        .expect("insert");
    row.key()
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).expect("a time of a test")
}

#[async_trait]
impl<P: ConnectionPool<Sqlite>> StoreUnderTest for SqliteUnderTest<P> {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn insert(&self, envelope: &Envelope, options: InsertOptions) -> RowKey {
        insert(&mut self.control(), envelope, options)
    }

    async fn insert_uncommitted(&self, envelope: &Envelope) -> (RowKey, Box<dyn OpenTransaction>) {
        let mut open = self.begin();
        let key = insert(&mut open.0, envelope, InsertOptions::default());
        (key, Box::new(open))
    }

    async fn lock(&self, _key: RowKey) -> Option<Box<dyn OpenTransaction>> {
        None
    }

    async fn poison(&self, key: RowKey) {
        self.run(&format!("UPDATE outbox_messages SET headers = 'spoiled' WHERE id = {}", key.id));
    }

    async fn live_rows(&self) -> Vec<LiveRow> {
        let sql = "SELECT *, due_at * 1000 AS micros FROM outbox_messages ORDER BY id";
        let rows: Vec<LiveColumns> = sql_query(sql).load(&mut *self.control()).expect("read the rows");
        rows.into_iter().map(LiveColumns::row).collect()
    }

    async fn dead_letter_rows(&self) -> Vec<DeadLetterRow> {
        let sql = "SELECT * FROM outbox_dead_letters ORDER BY id";
        let rows: Vec<DeadLetterColumns> = sql_query(sql).load(&mut *self.control()).expect("read the dead letters");
        rows.into_iter().map(DeadLetterColumns::row).collect()
    }

    async fn now(&self) -> SystemTime {
        let sql = format!("SELECT {NOW} * 1000 AS micros");
        sql_query(sql).get_result::<Instant>(&mut *self.control()).expect("read the clock").time()
    }

    async fn mark(&self, message: MessageId, marking: Marking) -> Option<Box<dyn OpenTransaction>> {
        let mut open = self.begin();
        open.0.batch_execute(statement_before_mark(marking)).expect("begin");
        let id = message.as_uuid().simple();
        let mark = format!("INSERT INTO outbox_half_messages (message_id, topic) VALUES (X'{id}', 'orders')");
        let written = sql_query(mark).execute(&mut open.0);
        was_marked(&mut open.0, marking, written).then(|| Box::new(open) as _)
    }

    async fn advance(&self, by: Duration) {
        let (days, by) = (by.as_secs() / 86_400, millis(by));
        self.run(&format!(
            "UPDATE outbox_messages SET due_at = due_at - {by} WHERE lane = -1; \
             UPDATE outbox_nodes SET expires_at = expires_at - {by}; \
             UPDATE outbox_lanes SET expires_at = expires_at - {by}, quiet_until = quiet_until - {by}; \
             UPDATE outbox_half_messages SET created_at = created_at - {by}; \
             UPDATE outbox_history SET sent_at = sent_at - {by}, falls_on = falls_on - {days}; \
             UPDATE outbox_processed_marks SET marked_at = marked_at - {by}; \
             UPDATE outbox_dead_letters SET dead_at = dead_at - {by}; \
             UPDATE outbox_audit SET began_at = began_at - {by}"
        ));
    }

    async fn make_due_together(&self) {
        self.run(&format!("UPDATE outbox_messages SET due_at = {NOW} - 3600000 WHERE lane = -1"));
    }
}

/// Another connection's transaction, which is rolled back when it is dropped.
pub(super) struct OpenSqlite(pub(super) SqliteConnection);

#[async_trait]
impl OpenTransaction for OpenSqlite {
    async fn commit(mut self: Box<Self>) {
        self.0.batch_execute("COMMIT").expect("commit");
    }

    async fn roll_back(mut self: Box<Self>) {
        self.0.batch_execute("ROLLBACK").expect("roll back");
    }
}
