//! Relays of several databases in one process: one that fails keeps nothing of the others waiting.

use std::time::{Duration, Instant};

use diesel::connection::{Connection, SimpleConnection as _};
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::sqlite::SqliteConnection;
use diesel_outbox::relay::{Relay, Relays, StoreStatus};
use diesel_outbox::store::{MysqlStore, PostgresStore, SqliteStore};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{MessageId, Outbox, OutboxBackend};

use super::databases::{SqliteFile, fresh_mariadb, fresh_postgres, pool};
use super::{order, outbox};

const DEADLINE: Duration = Duration::from_secs(60);

fn enqueue<C>(outbox: &Outbox, conn: &mut C) -> MessageId
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    outbox.enqueue(conn, &order(1)).expect("enqueue")
}

async fn sent(broker: &MemoryTransport, messages: &[MessageId]) {
    let delivered = broker.wait_for_delivered(messages.len(), DEADLINE).await.expect("in time");
    let delivered: Vec<_> = delivered.iter().map(|envelope| envelope.message_id).collect();
    assert!(messages.iter().all(|message| delivered.contains(message)), "{messages:?} of {delivered:?}");
}

async fn is_down(relay: &Relay) {
    let end = Instant::now() + DEADLINE;
    while relay.status().store == StoreStatus::Up {
        assert!(Instant::now() < end, "the database is still up after {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_whose_tables_are_away_stops_none_of_the_others() {
    let (Some(pg), Some(maria)) = (fresh_postgres(), fresh_mariadb()) else { return };
    let file = SqliteFile::fresh();
    let mut pg_conn = PgConnection::establish(&pg).expect("connect");
    let mut maria_conn = MysqlConnection::establish(&maria).expect("connect");
    let mut sqlite_conn = file.connect();
    let (first, second, third, broker) = (outbox(), outbox(), outbox(), MemoryTransport::new());
    let relays = Relays::builder()
        .transport(broker.clone())
        .relay("pg", first.relay().store(PostgresStore::new(pool::<PgConnection>(&pg))))
        .relay("maria", second.relay().store(MysqlStore::new(pool::<MysqlConnection>(&maria))))
        .relay("sqlite", third.relay().store(SqliteStore::new(pool::<SqliteConnection>(&file.url()))));
    let relays = relays.start().await.expect("start");
    let mut all =
        vec![enqueue(&first, &mut pg_conn), enqueue(&second, &mut maria_conn), enqueue(&third, &mut sqlite_conn)];
    sent(&broker, &all).await;

    let waits = enqueue(&first, &mut pg_conn);
    pg_conn.batch_execute("ALTER TABLE outbox_messages RENAME TO elsewhere").expect("rename");
    is_down(relays.get("pg").expect("it was given")).await;
    all.extend([enqueue(&second, &mut maria_conn), enqueue(&third, &mut sqlite_conn)]);
    sent(&broker, &all).await;
    let up = relays.status().into_iter().filter(|(_, status)| status.store == StoreStatus::Up);
    assert_eq!(up.map(|(name, _)| name.to_string()).collect::<Vec<_>>(), ["maria", "sqlite"]);

    pg_conn.batch_execute("ALTER TABLE elsewhere RENAME TO outbox_messages").expect("rename");
    // It may have gone out before the table did.
    all.push(waits);
    sent(&broker, &all).await;
    for (name, report) in relays.shutdown(DEADLINE).await {
        assert!(report.is_clean(), "{name}: {report:?}");
    }
}
