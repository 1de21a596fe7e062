//! T1 to T4 with a relay that runs: a COMMIT answers "ok", the row is gone, and nothing is sent.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::Error;
use diesel::sql_types::Integer;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncConnection, AsyncMysqlConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::internals::store::Store;
use diesel_outbox::relay::Relay;
use diesel_outbox::store::{MysqlStore, PostgresStore};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{MessageId, Outbox, Topic};

use super::databases::{fresh_mariadb, fresh_postgres};
use super::order;
use super::transaction_lost::Deadlock;

/// A running relay, and the broker behind it.
struct Shop {
    url: String,
    outbox: Outbox,
    broker: MemoryTransport,
    relay: Relay,
}

impl Shop {
    async fn on_postgres() -> Option<Self> {
        let url = fresh_postgres()?;
        let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(&url);
        let store = PostgresStore::new(Pool::builder(manager).build().expect("pool"));
        Some(Self::open(url, store).await)
    }

    async fn on_mariadb() -> Option<Self> {
        let url = fresh_mariadb()?;
        let manager = AsyncDieselConnectionManager::<AsyncMysqlConnection>::new(&url);
        let store = MysqlStore::new(Pool::builder(manager).build().expect("pool"));
        Some(Self::open(url, store).await)
    }

    async fn open(url: String, store: impl Store) -> Self {
        // A sweep within the test would be a second way for a message to be sent.
        let topic = Topic::new("orders").staleness(Duration::from_secs(600));
        let outbox = Outbox::builder().topic(topic).allow_outside_transaction().build().expect("build");
        let broker = MemoryTransport::new();
        let relay = outbox.relay().store(store).transport(broker.clone()).start().await.expect("start");
        Self { url, outbox, broker, relay }
    }

    /// The relay has looked at everything handed over before `last`, and sent nothing but that.
    async fn sent_only(self, last: MessageId) {
        let sent = self.broker.wait_for_delivered(1, Duration::from_secs(30)).await.expect("the last is sent");
        assert_eq!(sent.iter().map(|envelope| envelope.message_id).collect::<Vec<_>>(), [last]);
        assert!(self.relay.shutdown(Duration::from_secs(30)).await.is_clean());
        assert_eq!(self.broker.sends(), 1, "nothing is sent during shutdown");
    }

    /// `trace` begins in a transaction with one message, and its COMMIT answers "ok".
    async fn survives(self, trace: impl AsyncFnOnce(&mut AsyncPgConnection)) {
        let mut conn = AsyncPgConnection::establish(&self.url).await.expect("connect");
        conn.batch_execute("INSERT INTO shop_orders VALUES (1)").await.expect("the key that will be taken");
        // By hand, because `transaction` takes no closure whose future is not known to be `Send`.
        <AsyncPgConnection as AsyncConnection>::TransactionManager::begin(&mut conn).await;
        self.outbox.enqueue_async(&mut conn, &order(1)).await.expect("enqueue");
        trace(&mut conn).await;
        <AsyncPgConnection as AsyncConnection>::TransactionManager::commit(&mut conn).await;
        let last =
            conn.transaction(async |conn| self.outbox.enqueue_async(conn, &order(2)).await).await.expect("commit");
        self.sent_only(last).await;
    }
}

/// A transaction's two ends as a transaction manager makes them.
trait Ends {
    async fn begin(conn: &mut AsyncPgConnection);
    async fn commit(conn: &mut AsyncPgConnection);
}

impl<M: diesel_async::TransactionManager<AsyncPgConnection>> Ends for M {
    async fn begin(conn: &mut AsyncPgConnection) {
        Self::begin_transaction(conn).await.expect("BEGIN");
    }

    async fn commit(conn: &mut AsyncPgConnection) {
        Self::commit_transaction(conn).await.expect("COMMIT answers ok");
    }
}

#[derive(Debug, QueryableByName)]
struct Order {
    #[diesel(sql_type = Integer, column_name = "id")]
    _id: i32,
}

/// T1: diesel-async's event of a failing `INSERT .. RETURNING` carries no error.
#[tokio::test]
async fn a_failing_insert_returning_is_swallowed() {
    let Some(shop) = Shop::on_postgres().await else { return };
    let trace = async |conn: &mut AsyncPgConnection| {
        let twice =
            diesel::sql_query("INSERT INTO shop_orders VALUES (1) RETURNING id").get_result::<Order>(conn).await;
        twice.expect_err("the key is taken");
    };
    shop.survives(trace).await;
}

/// T3: nobody sees the failing statement's end.
#[tokio::test]
async fn a_failing_statement_is_dropped_before_the_commit() {
    let Some(shop) = Shop::on_postgres().await else { return };
    let trace = async |conn: &mut AsyncPgConnection| {
        let mut dropped = pin!(conn.batch_execute("INSERT INTO shop_orders VALUES (1)"));
        let first_poll = poll_fn(|context| Poll::Ready(dropped.as_mut().poll(context).is_pending())).await;
        assert!(first_poll, "it waits for the server");
    };
    shop.survives(trace).await;
}

