//! The tables as migrations, beside an application's own, on each database.

use std::fs;

use diesel::connection::SimpleConnection;
use diesel::migration::{MigrationSource, MigrationVersion};
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::Text;
use diesel::sqlite::SqliteConnection;
use diesel_migrations::{FileBasedMigrations, MigrationHarness};
use diesel_outbox::migrations::{MIGRATIONS, Migrations};
use diesel_outbox::{MessageId, TableNames};
use tempfile::TempDir;
use xtask::servers::ServerKind;
use xtask::test_servers;

#[test]
fn postgres_goes_up_and_down_beside_an_application() {
    let Some(url) = test_servers::shared_or_skip(ServerKind::Postgres) else { return };
    let (mut conn, _) = fresh::<PgConnection>(&url);
    let everything = "SELECT relname::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                      WHERE n.nspname IN ('public', 'events') ORDER BY 1";
    up_and_down(&mut conn, everything);
    conn.batch_execute("CREATE SCHEMA events").expect("create a schema");
    several_outboxes(&mut conn, everything, "events");
}

#[test]
fn mariadb_goes_up_and_down_beside_an_application() {
    let Some(url) = test_servers::shared_or_skip(ServerKind::Mariadb) else { return };
    let (mut conn, name) = fresh::<MysqlConnection>(&url);
    let everything = "SELECT CONCAT(table_name, '.', index_name) AS name FROM information_schema.statistics \
                      WHERE table_schema IN (DATABASE(), CONCAT(DATABASE(), '_events')) ORDER BY 1";
    up_and_down(&mut conn, everything);
    let events = format!("{name}_events");
    conn.batch_execute(&format!("CREATE DATABASE {events}")).expect("create a database");
    several_outboxes(&mut conn, everything, &events);
}

#[test]
fn sqlite_goes_up_and_down_beside_an_application() {
    let mut conn = SqliteConnection::establish(":memory:").expect("open");
    up_and_down(&mut conn, "SELECT name FROM sqlite_master ORDER BY 1");
    conn.batch_execute("ATTACH ':memory:' AS events").expect("attach a database");
    let everything = "SELECT name FROM sqlite_master UNION ALL SELECT name FROM events.sqlite_master ORDER BY 1";
    several_outboxes(&mut conn, everything, "events");
}

/// A connection to a database of its own in a server, and its name.
fn fresh<C: Connection>(url: &str) -> (C, String) {
    let id = MessageId::new().as_uuid().simple().to_string();
    let name = format!("migrations_{}", &id[16..]);
    C::establish(url).expect("connect").batch_execute(&format!("CREATE DATABASE {name}")).expect("create");
    let (server, _) = url.rsplit_once('/').expect("a URL with a database");
    (C::establish(&format!("{server}/{name}")).expect("connect"), name)
}

#[derive(QueryableByName)]
struct Name {
    #[diesel(sql_type = Text)]
    name: String,
}

/// A connection that tells what is in its database.
trait ListNames: Connection {
    fn names(&mut self, everything: &str) -> Vec<String>;
}

macro_rules! impl_list_names {
    ($($connection:ty),+) => {
        $(impl ListNames for $connection {
            fn names(&mut self, everything: &str) -> Vec<String> {
                let found: Vec<Name> = sql_query(everything).load(self).expect("query");
                // Not Diesel's own table, nor what databases keep for themselves.
                let is_ours = |name: &String| !name.starts_with("__diesel") && !name.starts_with("sqlite_");
                found.into_iter().map(|row| row.name).filter(is_ours).collect()
            }
        })+
    };
}

impl_list_names!(PgConnection, MysqlConnection, SqliteConnection);

/// An application's own migration.
fn application() -> (TempDir, FileBasedMigrations) {
    let folder = tempfile::tempdir().expect("a folder");
    let migration = folder.path().join("2024-01-01-000000_orders");
    fs::create_dir(&migration).expect("a folder");
    fs::write(migration.join("up.sql"), "CREATE TABLE orders (id integer NOT NULL PRIMARY KEY)").expect("write");
    fs::write(migration.join("down.sql"), "DROP TABLE orders").expect("write");
    let source = FileBasedMigrations::from_path(folder.path()).expect("migrations");
    (folder, source)
}

fn up_and_down<C>(conn: &mut C, everything: &str)
where
    C: ListNames + MigrationHarness<C::Backend>,
    Migrations: MigrationSource<C::Backend>,
    FileBasedMigrations: MigrationSource<C::Backend>,
{
    let (_folder, application) = application();
    let nothing = conn.names(everything);
    conn.run_pending_migrations(MIGRATIONS).expect("up");
    let outbox = conn.names(everything);
    assert_ne!(outbox, nothing);

    conn.run_pending_migrations(application.clone()).expect("the application's up");
    conn.revert_last_migration(application.clone()).expect("the application's down meets its own last migration");
    assert_eq!(conn.names(everything), outbox);
    assert!(!conn.has_pending_migration(MIGRATIONS).expect("query"));

    conn.run_pending_migrations(application.clone()).expect("the application's up");
    for migration in MigrationSource::<C::Backend>::migrations(&MIGRATIONS).expect("migrations").iter().rev() {
        conn.revert_migration(migration).expect("down");
    }
    let applied = conn.applied_migrations().expect("query");
    assert_eq!(applied, [MigrationVersion::from("20240101000000")], "the application's stays");
    conn.revert_last_migration(application).expect("the application's down");
    assert_eq!(conn.names(everything), nothing, "down drops what up made");

    conn.run_pending_migrations(MIGRATIONS).expect("up again");
    assert_eq!(conn.names(everything), outbox);
}

/// Under other names the migrations are others: all outboxes of a database stand side by side.
fn several_outboxes<C>(conn: &mut C, everything: &str, schema: &str)
where
    C: ListNames + MigrationHarness<C::Backend>,
    Migrations: MigrationSource<C::Backend>,
{
    let one = conn.names(everything);
    let prefixed = TableNames::default().prefix("shop_outbox_").expect("a plain name");
    let elsewhere = prefixed.clone().schema(schema).expect("a plain name");
    for names in [prefixed, elsewhere] {
        let source = Migrations::new(names);
        assert!(conn.has_pending_migration(source.clone()).expect("query"));
        conn.run_pending_migrations(source.clone()).expect("up");
        assert!(!conn.has_pending_migration(source).expect("query"));
    }
    assert_eq!(conn.names(everything).len(), one.len() * 3);
}
