//! Clients of the application in a closed loop, on each database that the library supports.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, AsyncMysqlConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::Outbox;
use diesel_outbox::receipts::PendingReceipt;
use diesel_outbox::store::SQLITE_PRAGMAS;

use crate::application::OrderPlaced;
use crate::by_hand;
use crate::database::{self, orders};
use crate::load::{BATCH, Enqueue, TOPIC};
use crate::receipts::Awaited;

diesel::table! {
    outbox_messages (id) {
        id -> BigInt,
    }
}

/// SQLite through diesel-async.
pub(crate) type AsyncSqlite = SyncConnectionWrapper<SqliteConnection>;

/// A connection that places orders.
pub(crate) trait Client: Sized + Send + 'static {
    fn open(url: &str) -> impl Future<Output = Result<Self>> + Send;

    /// Empties the tables, so that every leg starts from the same state.
    fn empty(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// How many messages are in the table.
    fn rows_left(&mut self) -> impl Future<Output = Result<i64>> + Send;

    /// BEGIN, one INSERT, COMMIT; with an outbox it includes the message. Returns the receipt if it has one.
    fn transact(
        &mut self,
        enqueue: Enqueue,
        outbox: &Outbox,
        customer: i64,
    ) -> impl Future<Output = QueryResult<Option<PendingReceipt>>> + Send;
}

impl Client for AsyncPgConnection {
    async fn open(url: &str) -> Result<Self> {
        database::connect(url).await
    }

    async fn empty(&mut self) -> Result<()> {
        database::empty(self).await
    }

    async fn rows_left(&mut self) -> Result<i64> {
        Ok(outbox_messages::table.count().get_result(self).await?)
    }

    async fn transact(
        &mut self,
        enqueue: Enqueue,
        outbox: &Outbox,
        customer: i64,
    ) -> QueryResult<Option<PendingReceipt>> {
        let event = OrderPlaced { order_id: customer, topic: TOPIC };
        let committed = match enqueue {
            Enqueue::Never => self.transaction(async |conn| place_order(conn, customer).await).await,
            Enqueue::WithReceipt => {
                return self
                    .transaction(async |conn| {
                        place_order(conn, customer).await?;
                        outbox.enqueue_with_receipt_async(conn, &event).await.map(Some)
                    })
                    .await;
            }
            Enqueue::Hook => {
                self.transaction(async |conn| {
                    place_order(conn, customer).await?;
                    outbox.enqueue_async(conn, &event).await.map(drop)
                })
                .await
            }
            Enqueue::Transaction => {
                outbox
                    .transaction_async(self, async |tx| {
                        place_order(tx.connection(), customer).await?;
                        tx.enqueue(&event).map(drop)
                    })
                    .await
            }
            Enqueue::Batch => {
                let events = (0..BATCH).map(|_| OrderPlaced { order_id: customer, topic: TOPIC });
                self.transaction(async |conn| {
                    place_order(conn, customer).await?;
                    outbox.enqueue_all_async(conn, events).await.map(drop)
                })
                .await
            }
            Enqueue::ByHand => {
                let id = self
                    .transaction(async |conn| {
                        place_order(conn, customer).await?;
                        by_hand::write(conn, &event).await
                    })
                    .await?;
                by_hand::mark(self, id, "sending").await?;
                by_hand::mark(self, id, "sent").await
            }
        };
        committed.map(|()| None)
    }
}

pub(crate) async fn place_order(conn: &mut AsyncPgConnection, customer: i64) -> QueryResult<()> {
    let order = (orders::customer.eq(customer), orders::total_cents.eq(customer * 100));
    diesel::insert_into(orders::table).values(order).execute(conn).await.map(drop)
}

