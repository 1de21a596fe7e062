//! The application's transactions.

use std::time::Duration;

use anyhow::{Context, Result};
use diesel_async::pooled_connection::deadpool::{Object, Pool};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_outbox::{Message, MessageId, Outbox, OutboxMessage as _};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::{ACCOUNT_EVENTS, Bug, LEDGER, ORDERS, RETURNS, WEBHOOKS};

/// One transaction of each kind is begun in this interval.
const INTERVAL: Duration = Duration::from_millis(250);
/// Messages of a batch, of which there is one in eight transactions.
const BATCH: u64 = 20;
/// Keys of the ordered topics.
const KEYS: u64 = 12;
/// How long a bad release keeps its transactions open.
const OPEN_FOR: Duration = Duration::from_secs(7);
/// Transactions of a server that is gone are given up, so that they do not pile up.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What the parts of the application share.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) outbox: Outbox,
    pub(super) pool: Pool<AsyncPgConnection>,
    pub(super) bug: Option<Bug>,
}

/// Begins transactions, whether or not the earlier ones have ended, as requests do.
pub(super) async fn run(work: Work) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    for number in 0_u64.. {
        ticks.tick().await;
        let work = work.clone();
        tokio::spawn(async move {
            match timeout(TIMEOUT, work.transactions(number)).await {
                Ok(Ok(())) => {}
                // A fault of the drill, in most cases.
                Ok(Err(error)) => tracing::info!(error = %format!("{error:#}"), "a transaction failed"),
                Err(_) => tracing::info!("a transaction took too long"),
            }
        });
    }
}

impl Work {
    async fn transactions(&self, number: u64) -> Result<()> {
        let key = format!("key-{}", number % KEYS);
        self.commit(vec![message(ORDERS, &key)]).await?;
        self.commit(vec![message(ACCOUNT_EVENTS, &key), message(LEDGER, &key)]).await?;
        if number.is_multiple_of(4) {
            self.commit(vec![message(WEBHOOKS, &key), message(RETURNS, &key)]).await?;
        }
        if number.is_multiple_of(8) {
            self.commit((0..BATCH).map(|_| message(ORDERS, &key)).collect()).await?;
        }
        Ok(())
    }

    /// Enqueues the messages in one transaction.
    pub(super) async fn commit(&self, messages: Vec<Message>) -> Result<Vec<MessageId>> {
        let mut conn = self.connection().await?;
        let is_slow =
            self.bug == Some(Bug::SlowTransactions) && messages.iter().any(|message| message.topic() == ORDERS);
        let committed = conn.transaction(async |conn| {
            let message_ids = self.outbox.enqueue_all_async(conn, messages).await?;
            if is_slow {
                sleep(OPEN_FOR).await;
            }
            diesel::result::QueryResult::Ok(message_ids)
        });
        committed.await.context("commit")
    }

    pub(super) async fn connection(&self) -> Result<Object<AsyncPgConnection>> {
        let mut conn = self.pool.get().await.context("take a connection")?;
        if self.bug == Some(Bug::NoHook) {
            conn.set_instrumentation(|_event: diesel::connection::InstrumentationEvent<'_>| {});
        }
        Ok(conn)
    }
}

pub(super) fn message(topic: &str, key: &str) -> Message {
    Message::to(topic).kind("placed").key(key).payload_bytes(br#"{"order_id":42}"#.to_vec())
}
