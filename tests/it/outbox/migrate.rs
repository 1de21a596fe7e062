//! `Outbox::migrate`, and what an enqueue says before it.

use std::thread;

use diesel::connection::SimpleConnection;
use diesel::migration::MigrationSource;
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error};
use diesel_async::{AsyncConnection, AsyncMysqlConnection, AsyncPgConnection};
use diesel_migrations::MigrationHarness;
use diesel_outbox::migrations::{EmbeddedMigrations, MIGRATIONS, MigrateError, Migrations};
use diesel_outbox::store::SQLITE_PRAGMAS;
use diesel_outbox::{AsyncOutboxBackend, EnqueueError, Message, Outbox, OutboxBackend, TableNames, Topic};

use super::databases::{AsyncSqlite, empty_mariadb, empty_postgres, fresh_mariadb, fresh_postgres};
use super::order;

const ALL: [&str; 6] = [
    "0000outbox01_messages",
    "0000outbox02_lanes",
    "0000outbox03_half_messages",
    "0000outbox04_paused_topics",
    "0000outbox05_history",
    "0000outbox06_audit",
];

const NOTHING: [&str; 0] = [];

fn outbox(names: TableNames) -> Outbox {
    let accounts = Topic::new("accounts").ordered_by_key().serialize_by_key();
    Outbox::builder().topic(Topic::new("orders")).topic(accounts).tables(names).build().expect("build")
}

fn account() -> Message {
    Message::to("accounts").key("a")
}

fn shop() -> TableNames {
    TableNames::default().prefix("shop_").expect("a plain name")
}

fn empty_sqlite() -> Option<String> {
    Some(":memory:".to_owned())
}

/// The error is one about this table, and says what to do.
#[track_caller]
fn assert_missing<T: std::fmt::Debug>(enqueued: Result<T, Error>, missing: &str, made_by: &str) {
    let error = enqueued.expect_err("there is no table");
    let Some(EnqueueError::TableMissing { table, migration, .. }) = EnqueueError::of(&error) else { panic!("{error}") };
    assert_eq!((table.as_str(), migration.as_str()), (missing, made_by), "{error}");
    for part in [missing, made_by, "outbox.migrate(&mut conn)", "migrate_async"] {
        assert!(error.to_string().contains(part), "{part} is not in {error}");
    }
}

fn makes_missing_tables<C>(url: Option<String>)
where
    C: Connection + MigrationHarness<C::Backend>,
    C::Backend: OutboxBackend<C> + EmbeddedMigrations,
    Migrations: MigrationSource<C::Backend>,
{
    let Some(url) = url else { return };
    let mut conn = C::establish(&url).expect("connect");
    for names in [TableNames::default(), shop()] {
        let (outbox, messages) = (outbox(names.clone()), names.messages());
        let missing = |enqueued| assert_missing(enqueued, &messages, ALL[0]);
        missing(conn.transaction(|conn| outbox.enqueue(conn, &order(1)).map(drop)));
        missing(conn.transaction(|conn| outbox.enqueue_all(conn, [order(1), order(2)]).map(drop)));
        missing(conn.transaction(|conn| outbox.enqueue_all(conn, [account(), order(2)]).map(drop)));
        missing(outbox.transaction(&mut conn, |tx| tx.enqueue(&order(1)).map(drop)));

        assert_eq!(outbox.migrate(&mut conn).expect("migrate").len(), ALL.len());
        assert_eq!(outbox.migrate(&mut conn).expect("migrate"), NOTHING, "all have run");
        assert!(!conn.has_pending_migration(Migrations::new(names)).expect("look"), "Diesel's own tools know");
        conn.transaction(|conn| outbox.enqueue_all(conn, [account(), order(2)])).expect("the tables are there");
    }
}

async fn makes_missing_tables_async<C>(mut conn: C)
where
    C: AsyncConnection + 'static,
    C::Backend: AsyncOutboxBackend<C> + EmbeddedMigrations,
{
    let outbox = outbox(TableNames::default());
    let one = conn.transaction(async |conn| outbox.enqueue_async(conn, &order(1)).await).await;
    assert_missing(one, "outbox_messages", ALL[0]);
    let many = conn.transaction(async |conn| outbox.enqueue_all_async(conn, [account(), order(2)]).await).await;
    assert_missing(many, "outbox_messages", ALL[0]);
    assert_eq!(outbox.migrate_async(&mut conn).await.expect("migrate"), ALL);
    assert_eq!(outbox.migrate_async(&mut conn).await.expect("migrate"), NOTHING);
    let many = conn.transaction(async |conn| outbox.enqueue_all_async(conn, [account(), order(2)]).await).await;
    many.expect("the tables are there");
}

