//! Business transactions in a closed loop, without an outbox or with one of its kinds of enqueue.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use diesel_async::AsyncPgConnection;
use diesel_outbox::Outbox;
use diesel_outbox::internals::metrics::{CONFIRM_ROWS, SETTLE_ROWS};
use diesel_outbox::relay::Relay;
use diesel_outbox::transport::MemoryTransport;
use serde::Serialize;

use crate::application;
use crate::arguments::BenchEnv;
use crate::clients::Clients;
use crate::cpu::{CpuMeter, CpuShare};
use crate::database;
use crate::receipts;
use crate::recorder::Recorder;
use crate::stats::mean;
use crate::traces;

/// The application's clients.
pub(crate) const CONNECTIONS: usize = 8;
/// The topic of all messages.
pub(crate) const TOPIC: &str = "orders";
/// The messages of one [`Enqueue::Batch`].
pub(crate) const BATCH: i64 = 100;

/// How a message is enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enqueue {
    /// No message: the baseline.
    Never,
    /// `enqueue_async` in Diesel's transaction.
    Hook,
    /// `enqueue_with_receipt_async` in Diesel's transaction. Another task waits for each delivery: a client that waited itself
    /// would show how long a delivery takes.
    WithReceipt,
    /// `outbox.transaction`.
    Transaction,
    /// [`BATCH`] messages with one `enqueue_all_async` in Diesel's transaction.
    Batch,
    /// Without the outbox, as done by hand: the row is written in the application's transaction, then marked as
    /// sending, then as sent. The broker takes no time.
    ByHand,
}

/// The destination of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RelayTo {
    /// No relay runs.
    Nowhere,
    Memory,
    /// Memory, with traces, but no provider of them.
    MemoryWithoutProvider,
    /// Memory, with traces that are recorded, and dropped by the exporter.
    MemoryTraced,
    Kafka,
    /// Kafka, while a receipt of a message that is not due is open.
    KafkaBesideReceipt,
    /// Kafka, with sent messages kept in the history.
    KafkaAndKept,
    /// Kafka, as CloudEvents in the binary mode.
    KafkaCloudEvents,
    /// Kafka, as CloudEvents in the structured mode.
    KafkaStructuredEvents,
}

/// How old messages may be at the end of a leg whose relay keeps up.
const BEHIND_MAX: Duration = Duration::from_secs(1);

/// For each kind of enqueue.
pub(crate) const WARM_UP: Duration = Duration::from_secs(5);

/// One kind of leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) enqueue: Enqueue,
    pub(crate) relay_to: RelayTo,
}

impl Load {
    pub(crate) const BASELINE: Self = Self { enqueue: Enqueue::Never, relay_to: RelayTo::Nowhere };

    fn messages_per_tx(self) -> f64 {
        match self.enqueue {
            Enqueue::Never => 0.0,
            Enqueue::Batch => BATCH as f64,
            Enqueue::Hook | Enqueue::WithReceipt | Enqueue::Transaction | Enqueue::ByHand => 1.0,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match (self.enqueue, self.relay_to) {
            (Enqueue::Never, _) => "without outbox",
            (Enqueue::WithReceipt, _) => "hook, a receipt for each message",
            (_, RelayTo::KafkaBesideReceipt) => "Kafka, a receipt of another message is open",
            (_, RelayTo::MemoryWithoutProvider) => "memory, traces without provider",
            (_, RelayTo::MemoryTraced) => "memory, traced",
            (_, RelayTo::KafkaCloudEvents) => "Kafka, CloudEvents",
            (_, RelayTo::KafkaStructuredEvents) => "Kafka, structured CloudEvents",
            (Enqueue::Hook, RelayTo::Nowhere) => "hook, no relay",
            (Enqueue::Hook, RelayTo::Memory) => "hook, memory",
            (Enqueue::Hook, RelayTo::Kafka) => "hook, Kafka",
            (Enqueue::Hook, RelayTo::KafkaAndKept) => "hook, Kafka, kept",
            (Enqueue::Transaction, RelayTo::Nowhere) => "outbox.transaction, no relay",
            (Enqueue::Transaction, RelayTo::Memory) => "outbox.transaction, memory",
            (Enqueue::Transaction, RelayTo::Kafka) => "outbox.transaction, Kafka",
            (Enqueue::Transaction, RelayTo::KafkaAndKept) => "outbox.transaction, Kafka, kept",
            (Enqueue::Batch, RelayTo::Nowhere) => "100 in a transaction, no relay",
            (Enqueue::Batch, RelayTo::Memory) => "100 in a transaction, memory",
            (Enqueue::Batch, RelayTo::Kafka) => "100 in a transaction, Kafka",
            (Enqueue::Batch, RelayTo::KafkaAndKept) => "100 in a transaction, Kafka, kept",
            (Enqueue::ByHand, _) => "by hand",
        }
    }
}

/// The result of one leg.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Throughput {
    pub(crate) tx_per_second: f64,
    /// CPU time of all processes, including database and broker.
    cpu_us_per_tx: f64,
    /// Messages in the table when the last transaction was committed: a relay that does not keep up shows here.
    pub(crate) rows_left: i64,
    pub(crate) transactions: u64,
    /// Messages in the history when the relay had ended.
    pub(crate) rows_kept: i64,
    /// Messages in one read and in one removal, which shows the effect of grouping.
    rows_per_confirm: f64,
    rows_per_settle: f64,
    counters: std::collections::BTreeMap<String, u64>,
}

