//! Where the tables are, whether they belong to the outbox, and whether the database keeps what it commits.

use diesel::connection::SimpleConnection;
use diesel::migration::MigrationSource;
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Pool};
use diesel::sql_types::{BigInt, Text};
use diesel::sqlite::Sqlite;
use diesel::{RunQueryDsl as _, SqliteConnection};
use diesel_outbox::TableNames;
use diesel_outbox::internals::store::{Held, PollSpec, Store, StoreWarning};
use diesel_outbox::migrations::Migrations;
use diesel_outbox::store::{SQLITE_PRAGMAS, SchemaProblem, SqliteStore, StoreError};

use super::{R2d2Pool, open, r2d2};
use crate::store::assert_works_without_pauses;
use crate::store::audit::assert_record_is_part_of_the_write;
use crate::store::spec;

async fn problem(store: &SqliteStore<R2d2Pool>) -> SchemaProblem {
    match store.check().await {
        Err(StoreError::Schema(problem)) => problem,
        other => panic!("not a schema problem: {other:?}"),
    }
}

fn missing(table: &str) -> SchemaProblem {
    SchemaProblem::Missing { table: table.to_owned() }
}

#[tokio::test]
async fn missing_tables_are_named() {
    let under_test = open().await;
    under_test.run("DROP TABLE outbox_dead_letters");
    assert_eq!(problem(&under_test.store).await, missing("outbox_dead_letters"));
    under_test.run("DROP TABLE outbox_messages");
    assert_eq!(problem(&under_test.store).await, missing("outbox_messages"));
}

#[tokio::test]
async fn tables_of_another_version_are_refused() {
    let under_test = open().await;
    for (mark, found) in [("", None), ("/* diesel-outbox schema 99 */", Some(99))] {
        under_test.run(&format!("DROP TABLE outbox_messages; CREATE TABLE outbox_messages ({mark} id integer)"));
        let table = "outbox_messages".to_owned();
        assert_eq!(problem(&under_test.store).await, SchemaProblem::Version { table, found, needed: 1 });
    }
}

/// What an application's pool runs on each connection.
#[derive(Debug, Clone)]
struct ConnectionSetUp(String);

impl CustomizeConnection<SqliteConnection, diesel::r2d2::Error> for ConnectionSetUp {
    fn on_acquire(&self, conn: &mut SqliteConnection) -> Result<(), diesel::r2d2::Error> {
        conn.batch_execute(&self.0).map_err(diesel::r2d2::Error::QueryError)
    }
}

fn pool_with(file: &str, each: &str) -> R2d2Pool {
    let customizer = Box::new(ConnectionSetUp(each.to_owned()));
    Pool::builder().max_size(1).connection_customizer(customizer).build(ConnectionManager::new(file)).expect("a pool")
}

#[tokio::test]
async fn settings_that_lose_commits_are_warned_of() {
    let under_test = open().await;
    for (each, expected) in [
        ("PRAGMA synchronous = OFF", Some("synchronous = OFF")),
        ("PRAGMA synchronous = NORMAL", Some("synchronous = NORMAL with journal_mode = WAL")),
        ("PRAGMA synchronous = FULL", None),
        ("PRAGMA synchronous = EXTRA", None),
        ("PRAGMA journal_mode = DELETE; PRAGMA synchronous = NORMAL", None),
    ] {
        // The journal mode can be changed only without other connections.
        under_test.close_control();
        let store = SqliteStore::new(pool_with(under_test.file(), each));
        let expected: Vec<_> = expected.map(|setting| StoreWarning::NotDurable { setting }).into_iter().collect();
        assert_eq!(store.check().await.expect("check"), expected, "{each}");
    }
}

#[derive(diesel::QueryableByName)]
struct Settings {
    #[diesel(sql_type = BigInt)]
    timeout: i64,
    #[diesel(sql_type = Text)]
    journal_mode: String,
    #[diesel(sql_type = BigInt)]
    synchronous: i64,
}

#[tokio::test]
async fn an_application_s_connection_is_set_up_by_one_constant() {
    let under_test = open().await;
    under_test.close_control();
    let each = format!("PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF; {SQLITE_PRAGMAS}");
    let pool = pool_with(under_test.file(), &each);
    let sql = "SELECT * FROM pragma_busy_timeout, pragma_journal_mode, pragma_synchronous";
    let found: Settings = diesel::sql_query(sql).get_result(&mut *pool.get().expect("a connection")).expect("settings");
    assert_eq!((found.timeout, &*found.journal_mode, found.synchronous), (5_000, "wal", 2));
    assert_eq!(SqliteStore::new(pool).check().await.expect("check"), []);
}

#[tokio::test]
async fn tables_may_be_in_an_attached_database_under_another_prefix() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let attach = format!("ATTACH '{}' AS events", file("events.db"));
    let pool = pool_with(&file("shop.db"), &attach);
    let names = TableNames::default().schema("events").and_then(|names| names.prefix("shop_")).expect("plain names");
    let mut store = SqliteStore::new(r2d2(&file("shop.db")));
    store.use_tables(&names);
    let not_attached = store.check().await.expect_err("this pool attaches nothing");
    assert!(matches!(not_attached, StoreError::Statement(_)), "{not_attached:?}");

    let mut control = pool.get().expect("a connection");
    for migration in MigrationSource::<Sqlite>::migrations(&Migrations::new(names.clone())).expect("migrations") {
        migration.run(&mut *control).expect("migrate");
    }
    control
        .batch_execute(
            "INSERT INTO events.shop_messages (message_id, topic, kind, headers, due_at) \
         VALUES (randomblob(16), 'orders', '', '[]', 0), (randomblob(16), 'orders', '', '[]', 0)",
        )
        .expect("insert");
    drop(control);

    let mut store = SqliteStore::new(pool);
    store.use_tables(&names);
    assert_eq!(store.check().await.expect("check"), []);
    let claim = store.claim(&spec()).await.expect("claim");
    let keys: Vec<_> = claim.rows.iter().map(diesel_outbox::internals::store::Loaded::key).collect();
    let closed = claim.handle.close(&keys[..1], &keys[1..]).await.expect("close");
    assert_eq!((closed.settled.len(), closed.held.len()), (1, 1));
    let held: Held = closed.held[0];
    let failure = diesel_outbox::internals::store::Failed {
        held,
        wait: std::time::Duration::ZERO,
        spends_attempt: false,
        class: "temporary",
        error: "timed out".to_owned(),
    };
    assert_eq!(store.fail(&[failure]).await.expect("fail"), [held.key]);
    assert_eq!(store.poll(&PollSpec::everything(["orders".into()])).await.expect("poll").due.len(), 1);
    let new_dead_letter = diesel_outbox::internals::store::NewDeadLetter {
        held: Held { epoch: held.epoch + 1, ..held },
        reason: "attempts".to_owned(),
    };
    assert_eq!(store.dead_letter(&[new_dead_letter]).await.expect("dead_letter"), [held.key]);
    assert_eq!(store.settle_dead_letters(&[held.key]).await.expect("settle_dead_letters"), 1);
}

#[tokio::test]
async fn relays_work_without_a_table_of_pauses() {
    let under_test = open().await;
    let drop_table = || under_test.run("DROP TABLE outbox_paused_topics");
    assert_works_without_pauses(&under_test.store, drop_table).await;
}

#[tokio::test]
async fn an_operation_that_cannot_be_recorded_changes_nothing() {
    let under_test = open().await;
    let drop_table = || under_test.run("DROP TABLE outbox_audit");
    assert_record_is_part_of_the_write(&under_test, drop_table).await;
}
