//! The hook as an application would write it: the row in its transaction, the send right after COMMIT, and a task that
//! deletes acknowledged rows. It has no retry and no sweeper, and trusts that `Ok` means committed.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diesel::prelude::*;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use diesel_outbox::OutboxMessage;
use rdkafka::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::application::OrderPlaced;
use crate::arguments::BenchEnv;
use crate::by_hand::{self, messages_by_hand};
use crate::clients::place_order;
use crate::cpu::{CpuMeter, CpuShare};
use crate::database;
use crate::load::{CONNECTIONS, TOPIC};
use crate::open_loop::{Leg, OpenLoop, Ticks, leg};
use crate::timed::CommitTimer;

/// The most rows of one DELETE.
const DELETE_ROWS_MAX: usize = 1_000;
/// The longest wait for the producer at the end.
const FLUSH_MAX: Duration = Duration::from_secs(30);

/// When a message was committed and acknowledged; passed from the client that sent it to the producer's callback.
struct Sent {
    number: usize,
    row: i64,
    committed_at: Instant,
}

/// An acknowledged message: its number, its row, and the time since its COMMIT.
type Acknowledged = (usize, i64, Duration);

struct Callbacks {
    acknowledged: UnboundedSender<Acknowledged>,
    failed: OnceLock<String>,
}

impl ClientContext for Callbacks {}

impl ProducerContext for Callbacks {
    type DeliveryOpaque = Box<Sent>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Box<Sent>) {
        match result {
            // The receiver is gone only if it failed, and it reports that.
            Ok(_) => drop(self.acknowledged.send((sent.number, sent.row, sent.committed_at.elapsed()))),
            Err((error, _)) => drop(self.failed.set(error.to_string())),
        }
    }
}

/// The settings of the relay's transport.
fn producer(env: &BenchEnv, acknowledged: UnboundedSender<Acknowledged>) -> Result<ThreadedProducer<Callbacks>> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &env.kafka).set("acks", "all").set("enable.idempotence", "true");
    config.set("linger.ms", "0").set("partitioner", "murmur2_random").set("message.timeout.ms", "25000");
    config.create_with_context(Callbacks { acknowledged, failed: OnceLock::new() }).context("create the producer")
}

/// Deletes acknowledged rows: those that arrived during the previous DELETE go together. Returns the waits of the
/// messages from number `from` on, in microseconds.
async fn delete(
    mut conn: AsyncPgConnection,
    mut acknowledged: UnboundedReceiver<Acknowledged>,
    from: usize,
) -> Result<Vec<f64>> {
    let (mut group, mut waits) = (Vec::new(), Vec::new());
    while acknowledged.recv_many(&mut group, DELETE_ROWS_MAX).await > 0 {
        waits.extend(group.iter().filter(|(number, ..)| *number >= from).map(|(.., wait)| wait.as_secs_f64() * 1e6));
        let rows: Vec<i64> = group.drain(..).map(|(_, row, _)| row).collect();
        diesel::delete(messages_by_hand::table.filter(messages_by_hand::id.eq_any(rows))).execute(&mut conn).await?;
    }
    Ok(waits)
}

/// Business transactions with a message in each, sent by the client that committed it.
pub(crate) async fn run(env: &BenchEnv, of: OpenLoop) -> Result<(Leg, CpuShare)> {
    database::reset(&env.postgres).await?;
    by_hand::make_table(&mut database::connect(&env.postgres).await?).await?;
    let (sender, acknowledged) = unbounded_channel();
    let producer = Arc::new(producer(env, sender)?);
    let deleting = tokio::spawn(delete(database::connect(&env.postgres).await?, acknowledged, of.warm_up()));
    let ticks = Ticks::start(of.messages(), of.per_second);
    let (cpu, mut clients, mut begun) = (CpuMeter::start(env.root)?, Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let mut conn = database::connect(&env.postgres).await?;
        let (producer, ticks, end) = (Arc::clone(&producer), ticks.clone(), CommitTimer::default());
        conn.set_instrumentation(end.instrumentation());
        clients.push(tokio::spawn(async move {
            let mut begun = Vec::new();
            while let Some(tick) = ticks.next().await {
                begun.push(tick.begin());
                let number = tick.number;
                let event = OrderPlaced { order_id: (number % of.keys) as i64, topic: TOPIC };
                let row = conn.transaction(async |conn| {
                    place_order(conn, number as i64).await?;
                    by_hand::write(conn, &event).await
                });
                let row = row.await?;
                let committed_at = end.take().context("the instrumentation saw no COMMIT")?;
                let sent = Box::new(Sent { number, row, committed_at });
                let (key, payload) = (event.key().unwrap_or_default(), event.payload()?.unwrap_or_default());
                let record = BaseRecord::with_opaque_to(TOPIC, sent).key(&*key).payload(&payload);
                producer.send(record).map_err(|(error, _)| error).context("send")?;
            }
            anyhow::Ok(begun)
        }));
    }
    for client in clients {
        begun.extend(client.await??);
    }
    let late_us_p99 = of.late_us_p99(&begun)?;
    let flushed = Arc::clone(&producer);
    tokio::task::spawn_blocking(move || flushed.flush(FLUSH_MAX)).await?.context("flush the producer")?;
    ensure!(producer.context().failed.get().is_none(), "a message failed: {:?}", producer.context().failed.get());
    let cpu = cpu.stop()?;
    // Dropping the producer drops the sender, which ends the deleting task.
    drop(producer);
    let waits = deleting.await??;
    ensure!(waits.len() == of.messages() - of.warm_up(), "{} messages measured", waits.len());
    Ok((leg(&waits, late_us_p99, None, Default::default())?, cpu))
}
