//! The names of the tables: given once, to the outbox.

use std::time::Duration;

use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel::sql_types::BigInt;
use diesel_migrations::MigrationHarness;
use diesel_outbox::migrations::{MIGRATIONS, Migrations};
use diesel_outbox::relay::StartError;
use diesel_outbox::store::{SchemaProblem, SqliteStore};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{Outbox, TableNames, Topic};

use super::order;

fn outbox_with_prefix() -> Outbox {
    let names = TableNames::default().prefix("shop_").expect("a plain name");
    Outbox::builder().topic(Topic::new("orders")).tables(names).allow_outside_transaction().build().expect("build")
}

fn pool(file: &str) -> Pool<ConnectionManager<SqliteConnection>> {
    Pool::builder().max_size(2).build(ConnectionManager::new(file)).expect("a pool")
}

/// Two outboxes in one database: the relay of one takes its own rows, and leaves those of the other. Its store was told
/// no names, and would look at the default ones.
#[test]
fn a_relay_reads_where_its_outbox_writes_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shop.db").to_str().expect("a plain path").to_owned();
    let mut conn = SqliteConnection::establish(&file).expect("open");
    let shop = outbox_with_prefix();
    conn.run_pending_migrations(MIGRATIONS).expect("migrate");
    conn.run_pending_migrations(Migrations::new(shop.tables().clone())).expect("migrate");
    super::outbox().enqueue(&mut conn, &order(1)).expect("enqueue");
    shop.enqueue(&mut conn, &order(2)).expect("enqueue");

    let broker = MemoryTransport::new();
    let relay = shop.relay().store(SqliteStore::new(pool(&file))).transport(broker.clone());
    let relay = relay.start_blocking().expect("start");
    let sent = broker.wait_for_delivered_blocking(1, Duration::from_secs(10)).expect("sent");
    assert_eq!(sent[0].key.as_deref(), Some("2"));
    assert!(relay.shutdown(Duration::from_secs(10)).expect("no panic").is_clean());
    assert_eq!(broker.delivered().len(), 1, "the other outbox has no relay");
    let mut count = |table: &str| {
        let count = diesel::dsl::sql::<BigInt>(&format!("SELECT count(*) FROM {table}"));
        count.get_result::<i64>(&mut conn).expect("count")
    };
    assert_eq!((count("outbox_messages"), count("shop_messages")), (1, 0));
}

#[tokio::test]
async fn a_relay_without_its_outbox_s_tables_does_not_start_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shop.db").to_str().expect("a plain path").to_owned();
    SqliteConnection::establish(&file).expect("open").run_pending_migrations(MIGRATIONS).expect("migrate");
    let relay = outbox_with_prefix().relay().store(SqliteStore::new(pool(&file))).transport(MemoryTransport::new());
    let error = relay.start().await.expect_err("only the default tables are there");
    let missing = SchemaProblem::Missing { table: "shop_messages".to_owned() };
    assert!(matches!(&error, StartError::Schema(problem) if *problem == missing), "{error}");
}