#[test]
fn makes_missing_tables_on_sqlite() {
    makes_missing_tables::<SqliteConnection>(empty_sqlite());
}

#[test]
fn makes_missing_tables_on_postgres() {
    makes_missing_tables::<PgConnection>(empty_postgres());
}

#[test]
fn makes_missing_tables_on_mariadb() {
    makes_missing_tables::<MysqlConnection>(empty_mariadb());
}

#[tokio::test(flavor = "current_thread")]
async fn makes_missing_tables_on_sqlite_async() {
    makes_missing_tables_async(AsyncSqlite::establish(":memory:").await.expect("open")).await;
}

#[tokio::test(flavor = "current_thread")]
async fn makes_missing_tables_on_postgres_async() {
    let Some(url) = empty_postgres() else { return };
    makes_missing_tables_async(AsyncPgConnection::establish(&url).await.expect("connect")).await;
}

#[tokio::test(flavor = "current_thread")]
async fn makes_missing_tables_on_mariadb_async() {
    let Some(url) = empty_mariadb() else { return };
    makes_missing_tables_async(AsyncMysqlConnection::establish(&url).await.expect("connect")).await;
}

/// The messages and their COMMIT travel together, and nobody waits for the first's answer.
#[tokio::test]
async fn a_missing_table_is_named_in_a_pipeline_on_postgres_async() {
    let Some(url) = empty_postgres() else { return };
    let mut conn = AsyncPgConnection::establish(&url).await.expect("connect");
    let outbox = outbox(TableNames::default());
    let own = outbox.transaction_async(&mut conn, async |tx| tx.enqueue(&order(1))).await;
    assert_missing(own, "outbox_messages", ALL[0]);
    let own = outbox.transaction_async(&mut conn, async |tx| tx.enqueue_all([account(), order(2)])).await;
    assert_missing(own, "outbox_messages", ALL[0]);
}

#[test]
fn diesels_harness_and_migrate_agree_on_sqlite() {
    let mut conn = SqliteConnection::establish(":memory:").expect("open");
    conn.run_pending_migrations(MIGRATIONS).expect("migrate");
    assert_eq!(outbox(TableNames::default()).migrate(&mut conn).expect("migrate"), NOTHING);
}

fn at_once<C>(url: Option<String>, set_up: &str)
where
    C: Connection,
    C::Backend: OutboxBackend<C> + EmbeddedMigrations,
{
    let Some(url) = url else { return };
    let outbox = outbox(TableNames::default());
    let ran = thread::scope(|scope| {
        let migrating = [(); 4].map(|()| {
            scope.spawn(|| {
                let mut conn = C::establish(&url).expect("connect");
                conn.batch_execute(set_up).expect("set up");
                outbox.migrate(&mut conn).expect("migrate")
            })
        });
        migrating.map(|one| one.join().expect("no panic").len())
    });
    assert_eq!(ran.iter().sum::<usize>(), ALL.len(), "each ran once: {ran:?}");
}

#[test]
fn several_processes_migrate_at_once_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shop.db").to_str().expect("a plain path").to_owned();
    // Several that set up a new file at once fail, as the text of the pragmas says.
    let mut first = SqliteConnection::establish(&file).expect("open");
    first.batch_execute(SQLITE_PRAGMAS).expect("set up");
    at_once::<SqliteConnection>(Some(file), SQLITE_PRAGMAS);
}

/// Where transactions keep the snapshot from before the lock, too.
#[test]
fn several_processes_migrate_at_once_on_postgres() {
    at_once::<PgConnection>(empty_postgres(), "SET default_transaction_isolation = 'serializable'");
}

#[test]
fn several_processes_migrate_at_once_on_mariadb() {
    at_once::<MysqlConnection>(empty_mariadb(), "SELECT 1");
}

#[test]
fn a_transaction_around_it_is_not_committed() {
    let mut conn = SqliteConnection::establish(":memory:").expect("open");
    let outbox = outbox(TableNames::default());
    conn.begin_test_transaction().expect("begin");
    assert_eq!(outbox.migrate(&mut conn).expect("in a test transaction"), ALL);
    let Some(url) = empty_mariadb() else { return };
    let mut conn = MysqlConnection::establish(&url).expect("connect");
    conn.begin_test_transaction().expect("begin");
    let refused = outbox.migrate(&mut conn).expect_err("it would be committed");
    assert!(matches!(refused, MigrateError::InTransaction), "{refused}");
}

