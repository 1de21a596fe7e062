//! A process enqueues and no relay sends: it logs one warning.

use std::time::{Duration, Instant};

use diesel::connection::Connection;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::sqlite::SqliteConnection;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_outbox::relay::FlushOutcome;
use diesel_outbox::store::{PostgresStore, SqliteStore};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{Outbox, OutboxBackend};

use super::databases::{Database, SqliteFile, fresh_mariadb, fresh_postgres};
use super::logged::Log;
use super::{order, outbox};

const WARNING: &str = "messages are enqueued, and no relay seems to send them";
const DEADLINE: Duration = Duration::from_secs(60);
/// Longer than a message may stay without a warning.
const LONG: Duration = Duration::from_secs(12);

fn enqueue<C>(outbox: &Outbox, conn: &mut C, key: i64)
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    conn.transaction(|conn| outbox.enqueue(conn, &order(key))).expect("enqueue");
}

/// Enqueues over several connections until the warning comes, and for a while afterwards.
fn is_warned<C>(mut connections: Vec<C>)
where
    C: Database,
    C::Backend: OutboxBackend<C>,
{
    let (log, _logging) = Log::begin();
    let (outbox, began) = (outbox(), Instant::now());
    for key in 0.. {
        for conn in &mut connections {
            enqueue(&outbox, conn, key);
        }
        if log.times(WARNING) > 0 {
            break;
        }
        assert!(began.elapsed() < DEADLINE, "no warning is logged within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(
        began.elapsed() >= LONG - Duration::from_secs(2),
        "the warning came while a relay may still start: {:?}",
        began.elapsed()
    );
    for key in 0..100 {
        connections.iter_mut().for_each(|conn| enqueue(&outbox, conn, key));
    }
    assert_eq!(log.times(WARNING), 1);
}

#[test]
fn a_missing_relay_is_warned_about_once_on_postgres() {
    if let Some(url) = fresh_postgres() {
        is_warned(vec![PgConnection::establish(&url).expect("connect")]);
    }
}

#[test]
fn a_missing_relay_is_warned_about_once_on_mariadb() {
    if let Some(url) = fresh_mariadb() {
        is_warned(vec![
            MysqlConnection::establish(&url).expect("connect"),
            MysqlConnection::establish(&url).expect("connect"),
        ]);
    }
}

#[test]
fn a_missing_relay_is_warned_about_once_on_sqlite() {
    is_warned(vec![SqliteConnection::fresh().expect("a database")]);
}

/// For messages that are sent with their COMMIT.
#[tokio::test]
async fn transactions_of_the_outbox_are_watched_too() {
    let Some(url) = fresh_postgres() else { return };
    let (log, _logging) = Log::begin();
    let (outbox, mut conn) = (outbox(), AsyncPgConnection::establish(&url).await.expect("connect"));
    let began = Instant::now();
    while log.times(WARNING) == 0 {
        assert!(began.elapsed() < DEADLINE, "no warning is logged within {DEADLINE:?}");
        let written = outbox.transaction_async(&mut conn, async |tx| {
            tx.enqueue(&order(1))?;
            diesel::QueryResult::Ok(())
        });
        written.await.expect("a transaction");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(began.elapsed() >= LONG - Duration::from_secs(2), "{:?}", began.elapsed());
}

/// Like a batch job: the transaction sees its own rows, which are not committed.
#[tokio::test]
async fn a_long_transaction_of_ones_own_is_no_sign() {
    let Some(url) = fresh_postgres() else { return };
    let (log, _logging) = Log::begin();
    let (outbox, mut conn) = (outbox(), AsyncPgConnection::establish(&url).await.expect("connect"));
    conn.transaction(async |conn| {
        let began = Instant::now();
        while began.elapsed() < LONG {
            outbox.enqueue_async(conn, &order(1)).await?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        diesel::QueryResult::Ok(())
    })
    .await
    .expect("a transaction");
    assert_eq!(log.times(WARNING), 0);
}

#[tokio::test]
async fn a_relay_elsewhere_is_enough() {
    let Some(url) = fresh_postgres() else { return };
    let (log, _logging) = Log::begin();
    let (here, elsewhere, broker) = (outbox(), outbox(), MemoryTransport::new());
    let store = PostgresStore::connect(&*url).expect("an address");
    let relay = elsewhere.relay().store(store).transport(broker.clone()).start().await.expect("start");
    let (mut conn, began) = (AsyncPgConnection::establish(&url).await.expect("connect"), Instant::now());
    while began.elapsed() < LONG {
        here.enqueue_async(&mut conn, &order(1)).await.expect("enqueue");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(log.times(WARNING), 0);
    assert_eq!(here.flush(DEADLINE).await, FlushOutcome::NoRelay);
    assert!(relay.shutdown(DEADLINE).await.is_clean());
}

/// A relay that was shut down counts as started.
#[tokio::test]
async fn a_relay_that_ran_here_is_enough() {
    let file = SqliteFile::fresh();
    let (log, _logging) = Log::begin();
    let outbox = outbox();
    let store = SqliteStore::connect(file.url()).expect("a file");
    let relay = outbox.relay().store(store).transport(MemoryTransport::new()).start().await.expect("start");
    assert!(relay.shutdown(DEADLINE).await.is_clean());
    let (mut conn, began) = (file.connect(), Instant::now());
    while began.elapsed() < LONG {
        enqueue(&outbox, &mut conn, 1);
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(log.times(WARNING), 0);
}
