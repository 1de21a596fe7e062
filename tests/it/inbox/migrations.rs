//! The inbox's tables, with and without those of an outbox.

use diesel::prelude::*;
use diesel::sqlite::Sqlite;
use diesel::{MysqlConnection, PgConnection};
use diesel_migrations::MigrationHarness;
use diesel_outbox::inbox::{Inbox, Once};
use diesel_outbox::migrations::{MIGRATIONS, Migrations};
use diesel_outbox::{MessageId, TableNames};

use super::inbox;
use super::node::{Database, NEVER, Node, Place, SyncNode};

fn names(schema: Option<&str>) -> TableNames {
    let names = TableNames::default().prefix("billing_").expect("a plain name");
    schema.map_or(names.clone(), |schema| names.schema(schema).expect("a plain name"))
}

/// An application that only consumes has only these tables, under its own names, in a schema of its own.
fn has_tables_of_its_own<N: Node>(tables: &str) {
    let Some(place) = Place::<N>::empty() else { return };
    let mut node = place.node();
    let schema = match N::DATABASE {
        Database::Postgres => {
            node.run("CREATE SCHEMA events").expect("create");
            Some("events".to_owned())
        }
        Database::Mariadb => {
            let name = format!("{}_events", place.url.rsplit('/').next().expect("a database"));
            node.run(&format!("CREATE DATABASE {name}")).expect("create");
            Some(name)
        }
        Database::Sqlite => None,
    };
    let inbox = Inbox::builder("billing").tables(names(schema.as_deref())).build().expect("build");
    let ran = node.migrate(&inbox);
    assert!(ran.len() == 1 && ran[0].starts_with("0000inbox01-"), "{ran:?}");
    assert!(node.migrate(&inbox).is_empty());
    let key = MessageId::new().into();
    assert_eq!(node.once(&inbox, key, NEVER).expect("once"), Once::Done(()));
    assert_eq!(node.once(&inbox, key, NEVER).expect("once"), Once::Duplicate);
    for _ in 0..2 {
        node.prune(&inbox).expect("prune");
    }
    assert_eq!(node.once(&inbox, MessageId::new().into(), NEVER).expect("once"), Once::Done(()));
    let found = node.texts(tables);
    let is_ours = |name: &String| name.starts_with("billing_inbox");
    assert!(!found.is_empty() && found.iter().all(is_ours), "{found:?}");
    if N::DATABASE == Database::Postgres {
        assert!(found.len() > 15, "its partitions are there, too: {found:?}");
    }
}

#[test]
fn a_consumer_has_tables_of_its_own_on_postgres() {
    has_tables_of_its_own::<SyncNode<PgConnection>>(
        "SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace('events')",
    );
}

#[test]
fn a_consumer_has_tables_of_its_own_on_mariadb() {
    has_tables_of_its_own::<SyncNode<MysqlConnection>>(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = CONCAT(DATABASE(), '_events')",
    );
}

#[test]
fn a_consumer_has_tables_of_its_own_on_sqlite() {
    has_tables_of_its_own::<SyncNode<SqliteConnection>>(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('effects', '__diesel_schema_migrations')",
    );
}

#[test]
fn diesels_harness_runs_and_reverts_them_beside_an_outbox() {
    let mut conn = SqliteConnection::establish(":memory:").expect("open");
    conn.run_pending_migrations(MIGRATIONS).expect("the outbox's");
    let of_inbox = || Migrations::inbox(TableNames::default());
    conn.run_pending_migrations(of_inbox()).expect("the inbox's");
    assert!(inbox("billing").migrate(&mut conn).expect("migrate").is_empty(), "all have run");
    let migrations = diesel::migration::MigrationSource::<Sqlite>::migrations(&of_inbox()).expect("migrations");
    for migration in migrations.iter().rev() {
        conn.revert_migration(migration).expect("revert");
    }
    assert!(conn.has_pending_migration(of_inbox()).expect("look"));
    assert!(!conn.has_pending_migration(MIGRATIONS).expect("look"), "the outbox stays");
    assert_eq!(inbox("billing").migrate(&mut conn).expect("migrate"), ["0000inbox01_entries"]);
}