#[test]
fn a_migration_that_fails_is_named_and_leaves_nothing() {
    let mut conn = SqliteConnection::establish(":memory:").expect("open");
    conn.batch_execute("CREATE TABLE outbox_lanes (id integer)").expect("somebody else's");
    let outbox = outbox(TableNames::default());
    let error = outbox.migrate(&mut conn).expect_err("the name is taken");
    let MigrateError::Failed { migration, .. } = &error else { panic!("{error}") };
    assert_eq!(migration, ALL[1]);
    assert!(error.to_string().contains("outbox_lanes already exists"), "{error}");
    conn.batch_execute("DROP TABLE outbox_lanes").expect("drop");
    assert_eq!(outbox.migrate(&mut conn).expect("migrate"), ALL, "the first was rolled back");
}

#[test]
fn a_table_elsewhere_is_named_with_its_schema() {
    let names = TableNames::default().schema("events").expect("a plain name");
    let outbox = outbox(names);
    let mut sqlite = SqliteConnection::establish(":memory:").expect("open");
    let missing = sqlite.transaction(|conn| outbox.enqueue(conn, &order(1)));
    assert_missing(missing, "events.outbox_messages", ALL[0]);
    if let Some(url) = fresh_postgres() {
        let mut conn = PgConnection::establish(&url).expect("connect");
        let missing = conn.transaction(|conn| outbox.enqueue(conn, &order(1)));
        assert_missing(missing, "events.outbox_messages", ALL[0]);
    }
    if let Some(url) = fresh_mariadb() {
        let mut conn = MysqlConnection::establish(&url).expect("connect");
        let missing = conn.transaction(|conn| outbox.enqueue(conn, &order(1)));
        assert_missing(missing, "events.outbox_messages", ALL[0]);
    }
}

#[test]
fn in_another_language_on_mariadb() {
    let Some(url) = empty_mariadb() else { return };
    let mut conn = MysqlConnection::establish(&url).expect("connect");
    conn.batch_execute("SET lc_messages = 'de_DE'").expect("German");
    let missing = conn.transaction(|conn| outbox(TableNames::default()).enqueue(conn, &order(1)));
    assert_missing(missing, "outbox_messages", ALL[0]);
}

#[test]
fn a_second_table_is_missing_on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    let mut conn = MysqlConnection::establish(&url).expect("connect");
    conn.batch_execute("DROP TABLE outbox_key_locks").expect("drop");
    let outbox = outbox(TableNames::default());
    let missing = conn.transaction(|conn| outbox.enqueue(conn, &account()));
    assert_missing(missing, "outbox_key_locks", ALL[1]);
    conn.transaction(|conn| outbox.enqueue(conn, &order(1))).expect("others need none");
}

/// Errors that name the table, or point at it, and are about something else.
fn others_pass_through<C>(conn: &mut C, drop_column: &str)
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    conn.batch_execute(drop_column).expect("drop");
    let outbox = outbox(TableNames::default());
    let error = conn.transaction(|conn| outbox.enqueue(conn, &order(1))).expect_err("a column is missing");
    assert!(matches!(error, Error::DatabaseError(DatabaseErrorKind::Unknown, _)), "{error}");
}

#[test]
fn other_errors_pass_through_on_sqlite() {
    let mut conn = SqliteConnection::establish(":memory:").expect("open");
    conn.run_pending_migrations(MIGRATIONS).expect("migrate");
    others_pass_through(&mut conn, "ALTER TABLE outbox_messages DROP COLUMN payload");
}

#[test]
fn other_errors_pass_through_on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    let mut conn = MysqlConnection::establish(&url).expect("connect");
    others_pass_through(&mut conn, "ALTER TABLE outbox_messages DROP COLUMN payload");
}

#[test]
fn other_errors_pass_through_on_postgres() {
    let Some(url) = fresh_postgres() else { return };
    let connect = || PgConnection::establish(&url).expect("connect");
    let (mut conn, mut holder) = (connect(), connect());
    holder.batch_execute("BEGIN; LOCK TABLE outbox_messages").expect("lock");
    conn.batch_execute("SET lock_timeout = '50ms'").expect("set up");
    let outbox = outbox(TableNames::default());
    let error = conn.transaction(|conn| outbox.enqueue(conn, &order(1))).expect_err("somebody has the table");
    assert!(matches!(error, Error::DatabaseError(DatabaseErrorKind::Unknown, _)), "{error}");
    holder.batch_execute("ROLLBACK").expect("unlock");
    others_pass_through(&mut conn, "ALTER TABLE outbox_messages DROP COLUMN payload");
}
