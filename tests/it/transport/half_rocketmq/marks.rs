//! The marks by themselves, without a broker.

use std::sync::Arc;
use std::time::Duration;

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel_migrations::MigrationHarness as _;
use diesel_outbox::migrations::MIGRATIONS;
use diesel_outbox::store::{Decision, HalfStore as _, MemoryStore, PostgresStore, SchemaProblem, StoreError};
use diesel_outbox::transport::RocketMqConfig;
use diesel_outbox::{HalfMessagesError, MessageId, Outbox, Topic};
use uuid::Uuid;
use xtask::parts;
use xtask::servers::Part;

/// A database of its own, without tables.
fn empty() -> Option<String> {
    let server = parts::require(Part::Postgres)?;
    let name = format!("marks_{}", Uuid::now_v7().simple());
    PgConnection::establish(&server).unwrap().batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
    Some(format!("{}/{name}", server.rsplit_once('/').unwrap().0))
}

fn pool(url: &str) -> diesel::r2d2::Pool<diesel::r2d2::ConnectionManager<PgConnection>> {
    diesel::r2d2::Pool::builder().max_size(4).build(diesel::r2d2::ConnectionManager::new(url)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_decides_each_message_once() {
    let Some(url) = empty() else { return };
    let mut conn = PgConnection::establish(&url).unwrap();
    conn.run_pending_migrations(MIGRATIONS).unwrap();
    let (store, topic): (_, Arc<str>) = (PostgresStore::new(pool(&url)), "scans".into());
    store.check_marks().await.unwrap();
    let [open, committed, unmarked] = [(); 3].map(|()| MessageId::new());
    let mark = |id: MessageId| format!("INSERT INTO outbox_half_messages (message_id, topic) VALUES ('{id}', 'scans')");
    conn.batch_execute(&mark(committed)).unwrap();
    conn.batch_execute(&format!("BEGIN; {}", mark(open))).unwrap();

    assert_eq!(store.decide(open, &topic).await.unwrap(), Decision::Open);
    assert_eq!(store.decide(committed, &topic).await.unwrap(), Decision::Committed);
    assert_eq!(store.decide(unmarked, &topic).await.unwrap(), Decision::RolledBack);
    assert_eq!(store.decide(unmarked, &topic).await.unwrap(), Decision::RolledBack, "and so it stays");
    let marked = store.marked(&[open, committed, unmarked]).await.unwrap();
    assert_eq!(marked, [committed], "neither what is open nor what is void");
    assert!(PgConnection::establish(&url).unwrap().batch_execute(&mark(unmarked)).is_err(), "it cannot be marked now");

    conn.batch_execute("ROLLBACK").unwrap();
    assert_eq!(store.decide(open, &topic).await.unwrap(), Decision::RolledBack);
    assert_eq!(store.forget(&[committed]).await.unwrap(), 1);
    assert_eq!(store.prune_marks(Duration::from_secs(60), 10).await.unwrap(), 0, "they are young");
    conn.batch_execute("UPDATE outbox_half_messages SET created_at = created_at - interval '61 seconds'").unwrap();
    assert_eq!(store.prune_marks(Duration::from_secs(60), 1).await.unwrap(), 1);
    assert_eq!(store.prune_marks(Duration::from_secs(60), 10).await.unwrap(), 1);
}

#[test]
fn half_messages_of_rocketmq_need_a_store_that_marks() {
    let outbox = Outbox::builder().topic(Topic::new("scans")).build().unwrap();
    // Nobody listens there, which is no error by itself.
    let config = || RocketMqConfig::new("127.0.0.1:1");
    let refused = outbox.half_messages_blocking(MemoryStore::new(), config()).unwrap_err();
    assert!(matches!(refused, HalfMessagesError::NoMarks), "{refused}");
    let Some(url) = empty() else { return };
    let refused = outbox.half_messages_blocking(PostgresStore::new(pool(&url)), config()).unwrap_err();
    let missing = StoreError::Schema(SchemaProblem::Missing { table: "outbox_half_messages".to_owned() });
    assert_eq!(refused.to_string(), missing.to_string());
}