/// Runs both kinds of enqueue for a while and drops the results: a process and a broker do much only once, and the
/// first leg would pay for it.
pub(crate) async fn warm_up(env: &BenchEnv, recorder: &Recorder) -> Result<()> {
    for enqueue in [Enqueue::Hook, Enqueue::Transaction] {
        run(Load { enqueue, relay_to: RelayTo::Kafka }, &env.postgres, env, recorder, WARM_UP).await?;
    }
    Ok(())
}

/// Runs one leg against the database at `url`, which may be distant.
pub(crate) async fn run(
    load: Load,
    url: &str,
    env: &BenchEnv,
    recorder: &Recorder,
    duration: Duration,
) -> Result<(Throughput, CpuShare)> {
    database::reset(&env.postgres).await?;
    run_in_emptied(load, url, env, recorder, duration).await
}

/// The same in tables that the caller has emptied, because others may use them since.
pub(crate) async fn run_in_emptied(
    load: Load,
    url: &str,
    env: &BenchEnv,
    recorder: &Recorder,
    duration: Duration,
) -> Result<(Throughput, CpuShare)> {
    recorder.reset();
    let (outbox, relay) = start_application(load.relay_to, url, env).await?;
    let open = match load.relay_to {
        RelayTo::KafkaBesideReceipt => Some(receipts::open(&outbox, url).await?),
        _ => None,
    };
    let mut clients = Clients::start::<AsyncPgConnection>(CONNECTIONS, load.enqueue, url, &outbox).await?;
    tokio::time::sleep(duration / 5).await; // statements are prepared, pools are full
    let (cpu, started, before) = (CpuMeter::start(env.root)?, Instant::now(), clients.committed());
    tokio::time::sleep(duration).await;
    let (committed, elapsed, cpu) = (clients.committed() - before, started.elapsed(), cpu.stop()?);
    let transactions = clients.stop().await?;
    let rows_left = database::rows_left(&env.postgres).await?;
    clients.until_delivered().await?;
    if let Some(receipt) = open {
        receipts::ensure_open(&receipt).await?;
    }
    if let Some(relay) = relay {
        application::stop_relay(relay).await;
    }
    let tx_per_second = committed as f64 / elapsed.as_secs_f64();
    ensure_kept_up(load, rows_left, tx_per_second)?;
    let throughput = Throughput {
        tx_per_second,
        cpu_us_per_tx: cpu.own_us / committed.max(1) as f64,
        rows_left,
        transactions,
        rows_kept: database::rows_kept(&env.postgres).await?,
        rows_per_confirm: mean(&recorder.values(CONFIRM_ROWS)),
        rows_per_settle: mean(&recorder.values(SETTLE_ROWS)),
        counters: recorder.counts(),
    };
    Ok((throughput, cpu))
}

/// The outbox, and the relay if one is to run.
async fn start_application(relay_to: RelayTo, url: &str, env: &BenchEnv) -> Result<(Outbox, Option<Relay>)> {
    let is_kept = relay_to == RelayTo::KafkaAndKept;
    let mut outbox = if is_kept { application::outbox_with_history(TOPIC)? } else { application::outbox(&[TOPIC])? };
    let relay = match relay_to {
        RelayTo::Nowhere => None,
        RelayTo::Memory => Some(application::start_relay(&outbox, url, MemoryTransport::new()).await?),
        RelayTo::MemoryWithoutProvider | RelayTo::MemoryTraced => {
            let records = relay_to == RelayTo::MemoryTraced;
            let (traced, transport) = traces::traced_application(TOPIC, records)?;
            outbox = traced;
            Some(application::start_relay(&outbox, url, transport).await?)
        }
        RelayTo::Kafka | RelayTo::KafkaBesideReceipt | RelayTo::KafkaAndKept => {
            Some(application::start_relay(&outbox, url, application::kafka(&env.kafka)?).await?)
        }
        RelayTo::KafkaCloudEvents => {
            Some(application::start_relay(&outbox, url, application::kafka_cloud_events(&env.kafka)?).await?)
        }
        RelayTo::KafkaStructuredEvents => {
            let transport = application::kafka_cloud_events(&env.kafka)?.structured();
            Some(application::start_relay(&outbox, url, transport).await?)
        }
    };
    Ok((outbox, relay))
}

/// A relay that falls behind leaves its work for later, which makes the application look faster.
pub(crate) fn ensure_kept_up(load: Load, rows_left: i64, tx_per_second: f64) -> Result<()> {
    let rows_left_max = BEHIND_MAX.as_secs_f64() * tx_per_second * load.messages_per_tx();
    ensure!(
        load.relay_to == RelayTo::Nowhere || rows_left as f64 <= rows_left_max,
        "{}: the relay fell behind, {rows_left} rows are left at {tx_per_second:.0} transactions a second",
        load.name()
    );
    Ok(())
}
