use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use diesel::connection::SimpleConnection;
use diesel::migration::MigrationSource;
use diesel::pg::{Pg, PgConnection};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Text, Uuid as SqlUuid};
use diesel_outbox::internals::store::{DeadLetterRow, InsertOptions, LiveRow, RowKey, Store};
use diesel_outbox::internals::store_suite::{Marking, OpenTransaction, StoreUnderTest};
use diesel_outbox::migrations::Migrations;
use diesel_outbox::store::{ConnectionPool, PostgresStore};
use diesel_outbox::{Envelope, MessageId, TableNames};
use xtask::servers::ServerKind;
use xtask::test_servers;

use crate::store::columns::{DeadLetterColumns, Instant, KeyRow, LiveColumns};
use crate::store::half_message_marks::{statement_before_mark, was_marked};

/// A store over its own schema in the shared server, which is dropped as a whole.
pub(crate) struct PostgresUnderTest<P: ConnectionPool<Pg>> {
    pub(crate) store: PostgresStore<P>,
    pub(crate) names: TableNames,
    pub(crate) url: String,
    pub(crate) control: Mutex<PgConnection>,
}

impl<P: ConnectionPool<Pg>> PostgresUnderTest<P> {
    pub(crate) fn open(pool: impl FnOnce(&str) -> P) -> Option<Self> {
        let url = test_servers::shared_or_skip(ServerKind::Postgres)?;
        let mut control = PgConnection::establish(&url).expect("connect");
        let names = new_schema(&mut control);
        for migration in MigrationSource::<Pg>::migrations(&Migrations::new(names.clone())).expect("migrations") {
            migration.run(&mut control).expect("migrate");
        }
        let mut store = PostgresStore::new(pool(&url));
        store.use_tables(&names);
        Some(Self { store, names, url, control: Mutex::new(control) })
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, PgConnection> {
        self.control.lock().expect("no test panicked with it")
    }

    /// Replaces `{m}` and `{d}` by the table names.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("{m}", &self.names.messages()).replace("{d}", &self.names.dead_letters())
    }

    pub(crate) fn run(&self, text: &str) {
        self.control().batch_execute(&self.sql(text)).unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    pub(crate) fn numbers(&self, text: &str) -> Vec<i32> {
        numbers(&self.control, &self.sql(text))
    }

    /// Whether a connection of this name waits for a lock.
    pub(crate) fn is_waiting(&self, application_name: &str) -> bool {
        let sql = "SELECT 1 AS number FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = ";
        !self.numbers(&format!("{sql}'{application_name}'")).is_empty()
    }

    /// Ends the other session, and begins another.
    pub(crate) fn reconnect(&self) {
        *self.control() = PgConnection::establish(&self.url).expect("connect");
    }

    /// Drops the store, and keeps the other session.
    pub(crate) fn drop_store(self) -> Mutex<PgConnection> {
        drop(self.store);
        self.control
    }

    pub(crate) fn begin(&self, text: &str) -> OpenPostgres {
        let mut conn = PgConnection::establish(&self.url).expect("connect");
        conn.batch_execute(&format!("BEGIN; {}", self.sql(text))).unwrap_or_else(|error| panic!("{text}: {error}"));
        OpenPostgres(conn)
    }
}

/// The values of a query's column `number`.
pub(crate) fn numbers(control: &Mutex<PgConnection>, sql: &str) -> Vec<i32> {
    let rows: Vec<Number> = sql_query(sql).load(&mut *control.lock().expect("unpoisoned")).expect("read numbers");
    rows.into_iter().map(|row| row.number).collect()
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = Integer)]
    number: i32,
}

fn new_schema(conn: &mut PgConnection) -> TableNames {
    static SCHEMAS: AtomicU32 = AtomicU32::new(0);
    let name = format!("test_{}_{}", std::process::id(), SCHEMAS.fetch_add(1, Ordering::Relaxed));
    conn.batch_execute(&format!("CREATE SCHEMA {name}")).expect("create a schema");
    TableNames::default().schema(name).expect("a plain name")
}

fn insert(conn: &mut PgConnection, names: &TableNames, envelope: &Envelope, options: InsertOptions) -> RowKey {
    let sql = format!(
        "INSERT INTO {} (message_id, topic, key, kind, headers, payload, deliver_at, lane, due_at) VALUES \
         ($1, $2, $3, $4, $5, $6, clock_timestamp() + $7 * interval '1 microsecond', $9, \
          CASE WHEN $9 >= 0 THEN 'epoch' ELSE clock_timestamp() + coalesce($7, $8) * interval '1 microsecond' END) RETURNING id, uuid_send(message_id) AS message_id",
        names.messages()
    );
    let delay = options.deliver_after.map(micros);
    let row: KeyRow = sql_query(sql)
        .bind::<SqlUuid, _>(envelope.message_id.as_uuid())
        .bind::<Text, _>(&*envelope.topic)
        .bind::<Nullable<Text>, _>(&envelope.key)
        .bind::<Text, _>(&envelope.kind)
        .bind::<Text, _>(envelope.headers.to_json())
        .bind::<Nullable<Binary>, _>(&envelope.payload)
        .bind::<Nullable<BigInt>, _>(delay)
        .bind::<BigInt, _>(micros(options.leased_for))
        .bind::<Integer, _>(options.lane.map_or(-1, i32::from))
        .get_result(conn)
        .expect("insert");
    row.key()
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).expect("a time of a test")
}

