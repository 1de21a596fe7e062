//! A shop with all that a dashboard shows.

use std::path::Path;
use std::time::Duration;

use diesel::SqliteConnection;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, SimpleAsyncConnection};
use diesel_outbox::relay::Relay;
use diesel_outbox::store::{OutboxStore, SQLITE_PRAGMAS, SqliteStore};
use diesel_outbox::transport::{KafkaConfig, KafkaTransport};
use diesel_outbox::{Message, Outbox, OutboxMessage, Topic};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use serde::Serialize;
use tokio::time::interval;

use crate::Failure;

type Db = SyncConnectionWrapper<SqliteConnection>;

const TOPICS: [&str; 4] = ["orders", "invoices", "payments", "reminders"];

/// Larger messages are refused.
const BYTES_MAX: &str = "2000";

#[derive(Serialize, OutboxMessage)]
#[outbox(topic = "orders", kind = "order.placed", key = order_id)]
struct OrderPlaced {
    order_id: u64,
    total_cents: u64,
    note: String,
}

pub(crate) struct Shop {
    pub(crate) outbox: Outbox,
    pub(crate) relay: Relay,
    file: String,
    _kafka: MockCluster<'static, DefaultProducerContext>,
}

impl Shop {
    pub(crate) async fn start(file: &Path) -> Result<Self, Failure> {
        let kafka = MockCluster::new(1)?;
        for topic in TOPICS {
            kafka.create_topic(topic, 3, 1)?;
        }
        let outbox = Outbox::builder()
            .topic(Topic::new("orders"))
            .topic(Topic::new("invoices").keep_sent_days(7).processed_within(Duration::from_secs(60)))
            .topic(Topic::new("payments").ordered_by_key().lanes(8))
            .topic(Topic::new("reminders"))
            .message::<OrderPlaced>()
            .build()?;
        let file = file.display().to_string();
        outbox.migrate_async(&mut connect(&file).await?).await?;
        let config = KafkaConfig::new(kafka.bootstrap_servers()).set("message.max.bytes", BYTES_MAX);
        let transport = KafkaTransport::new(config)?;
        let store = SqliteStore::connect(file.clone())?;
        let relay = outbox.relay().store(store).transport(transport).start().await?;
        Ok(Self { outbox, relay, file, _kafka: kafka })
    }

    /// For the dashboard alone.
    pub(crate) fn store(&self) -> Result<impl OutboxStore + use<>, Failure> {
        Ok(SqliteStore::connect(self.file.clone())?)
    }

    /// Orders, ten a second: each twentieth is too large for Kafka.
    pub(crate) fn traffic(&self) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let (outbox, file) = (self.outbox.clone(), self.file.clone());
        async move {
            let mut conn = connect(&file).await?;
            let mut ticks = interval(Duration::from_millis(100));
            for number in 1.. {
                ticks.tick().await;
                let note = if number % 20 == 3 { "Please ring twice. ".repeat(200) } else { String::new() };
                let order = OrderPlaced { order_id: number, total_cents: 1_999, note };
                place(&mut conn, &outbox, &order).await?;
            }
            Ok(())
        }
    }

    pub(crate) async fn end(self) {
        self.relay.shutdown(Duration::from_secs(5)).await;
    }
}

/// An order with its other messages.
async fn place(conn: &mut Db, outbox: &Outbox, order: &OrderPlaced) -> Result<(), Failure> {
    let key = order.order_id.to_string();
    // Few accounts, so that others wait behind a payment that is refused.
    let account = format!("account-{}", order.order_id % 7);
    let payment = Message::to("payments").kind("payment.made").key(account).payload_bytes(order.note.clone());
    let invoice = Message::to("invoices").kind("invoice.sent").key(&*key).payload_bytes(key.clone());
    let hours = 1 + order.order_id % 60;
    let reminder = Message::to("reminders").kind("reminder").key(&*key).delay(Duration::from_secs(3_600 * hours));
    conn.transaction(async |conn| {
        outbox.enqueue_async(conn, order).await?;
        outbox.enqueue_async(conn, &invoice).await?;
        outbox.enqueue_async(conn, &reminder).await?;
        outbox.enqueue_async(conn, &payment).await
    })
    .await?;
    Ok(())
}

async fn connect(file: &str) -> Result<Db, Failure> {
    let mut conn = Db::establish(file).await?;
    conn.batch_execute(SQLITE_PRAGMAS).await?;
    Ok(conn)
}
