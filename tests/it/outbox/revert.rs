//! Which migrations have run and which tables are missing, as a tool finds out, and reverts.

use diesel::sqlite::SqliteConnection;
use diesel_async::{AsyncConnection, AsyncMysqlConnection, AsyncPgConnection};
use diesel_outbox::admin::Admin;
use diesel_outbox::migrations::EmbeddedMigrations;
use diesel_outbox::store::{MysqlStore, PostgresStore, SchemaProblem, SqliteStore};
use diesel_outbox::{AsyncOutboxBackend, Outbox, TableNames};

use super::databases::{AsyncSqlite, empty_mariadb, empty_postgres};

const ALL: [&str; 6] = [
    "0000outbox01_messages",
    "0000outbox02_lanes",
    "0000outbox03_half_messages",
    "0000outbox04_paused_topics",
    "0000outbox05_history",
    "0000outbox06_audit",
];

fn tool(names: TableNames) -> Outbox {
    Outbox::builder().allow_no_topics().tables(names).build().expect("build")
}

/// The migrations whose tables are missing, each once.
async fn missing(admin: &Admin) -> Vec<&'static str> {
    let problems = admin.check_tables().await.expect("check_tables");
    let migration = |problem: &SchemaProblem| match problem {
        SchemaProblem::NotMigrated { migration, .. } => *migration,
        other => panic!("{other}"),
    };
    let mut migrations: Vec<_> = problems.iter().map(migration).collect();
    migrations.dedup();
    migrations
}

async fn reverts<C>(mut conn: C, admin: impl Fn(&Outbox) -> Admin)
where
    C: AsyncConnection + 'static,
    C::Backend: AsyncOutboxBackend<C> + EmbeddedMigrations,
{
    let outbox = tool(TableNames::default());
    let admin = admin(&outbox);
    let nothing: [&str; 0] = [];
    assert_eq!(outbox.ran_migrations_async(&mut conn).await.expect("look"), nothing);
    assert_eq!(outbox.revert_migrations_async(&mut conn, 9).await.expect("revert"), nothing);
    assert_eq!(missing(&admin).await, ALL);

    outbox.migrate_async(&mut conn).await.expect("migrate");
    let other = tool(TableNames::default().prefix("shop_").expect("a plain name"));
    other.migrate_async(&mut conn).await.expect("migrate");
    assert_eq!(outbox.ran_migrations_async(&mut conn).await.expect("look"), ALL);
    assert_eq!(missing(&admin).await, nothing);

    assert_eq!(outbox.revert_migrations_async(&mut conn, 2).await.expect("revert"), [ALL[5], ALL[4]]);
    assert_eq!(outbox.ran_migrations_async(&mut conn).await.expect("look"), ALL[..4]);
    assert_eq!(missing(&admin).await, ALL[4..]);
    assert!(admin.topics().await.expect("topics").is_empty(), "it needs neither history nor audit");
    assert_eq!(outbox.revert_migrations_async(&mut conn, 9).await.expect("revert").len(), 4);
    assert_eq!(missing(&admin).await, ALL);
    assert_eq!(other.ran_migrations_async(&mut conn).await.expect("look").len(), ALL.len(), "the other outbox stays");
    assert_eq!(outbox.migrate_async(&mut conn).await.expect("migrate"), ALL);
}

#[tokio::test]
async fn migrations_are_reverted_from_the_last_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shop.db").to_str().expect("a plain path").to_owned();
    let conn = <SqliteConnection as diesel::Connection>::establish(&file).expect("open");
    reverts(AsyncSqlite::new(conn), |outbox| outbox.admin(SqliteStore::connect(file.as_str()).expect("a path"))).await;
}

#[tokio::test]
async fn migrations_are_reverted_from_the_last_on_postgres() {
    let Some(url) = empty_postgres() else { return };
    let conn = AsyncPgConnection::establish(&url).await.expect("connect");
    reverts(conn, |outbox| outbox.admin(PostgresStore::connect(url.as_str()).expect("a URL"))).await;
}

#[tokio::test]
async fn migrations_are_reverted_from_the_last_on_mariadb() {
    let Some(url) = empty_mariadb() else { return };
    let conn = AsyncMysqlConnection::establish(&url).await.expect("connect");
    reverts(conn, |outbox| outbox.admin(MysqlStore::connect(url.as_str()).expect("a URL"))).await;
}
