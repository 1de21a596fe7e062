use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use diesel::connection::SimpleConnection;
use diesel::migration::MigrationSource;
use diesel::mysql::{Mysql, MysqlConnection};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Text};
use diesel_outbox::internals::store::{DeadLetterRow, InsertOptions, LiveRow, RowKey, Store};
use diesel_outbox::internals::store_suite::{Marking, OpenTransaction, StoreUnderTest};
use diesel_outbox::migrations::Migrations;
use diesel_outbox::store::{ConnectionPool, MysqlStore};
use diesel_outbox::{Envelope, MessageId, TableNames};
use xtask::servers::ServerKind;
use xtask::test_servers;

use crate::store::columns::{DeadLetterColumns, Instant, KeyRow, LiveColumns};
use crate::store::eventually;
use crate::store::half_message_marks::{statement_before_mark, was_marked};

/// A store over its own database in the shared server, which is dropped as a whole.
pub(crate) struct MysqlUnderTest<P: ConnectionPool<Mysql>> {
    pub(crate) store: MysqlStore<P>,
    pub(crate) names: TableNames,
    pub(crate) url: String,
    control: Mutex<MysqlConnection>,
}

impl<P: ConnectionPool<Mysql>> MysqlUnderTest<P> {
    pub(crate) fn open(pool: impl FnOnce(&str) -> P) -> Option<Self> {
        let url = test_servers::shared_or_skip(ServerKind::Mariadb)?;
        let mut control = MysqlConnection::establish(&url).expect("connect");
        let names = new_database(&mut control);
        for migration in MigrationSource::<Mysql>::migrations(&Migrations::new(names.clone())).expect("migrations") {
            migration.run(&mut control).expect("migrate");
        }
        let (server, _) = url.rsplit_once('/').expect("a URL with a database");
        let own = format!("{server}/{}", names.schema_name().expect("a database"));
        let mut store = MysqlStore::new(pool(&own));
        store.use_tables(&names);
        Some(Self { store, names, url, control: Mutex::new(control) })
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, MysqlConnection> {
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

    /// The server's threads for the store's connections; the other session is in another database.
    pub(crate) fn threads(&self) -> Vec<i32> {
        let own = self.names.schema_name().expect("a database");
        self.numbers(&format!(
            "SELECT CAST(id AS int) AS number FROM information_schema.processlist WHERE db = '{own}'"
        ))
    }

    pub(crate) async fn until_closed(&self, threads: &[i32]) {
        eventually("the connections are closed", || {
            let now = self.threads();
            (!threads.iter().any(|thread| now.contains(thread))).then_some(())
        })
        .await;
    }

    pub(crate) fn begin(&self, text: &str) -> OpenMysql {
        let mut conn = MysqlConnection::establish(&self.url).expect("connect");
        conn.batch_execute("START TRANSACTION").expect("begin");
        conn.batch_execute(&self.sql(text)).unwrap_or_else(|error| panic!("{text}: {error}"));
        OpenMysql(conn)
    }
}

/// The values of a query's column `number`.
fn numbers(control: &Mutex<MysqlConnection>, sql: &str) -> Vec<i32> {
    let rows: Vec<Number> = sql_query(sql).load(&mut *control.lock().expect("unpoisoned")).expect("read numbers");
    rows.into_iter().map(|row| row.number).collect()
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = Integer)]
    number: i32,
}

fn new_database(conn: &mut MysqlConnection) -> TableNames {
    static DATABASES: AtomicU32 = AtomicU32::new(0);
    let name = format!("test_{}_{}", std::process::id(), DATABASES.fetch_add(1, Ordering::Relaxed));
    conn.batch_execute(&format!("CREATE DATABASE {name}")).expect("create a database");
    TableNames::default().schema(name).expect("a plain name")
}

