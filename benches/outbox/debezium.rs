//! Debezium on its own table next to the outbox's, with the same columns.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diesel_async::SimpleAsyncConnection;
use tokio::task::block_in_place;
use xtask::servers::debezium::Connector;

use crate::application::PAYLOAD_BYTES;
use crate::arguments::{BenchEnv, DebeziumEnv};
use crate::cpu::{CpuMeter, CpuShare};
use crate::cpu_breakdown::{CpuBreakdown, CpuBreakdownMeter, SidePids};
use crate::reader::Reader;
use crate::{broker, database};

const TABLE: &str = "debezium_messages";

/// The publication that the connector reads.
const PUBLICATION: &str = "debezium";

/// The replication slot, which the connector creates by itself.
const SLOT: &str = "debezium";

const CONNECTOR: &str = include_str!("../../tools/xtask/debezium/connector.properties");

/// What it sends before each leg. Until the JVM has compiled its hot code, a message costs it twice as much, even after
/// the first 100,000. The warm-up also puts its position right before the backlog, whatever others wrote to the log
/// meanwhile.
const WARM_UP: usize = 200_000;
const WARM_UP_TOPIC: &str = "debezium-warm-up";

/// The interval between two checks of a topic's end. A shorter one would take CPU from Debezium.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
const TIMEOUT: Duration = Duration::from_secs(600);

/// One drain.
pub(crate) struct Drain {
    pub(crate) seconds: f64,
    pub(crate) sides: CpuBreakdown,
    pub(crate) cpu: CpuShare,
    pub(crate) second_copies: u64,
}

pub(crate) struct Debezium<'a> {
    env: &'a BenchEnv,
    debezium_env: &'a DebeziumEnv,
    connector: Connector,
}

impl<'a> Debezium<'a> {
    /// Creates the table, the publication and the connector, which then reads.
    pub(crate) async fn prepare(env: &'a BenchEnv) -> Result<Self> {
        let debezium_env = env.debezium.as_ref().context("a Debezium beside us")?;
        let mut conn = database::connect(&env.postgres).await?;
        // No vacuum in the middle of a leg.
        let table =
            format!("CREATE TABLE {TABLE} (LIKE outbox_messages INCLUDING ALL) WITH (autovacuum_enabled = off)");
        conn.batch_execute(&table).await?;
        let publication = format!("CREATE PUBLICATION {PUBLICATION} FOR TABLE {TABLE} WITH (publish = 'insert')");
        conn.batch_execute(&publication).await?;
        broker::make_topics(&env.kafka, &[WARM_UP_TOPIC]).await?;
        // Other columns of the table are not worth decoding.
        let properties = format!(
            "{CONNECTOR}slot.name={SLOT}\npublication.name={PUBLICATION}\ntable.include.list=public.{TABLE}\n\
             column.include.list=public.{TABLE}.(id|message_id|topic|key|kind|payload)\n"
        );
        let connector = block_in_place(|| Connector::create(&debezium_env.address, &env.postgres, &properties))?;
        Ok(Self { env, debezium_env, connector })
    }

    /// Sends a backlog of `rows` that were written while the connector was stopped, `per_transaction` in each
    /// transaction.
    ///
    /// The clock runs from the first check that finds a message in the topic until the check that finds all. The start
    /// of the JVM and of the connector does not count, nor what it read before it sent the first message.
    pub(crate) async fn drain(&self, topic: &str, rows: usize, per_transaction: usize) -> Result<Drain> {
        self.warm_up(per_transaction).await?;
        self.fill(topic, rows, per_transaction).await?;
        let reader = Reader::new(&self.env.kafka, topic)?;
        block_in_place(|| self.connector.resume())?;
        self.until_there(&reader, 1).await?;
        let (started, cpu, sides) =
            (Instant::now(), CpuMeter::start(self.env.root)?, CpuBreakdownMeter::start(self.sides())?);
        self.until_there(&reader, rows as u64).await?;
        let (seconds, cpu, sides) = (started.elapsed().as_secs_f64(), cpu.stop()?, sides.stop(rows)?);
        self.stop().await?;
        let second_copies = block_in_place(|| reader.second_copies(rows, &database::payloads(PAYLOAD_BYTES)))?;
        Ok(Drain { seconds, sides, cpu, second_copies })
    }

    /// Returns with the connector stopped and everything sent.
    async fn warm_up(&self, per_transaction: usize) -> Result<()> {
        block_in_place(|| self.connector.resume())?;
        // It never sends what was written before it has a slot.
        self.until_slot("active").await?;
        let reader = Reader::new(&self.env.kafka, WARM_UP_TOPIC)?;
        let wanted = reader.count()? + WARM_UP as u64;
        self.fill(WARM_UP_TOPIC, WARM_UP, per_transaction).await?;
        self.until_there(&reader, wanted).await?;
        self.stop().await
    }

    /// Returns when the slot is free again: a connector that finds it taken waits ten seconds before it tries again.
    async fn stop(&self) -> Result<()> {
        block_in_place(|| self.connector.stop())?;
        self.until_slot("NOT active").await
    }

    /// Fills the table with these rows only.
    async fn fill(&self, topic: &str, rows: usize, per_transaction: usize) -> Result<()> {
        database::connect(&self.env.postgres).await?.batch_execute(&format!("TRUNCATE {TABLE}")).await?;
        database::fill_by_transactions(&self.env.postgres, TABLE, topic, rows, PAYLOAD_BYTES, per_transaction).await
    }

    async fn until_slot(&self, state: &str) -> Result<()> {
        let (mut conn, end) = (database::connect(&self.env.postgres).await?, Instant::now() + TIMEOUT);
        let query =
            format!("SELECT count(*) AS count FROM pg_replication_slots WHERE slot_name = '{SLOT}' AND {state}");
        while database::count(&mut conn, &query).await? == 0 {
            self.wait(end, "no such state of the slot").await?;
        }
        Ok(())
    }

    async fn until_there(&self, reader: &Reader, count: u64) -> Result<()> {
        let end = Instant::now() + TIMEOUT;
        while block_in_place(|| reader.count())? < count {
            self.wait(end, "not everything is in the topic").await?;
        }
        Ok(())
    }

    async fn wait(&self, end: Instant, what: &str) -> Result<()> {
        if Instant::now() > end {
            block_in_place(|| self.connector.check()).context(what.to_owned())?;
        }
        ensure!(Instant::now() <= end, "{what} after {TIMEOUT:?}");
        tokio::time::sleep(POLL_INTERVAL).await;
        Ok(())
    }

    fn sides(&self) -> SidePids {
        let DebeziumEnv { pid, database_pid, broker_pid, .. } = *self.debezium_env;
        SidePids { database: database_pid, broker: broker_pid, client: pid }
    }
}