/// The other databases support the kinds of load that need no table of the bench's own. Their connections share no
/// trait that would let one function do this.
macro_rules! client {
    ($conn:ty, $set_up:expr, $empty:expr) => {
        impl Client for $conn {
            async fn open(url: &str) -> Result<Self> {
                let mut conn = <$conn>::establish(url).await.context("connect to the database")?;
                conn.batch_execute($set_up).await?;
                Ok(conn)
            }

            async fn empty(&mut self) -> Result<()> {
                Ok(self.batch_execute($empty).await?)
            }

            async fn rows_left(&mut self) -> Result<i64> {
                Ok(outbox_messages::table.count().get_result(self).await?)
            }

            async fn transact(
                &mut self,
                enqueue: Enqueue,
                outbox: &Outbox,
                customer: i64,
            ) -> QueryResult<Option<PendingReceipt>> {
                let event = OrderPlaced { order_id: customer, topic: TOPIC };
                let order = (orders::customer.eq(customer), orders::total_cents.eq(customer * 100));
                let order = diesel::insert_into(orders::table).values(order);
                let committed = match enqueue {
                    Enqueue::Never => self.transaction(async |conn| order.execute(conn).await.map(drop)).await,
                    Enqueue::Transaction => {
                        outbox
                            .transaction_async(self, async |tx| {
                                order.execute(tx.connection()).await?;
                                tx.enqueue(&event).map(drop)
                            })
                            .await
                    }
                    // No row asks these databases for the others.
                    Enqueue::Hook | Enqueue::WithReceipt | Enqueue::Batch | Enqueue::ByHand => {
                        self.transaction(async |conn| {
                            order.execute(conn).await?;
                            outbox.enqueue_async(conn, &event).await.map(drop)
                        })
                        .await
                    }
                };
                committed.map(|()| None)
            }
        }
    };
}

// Not by DELETE: InnoDB would purge the rows in the background, in the middle of the next leg.
client!(AsyncMysqlConnection, "DO 0", "TRUNCATE TABLE orders; TRUNCATE TABLE outbox_messages");
// SQLite has no TRUNCATE, and such a DELETE frees whole tables.
client!(AsyncSqlite, SQLITE_PRAGMAS, "DELETE FROM orders; DELETE FROM outbox_messages");

/// Running clients.
pub(crate) struct Clients {
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<QueryResult<()>>>,
    awaited: Awaited,
}

impl Clients {
    pub(crate) async fn start<C: Client>(count: usize, enqueue: Enqueue, url: &str, outbox: &Outbox) -> Result<Self> {
        let (stop, committed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (mut tasks, (receipts, awaited)) = (Vec::new(), Awaited::start());
        for client in 0..count as i64 {
            let mut conn = C::open(url).await?;
            let (stop, committed, outbox) = (Arc::clone(&stop), Arc::clone(&committed), outbox.clone());
            let receipts = receipts.clone();
            tasks.push(tokio::spawn(async move {
                let mut customer = client;
                while !AtomicBool::load(&stop, Ordering::Relaxed) {
                    if let Some(receipt) = conn.transact(enqueue, &outbox, customer).await? {
                        // `until_delivered` says why nobody takes it any more.
                        drop(receipts.send(receipt));
                    }
                    committed.fetch_add(1, Ordering::Relaxed);
                    customer += count as i64;
                }
                Ok(())
            }));
        }
        Ok(Self { stop, committed, tasks, awaited })
    }

    pub(crate) fn committed(&self) -> u64 {
        AtomicU64::load(&self.committed, Ordering::Relaxed)
    }

    /// Stops the clients. Returns the number of their transactions.
    pub(crate) async fn stop(&mut self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks.drain(..) {
            task.await?.context("a business transaction failed")?;
        }
        Ok(self.committed())
    }

    /// Waits until each receipt of the stopped clients has its answer.
    pub(crate) async fn until_delivered(self) -> Result<()> {
        let (committed, delivered) = (self.committed(), self.awaited.end().await?);
        ensure!(delivered == 0 || delivered == committed, "{delivered} receipts of {committed} messages");
        Ok(())
    }
}
