//! Business transactions on MariaDB and SQLite, each as a share of the same without an outbox.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diesel::Connection as _;
use diesel::connection::SimpleConnection;
use diesel::sqlite::SqliteConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncMigrationHarness, AsyncMysqlConnection, SimpleAsyncConnection};
use diesel_migrations::MigrationHarness;
use diesel_outbox::Outbox;
use diesel_outbox::internals::metrics;
use diesel_outbox::migrations::MIGRATIONS;
use diesel_outbox::relay::Relay;
use diesel_outbox::store::{MysqlStore, SqliteStore};
use diesel_outbox::transport::MemoryTransport;
use serde::Serialize;
use xtask::servers::{Mariadb, mariadb};

use crate::application::{self, RELAY_CONNECTIONS};
use crate::arguments::{BenchEnv, Plan};
use crate::clients::{AsyncSqlite, Client, Clients};
use crate::cpu::{CpuMeter, CpuShare};
use crate::load::{self, CONNECTIONS, Enqueue, Load, RelayTo, TOPIC};
use crate::ratios::Rounds;
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};

const LEGS: [Load; 4] = [
    Load { enqueue: Enqueue::Hook, relay_to: RelayTo::Nowhere },
    Load { enqueue: Enqueue::Hook, relay_to: RelayTo::Memory },
    Load { enqueue: Enqueue::Transaction, relay_to: RelayTo::Nowhere },
    Load { enqueue: Enqueue::Transaction, relay_to: RelayTo::Memory },
];
/// For SQLite, which lets one write at a time: with more, the bench would measure how they wait for each other.
const SQLITE_CLIENTS: usize = 1;
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Serialize)]
struct Leg {
    tx_per_second: f64,
    cpu_us_per_tx: f64,
    /// Messages in the table when the last transaction was committed.
    rows_left: i64,
    delivered: u64,
    counters: std::collections::BTreeMap<String, u64>,
}

pub(crate) async fn mariadb(
    plan: &Plan,
    env: &BenchEnv,
    recorder: &Recorder,
    leg_log: &mut LegLog,
) -> Result<Vec<Figure>> {
    let options = mariadb::Options { flush: mariadb::Flush::Disk, ..mariadb::Options::default() };
    let server = tokio::task::block_in_place(|| Mariadb::start(&options))?;
    let mut conn = AsyncMysqlConnection::open(&server.url()).await?;
    let orders = "CREATE TABLE orders (id bigint AUTO_INCREMENT PRIMARY KEY, customer bigint NOT NULL, total_cents bigint NOT NULL)";
    conn.batch_execute(orders).await?;
    let mut harness = AsyncMigrationHarness::new(conn);
    harness.run_pending_migrations(MIGRATIONS).map_err(|error| anyhow::anyhow!("migrate: {error}"))?;
    let start = async |outbox: Outbox, url: String| {
        let manager = AsyncDieselConnectionManager::<AsyncMysqlConnection>::new(url);
        let store = MysqlStore::new(Pool::builder(manager).max_size(RELAY_CONNECTIONS).build()?);
        anyhow::Ok(outbox.relay().store(store).transport(MemoryTransport::new()).start().await?)
    };
    let on = On { name: "MariaDB", url: server.url(), clients: CONNECTIONS, plan, env, recorder };
    rounds::<AsyncMysqlConnection>(&on, start, leg_log).await
}

pub(crate) async fn sqlite(
    plan: &Plan,
    env: &BenchEnv,
    recorder: &Recorder,
    leg_log: &mut LegLog,
) -> Result<Vec<Figure>> {
    let folder = tempfile::tempdir_in(&env.results).context("make a folder for the database")?;
    let url = folder.path().join("shop.db").to_string_lossy().into_owned();
    let mut conn = SqliteConnection::establish(&url)?;
    let orders = "CREATE TABLE orders (id integer PRIMARY KEY, customer bigint NOT NULL, total_cents bigint NOT NULL)";
    SimpleConnection::batch_execute(&mut conn, orders)?;
    conn.run_pending_migrations(MIGRATIONS).map_err(|error| anyhow::anyhow!("migrate: {error}"))?;
    let start = async |outbox: Outbox, url: String| {
        let manager = AsyncDieselConnectionManager::<AsyncSqlite>::new(url);
        let store = SqliteStore::new(Pool::builder(manager).max_size(2).build()?);
        anyhow::Ok(outbox.relay().store(store).transport(MemoryTransport::new()).start().await?)
    };
    let on = On { name: "SQLite", url, clients: SQLITE_CLIENTS, plan, env, recorder };
    rounds::<AsyncSqlite>(&on, start, leg_log).await
}

