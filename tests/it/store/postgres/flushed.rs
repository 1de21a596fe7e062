//! A settle does not wait for the disk, and what is flushed survives a crash of the server.

use diesel::connection::Connection;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Uuid as SqlUuid};
use diesel_migrations::MigrationHarness;
use diesel_outbox::internals::store::{Locking, RowKey, Store};
use diesel_outbox::migrations::MIGRATIONS;
use diesel_outbox::store::PostgresStore;
use diesel_outbox::{Message, Outbox, Topic};
use uuid::Uuid;
use xtask::servers::{Postgres, postgres};
use xtask::test_servers;

#[derive(QueryableByName)]
struct Live {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = SqlUuid)]
    message_id: Uuid,
}

fn live(url: &str) -> Vec<RowKey> {
    let mut conn = PgConnection::establish(url).expect("connect");
    let rows = sql_query("SELECT id, message_id FROM outbox_messages").load::<Live>(&mut conn).expect("live rows");
    rows.into_iter().map(|row| RowKey { id: row.id, message_id: row.message_id.into() }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_survives_a_crash_of_the_server_once_it_is_flushed() {
    // Otherwise the server writes it by itself within tenths of a second.
    let settings = vec![("wal_writer_delay".to_owned(), "10000".to_owned())];
    let options = postgres::Options { settings, ..postgres::Options::default() };
    let Some(mut server) = test_servers::own_or_skip(Postgres::start(&options)) else { return };
    let url = server.url();
    let mut conn = PgConnection::establish(&url).expect("connect");
    conn.run_pending_migrations(MIGRATIONS).expect("migrate");
    let outbox = Outbox::builder().topic(Topic::new("orders")).build().expect("an outbox");
    conn.transaction(|conn| outbox.enqueue(conn, &Message::to("orders"))).expect("commit");
    for (is_flushed, left) in [(false, 1), (true, 0)] {
        let (rows, store) = (live(&url), PostgresStore::connect(url.as_str()).expect("a store"));
        assert_eq!(store.settle(&rows, Locking::Skip).await.expect("settle"), rows);
        if is_flushed {
            store.flush_settled().await.expect("flush");
        }
        server.kill9().expect("kill");
        server.start_again().expect("start");
        assert_eq!(live(&url).len(), left, "flushed: {is_flushed}");
    }
}