fn insert(conn: &mut MysqlConnection, names: &TableNames, envelope: &Envelope, options: InsertOptions) -> RowKey {
    let sql = format!(
        "INSERT INTO {} (message_id, topic, `key`, kind, headers, payload, deliver_at, lane, due_at) VALUES \
         (?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, ?, IF(lane >= 0, '1970-01-01', UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND))",
        names.messages()
    );
    let delay = options.deliver_after.map(micros);
    sql_query(sql)
        .bind::<Binary, _>(envelope.message_id.as_uuid().as_bytes().as_slice())
        .bind::<Text, _>(&*envelope.topic)
        .bind::<Nullable<Text>, _>(&envelope.key)
        .bind::<Text, _>(&envelope.kind)
        .bind::<Text, _>(envelope.headers.to_json())
        .bind::<Nullable<Binary>, _>(&envelope.payload)
        .bind::<Nullable<BigInt>, _>(delay)
        .bind::<Integer, _>(options.lane.map_or(-1, i32::from))
        .bind::<BigInt, _>(delay.unwrap_or(micros(options.leased_for)))
        .execute(conn)
        .expect("insert");
    let sql = format!("SELECT CAST(id AS SIGNED) AS id, message_id FROM {} WHERE message_id = ?", names.messages());
    let row: KeyRow = sql_query(sql)
        .bind::<Binary, _>(envelope.message_id.as_uuid().as_bytes().as_slice())
        .get_result(conn)
        .expect("the row");
    row.key()
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).expect("a time of a test")
}

#[async_trait]
impl<P: ConnectionPool<Mysql>> StoreUnderTest for MysqlUnderTest<P> {
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
            "SELECT CAST(id AS SIGNED) AS id, message_id, topic, \
             TIMESTAMPDIFF(MICROSECOND, '1970-01-01', due_at) AS micros, epoch, attempts, failures, errors FROM {m} ORDER BY id",
        );
        let rows: Vec<LiveColumns> = sql_query(sql).load(&mut *self.control()).expect("read the rows");
        rows.into_iter().map(LiveColumns::row).collect()
    }

    async fn dead_letter_rows(&self) -> Vec<DeadLetterRow> {
        let sql = self.sql(
            "SELECT CAST(id AS SIGNED) AS id, message_id, topic, epoch, attempts, failures, errors, reason FROM {d} ORDER BY id",
        );
        let rows: Vec<DeadLetterColumns> = sql_query(sql).load(&mut *self.control()).expect("read the dead letters");
        rows.into_iter().map(DeadLetterColumns::row).collect()
    }

    async fn now(&self) -> SystemTime {
        let sql = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS micros";
        sql_query(sql).get_result::<Instant>(&mut *self.control()).expect("read the clock").time()
    }

    async fn mark(&self, message: MessageId, marking: Marking) -> Option<Box<dyn OpenTransaction>> {
        let mut open = self.begin(statement_before_mark(marking));
        let id = message.as_uuid().simple();
        let mark = format!("INSERT INTO {} (message_id, topic) VALUES (X'{id}', 'orders')", self.names.half_messages());
        let written = sql_query(mark).execute(&mut open.0);
        was_marked(&mut open.0, marking, written).then(|| Box::new(open) as _)
    }

    async fn advance(&self, by: Duration) {
        let days = by.as_secs() / 86_400;
        let by = format!("INTERVAL {} MICROSECOND", micros(by));
        let (lanes, nodes) = (self.names.lanes(), self.names.nodes());
        self.run(&format!("UPDATE {{m}} SET due_at = due_at - {by} WHERE lane = -1"));
        self.run(&format!("UPDATE {nodes} SET expires_at = expires_at - {by}"));
        self.run(&format!("UPDATE {lanes} SET expires_at = expires_at - {by}, quiet_until = quiet_until - {by}"));
        self.run(&format!("UPDATE {} SET created_at = created_at - {by}", self.names.half_messages()));
        let (history, marks) = (self.names.history(), self.names.processed_marks());
        self.run(&format!("UPDATE {history} SET sent_at = sent_at - {by}, falls_on = falls_on - INTERVAL {days} DAY"));
        self.run(&format!("UPDATE {marks} SET marked_at = marked_at - {by}"));
        self.run(&format!("UPDATE {{d}} SET dead_at = dead_at - {by}"));
        self.run(&format!("UPDATE {} SET began_at = began_at - {by}", self.names.audit()));
    }

    async fn make_due_together(&self) {
        self.run("UPDATE {m} SET due_at = UTC_TIMESTAMP(6) - INTERVAL 1 HOUR WHERE lane = -1");
    }
}

/// Another session's transaction; the server rolls it back when it is dropped.
pub(crate) struct OpenMysql(pub(crate) MysqlConnection);

#[async_trait]
impl OpenTransaction for OpenMysql {
    async fn commit(mut self: Box<Self>) {
        self.0.batch_execute("COMMIT").expect("commit");
    }

    async fn roll_back(mut self: Box<Self>) {
        self.0.batch_execute("ROLLBACK").expect("roll back");
    }
}