/// A database, and how it is measured.
struct On<'a> {
    name: &'static str,
    url: String,
    clients: usize,
    plan: &'a Plan,
    env: &'a BenchEnv,
    recorder: &'a Recorder,
}

async fn rounds<C: Client>(
    on: &On<'_>,
    start: impl AsyncFn(Outbox, String) -> Result<Relay>,
    leg_log: &mut LegLog,
) -> Result<Vec<Figure>> {
    let mut rounds = Rounds::default();
    let mut measure = async |load: Load, rounds: &mut Rounds| {
        let (leg, cpu) = leg::<C>(on, load, &start).await?;
        leg_log.leg(&format!("{}, {}", on.name, load.name()), cpu, &leg)?;
        rounds.push(load, leg.tx_per_second);
        anyhow::Ok(())
    };
    for round in 0..on.plan.rounds(3) {
        for step in 0..LEGS.len() {
            measure(Load::BASELINE, &mut rounds).await?;
            measure(LEGS[(round + step) % LEGS.len()], &mut rounds).await?;
        }
    }
    measure(Load::BASELINE, &mut rounds).await?;
    let what = format!("{}, business tx/s", on.name);
    let mut figures = vec![rounds.absolute(&what, Load::BASELINE)];
    figures.extend(LEGS.map(|load| rounds.figure(&what, load, Target::None)));
    for (with, without) in [(LEGS[1], LEGS[0]), (LEGS[3], LEGS[2])] {
        let shares = rounds.shares(with).into_iter().zip(rounds.shares(without));
        let shares = shares.map(|(with, without)| with / without).collect();
        figures.push(Figure::new(format!("{what}, {} by {}", with.name(), without.name()), "", shares, Target::None));
    }
    figures.push(rounds.less(&what, (LEGS[3], LEGS[1]), Target::AtLeast(0.0)));
    Ok(figures)
}

async fn leg<C: Client>(
    on: &On<'_>,
    load: Load,
    start: &impl AsyncFn(Outbox, String) -> Result<Relay>,
) -> Result<(Leg, CpuShare)> {
    C::open(&on.url).await?.empty().await?;
    on.recorder.reset();
    let (outbox, duration) = (application::outbox(&[TOPIC])?, on.plan.duration(6.0));
    let relay = match load.relay_to {
        RelayTo::Nowhere => None,
        _ => Some(start(outbox.clone(), on.url.clone()).await?),
    };
    let mut clients = Clients::start::<C>(on.clients, load.enqueue, &on.url, &outbox).await?;
    tokio::time::sleep(duration / 5).await; // statements are prepared, pools are full
    let (cpu, started, before) = (CpuMeter::start(on.env.root)?, Instant::now(), clients.committed());
    tokio::time::sleep(duration).await;
    let (committed, elapsed, cpu) = (clients.committed() - before, started.elapsed(), cpu.stop()?);
    let transactions = clients.stop().await?;
    let rows_left = C::open(&on.url).await?.rows_left().await?;
    if let Some(relay) = relay {
        application::delivered(on.recorder, transactions, TIMEOUT).await?;
        application::stop_relay(relay).await;
    }
    let delivered = on.recorder.count(metrics::DELIVERED);
    ensure!(delivered == 0 || delivered >= transactions, "{delivered} of {transactions} delivered");
    let tx_per_second = committed as f64 / elapsed.as_secs_f64();
    load::ensure_kept_up(load, rows_left, tx_per_second)?;
    let cpu_us_per_tx = cpu.own_us / committed.max(1) as f64;
    Ok((Leg { tx_per_second, cpu_us_per_tx, rows_left, delivered, counters: on.recorder.counts() }, cpu))
}