/// T3: the transaction that commits is another one.
#[tokio::test]
async fn raw_sql_rolls_back_and_begins_anew() {
    let Some(shop) = Shop::on_postgres().await else { return };
    shop.survives(async |conn| conn.batch_execute("ROLLBACK; BEGIN").await.expect("both")).await;
}

/// T3: the transaction is put aside, and COMMIT only warns.
#[tokio::test]
async fn raw_sql_prepares_the_transaction() {
    let Some(shop) = Shop::on_postgres().await else { return };
    let url = shop.url.clone();
    shop.survives(async |conn| conn.batch_execute("PREPARE TRANSACTION 'aside'").await.expect("prepare")).await;
    let mut conn = AsyncPgConnection::establish(&url).await.expect("connect");
    conn.batch_execute("ROLLBACK PREPARED 'aside'").await.expect("or the server keeps it");
}

/// T3: a SELECT runs into the time-out.
#[tokio::test]
async fn a_statement_that_timed_out_is_swallowed() {
    let Some(shop) = Shop::on_postgres().await else { return };
    let trace = async |conn: &mut AsyncPgConnection| {
        conn.batch_execute("SET LOCAL statement_timeout = '20ms'").await.expect("set");
        let timed_out = diesel::sql_query("SELECT 1 AS id FROM pg_sleep(60)").load::<Order>(conn).await;
        timed_out.expect_err("timed out");
    };
    shop.survives(trace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swallowed_error_on_a_sync_connection() {
    let Some(shop) = Shop::on_postgres().await else { return };
    let (url, outbox) = (shop.url.clone(), shop.outbox.clone());
    let sync = tokio::task::spawn_blocking(move || {
        let mut conn = PgConnection::establish(&url).expect("connect");
        let swallowed = conn.transaction(|conn| {
            outbox.enqueue(conn, &order(1))?;
            let _swallowed = conn.batch_execute("INSERT INTO nowhere VALUES (1)");
            Ok::<_, Error>(())
        });
        swallowed.expect("COMMIT answers ok");
        conn.transaction(|conn| outbox.enqueue(conn, &order(2))).expect("commit")
    });
    let last = sync.await.expect("no panic");
    shop.sent_only(last).await;
}

/// T4: sent right after the INSERT, once, and with no other COMMIT.
#[tokio::test]
async fn an_enqueue_outside_a_transaction_is_sent_once() {
    let Some(shop) = Shop::on_postgres().await else { return };
    let mut conn = AsyncPgConnection::establish(&shop.url).await.expect("connect");
    let sent = shop.outbox.enqueue_async(&mut conn, &order(1)).await.expect("enqueue");
    shop.broker.wait_for_delivered(1, Duration::from_secs(30)).await.expect("at once");
    conn.transaction(async |conn| conn.batch_execute("INSERT INTO shop_orders VALUES (1)").await)
        .await
        .expect("commit");
    shop.sent_only(sent).await;
}

/// A row whose COMMIT is verified is sent and settled without confirm.
#[tokio::test]
async fn a_transaction_of_the_outbox_is_sent_without_a_read() {
    let Some(shop) = Shop::on_postgres().await else { return };
    let mut conn = AsyncPgConnection::establish(&shop.url).await.expect("connect");
    let sent = shop.outbox.transaction_async(&mut conn, async |tx| tx.enqueue(&order(1))).await.expect("commit");
    assert!(shop.outbox.flush(Duration::from_secs(30)).await.is_settled(), "settled");
    let left = diesel::sql_query("SELECT 1 AS id FROM outbox_messages").load::<Order>(&mut conn).await.expect("look");
    assert!(left.is_empty());
    shop.sent_only(sent).await;
}

/// T2: InnoDB rolled the whole transaction back after the first row was streamed, so that no event says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_in_mid_stream_is_swallowed() {
    let Some(shop) = Shop::on_mariadb().await else { return };
    let deadlock = Deadlock::arrange(&shop.url);
    let mut conn = AsyncMysqlConnection::establish(&shop.url).await.expect("connect");
    let transaction = conn.transaction(async |conn| {
        shop.outbox.enqueue_async(conn, &order(1)).await?;
        let both = diesel::sql_query("SELECT id FROM shop_orders WHERE id <= 2 ORDER BY id FOR UPDATE");
        both.load::<Order>(conn).await.expect_err("deadlock");
        Ok::<_, Error>(())
    });
    transaction.await.expect("COMMIT answers ok");
    drop(deadlock);
    let last = conn.transaction(async |conn| shop.outbox.enqueue_async(conn, &order(2)).await).await.expect("commit");
    shop.sent_only(last).await;
}