#[async_trait]
impl<P: ConnectionPool<Pg>> StoreUnderTest for PostgresUnderTest<P> {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn insert(&self, envelope: &Envelope, options: InsertOptions) -> RowKey {
        insert(&mut self.control(), &self.names, envelope, options)
    }

    async fn insert_uncommitted(&self, envelope: &Envelope) -> (RowKey, Box<dyn OpenTransaction>) {
        let mut open = self.begin("SELECT 1");
        let key = insert(&mut open.0, &self.names, envelope, InsertOptions::default());
        (key, Box::new(open))
    }

    async fn lock(&self, key: RowKey) -> Option<Box<dyn OpenTransaction>> {
        Some(Box::new(self.begin(&format!("SELECT 1 FROM {{m}} WHERE id = {} FOR UPDATE NOWAIT", key.id))))
    }

    async fn poison(&self, key: RowKey) {
        self.run(&format!("UPDATE {{m}} SET headers = 'spoiled' WHERE id = {}", key.id));
    }

    async fn live_rows(&self) -> Vec<LiveRow> {
        let sql = self.sql(
            "SELECT id, uuid_send(message_id) AS message_id, topic, (extract(epoch FROM due_at) * 1000000)::bigint AS micros, epoch, attempts, failures, errors::text AS errors FROM {m} ORDER BY id",
        );
        let rows: Vec<LiveColumns> = sql_query(sql).load(&mut *self.control()).expect("read the rows");
        rows.into_iter().map(LiveColumns::row).collect()
    }

    async fn dead_letter_rows(&self) -> Vec<DeadLetterRow> {
        let sql = self.sql(
            "SELECT id, uuid_send(message_id) AS message_id, topic, epoch, attempts, failures, errors::text AS errors, reason FROM {d} ORDER BY id",
        );
        let rows: Vec<DeadLetterColumns> = sql_query(sql).load(&mut *self.control()).expect("read the dead letters");
        rows.into_iter().map(DeadLetterColumns::row).collect()
    }

    async fn now(&self) -> SystemTime {
        let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros";
        sql_query(sql).get_result::<Instant>(&mut *self.control()).expect("read the clock").time()
    }

    async fn mark(&self, message: MessageId, marking: Marking) -> Option<Box<dyn OpenTransaction>> {
        let mut open = self.begin(statement_before_mark(marking));
        let mark =
            format!("INSERT INTO {} (message_id, topic) VALUES ('{message}', 'orders')", self.names.half_messages());
        let written = sql_query(mark).execute(&mut open.0);
        was_marked(&mut open.0, marking, written).then(|| Box::new(open) as _)
    }

    async fn advance(&self, by: Duration) {
        let days = by.as_secs() / 86_400;
        let by = format!("{} * interval '1 microsecond'", micros(by));
        let (lanes, nodes, halves) = (self.names.lanes(), self.names.nodes(), self.names.half_messages());
        self.run(&format!(
            "UPDATE {{m}} SET due_at = due_at - {by} WHERE lane = -1; UPDATE {nodes} SET expires_at = expires_at - {by}; \
             UPDATE {lanes} SET expires_at = expires_at - {by}, quiet_until = quiet_until - {by}; \
             UPDATE {halves} SET created_at = created_at - {by}"
        ));
        let (history, marks, audit) = (self.names.history(), self.names.processed_marks(), self.names.audit());
        self.run(&format!(
            "UPDATE {audit} SET began_at = began_at - {by}; UPDATE {history} SET sent_at = sent_at - {by}, falls_on = falls_on - {days}; \
             UPDATE {marks} SET marked_at = marked_at - {by}; UPDATE {{d}} SET dead_at = dead_at - {by}"
        ));
    }

    async fn make_due_together(&self) {
        self.run("UPDATE {m} SET due_at = now() - interval '1 hour' WHERE lane = -1");
    }
}

/// Another session's transaction; the server rolls it back when it is dropped.
pub(crate) struct OpenPostgres(pub(crate) PgConnection);

#[async_trait]
impl OpenTransaction for OpenPostgres {
    async fn commit(mut self: Box<Self>) {
        self.0.batch_execute("COMMIT").expect("commit");
    }

    async fn roll_back(mut self: Box<Self>) {
        self.0.batch_execute("ROLLBACK").expect("roll back");
    }
}
