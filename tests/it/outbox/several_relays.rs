//! Relays of several databases in one process: one that fails keeps nothing of the others waiting.

use std::time::{Duration, Instant};

use diesel::connection::{Connection, SimpleConnection as _};
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::result::QueryResult;
use diesel::sqlite::SqliteConnection;
use diesel_migrations::MigrationHarness as _;
use diesel_outbox::admin::{Admin, DeadLetterFilter, RedriveRate};
use diesel_outbox::migrations::Migrations;
use diesel_outbox::relay::{Relay, Relays, StoreStatus};
use diesel_outbox::store::{MysqlStore, PostgresStore, SqliteStore};
use diesel_outbox::transport::{FailureClass, MemoryTransport, ScriptedResponse};
use diesel_outbox::{Message, MessageId, Outbox, OutboxBackend, TableNames, Topic};

use super::databases::{SqliteFile, fresh_mariadb, fresh_postgres, pool};
use super::{order, outbox};

const DEADLINE: Duration = Duration::from_secs(60);

fn enqueue<C>(outbox: &Outbox, conn: &mut C) -> MessageId
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    conn.transaction(|conn| outbox.enqueue(conn, &order(1))).expect("enqueue")
}

async fn sent(broker: &MemoryTransport, messages: &[MessageId]) {
    let end = Instant::now() + DEADLINE;
    loop {
        let delivered: Vec<_> = broker.delivered().iter().map(|envelope| envelope.message_id).collect();
        if messages.iter().all(|message| delivered.contains(message)) {
            return;
        }
        assert!(Instant::now() < end, "{messages:?} of {delivered:?} after {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn is_down(relay: &Relay) {
    let end = Instant::now() + DEADLINE;
    while relay.status().store == StoreStatus::Up {
        assert!(Instant::now() < end, "the database is still up after {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_its_tables_stops_no_other() {
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

/// An outbox with its tables in a schema of its own.
fn shard(conn: &mut PgConnection, schema: &str) -> Outbox {
    conn.batch_execute(&format!("CREATE SCHEMA {schema}")).expect("create");
    let names = TableNames::default().schema(schema).expect("a plain name");
    conn.run_pending_migrations(Migrations::new(names.clone())).expect("migrate");
    let topics = [Topic::new("orders").attempts_max(1), Topic::new("accounts").ordered_by_key()];
    let builder = topics.into_iter().fold(Outbox::builder(), |builder, topic| builder.topic(topic));
    builder.tables(names).build().expect("an outbox")
}

/// One transaction writes to both, and whoever looks after one of them sees nothing of the other.
#[tokio::test(flavor = "multi_thread")]
async fn two_schemas_of_one_postgres_have_a_relay_each() {
    let Some(url) = fresh_postgres() else { return };
    let (mut conn, broker) = (PgConnection::establish(&url).expect("connect"), MemoryTransport::new());
    let (north, south) = (shard(&mut conn, "north"), shard(&mut conn, "south"));
    let store = || PostgresStore::new(pool::<PgConnection>(&url));
    let relays = Relays::builder().transport(broker.clone());
    let relays = relays.relay("north", north.relay().store(store())).relay("south", south.relay().store(store()));
    let relays = relays.start().await.expect("start");
    let account = Message::to("accounts").key("a");
    let both = conn.transaction(|conn| {
        let both = [&north, &south].map(|outbox| [outbox.enqueue(conn, &order(1)), outbox.enqueue(conn, &account)]);
        both.into_iter().flatten().collect::<QueryResult<Vec<MessageId>>>()
    });
    sent(&broker, &both.expect("one transaction")).await;

    broker.respond_next(1, ScriptedResponse::Fail(FailureClass::Record));
    let dead = enqueue(&north, &mut conn);
    let (of_north, of_south) = (north.admin(store()), south.admin(store()));
    let end = Instant::now() + DEADLINE;
    while of_north.dead_letter(dead).await.is_err() {
        assert!(Instant::now() < end, "it is not dead after {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let redrive =
        async |admin: &Admin| admin.redrive_all(&DeadLetterFilter::new(), RedriveRate::default(), |_| {}).await;
    assert_eq!(redrive(&of_south).await.expect("redrive"), 0);
    assert_eq!(redrive(&of_north).await.expect("redrive"), 1);
    sent(&broker, &[dead]).await;

    conn.batch_execute("ALTER TABLE north.outbox_messages RENAME TO elsewhere").expect("rename");
    is_down(relays.get("north").expect("it was given")).await;
    let goes_on = enqueue(&south, &mut conn);
    sent(&broker, &[goes_on]).await;
    conn.batch_execute("ALTER TABLE north.elsewhere RENAME TO outbox_messages").expect("rename");
    let back = enqueue(&north, &mut conn);
    sent(&broker, &[back]).await;
    for (name, report) in relays.shutdown(DEADLINE).await {
        assert!(report.is_clean(), "{name}: {report:?}");
    }
    assert_eq!(broker.delivered().len(), 7, "each once");
}
