//! The statements of a relay without work.

use std::time::Duration;

use anyhow::{Result, ensure};
use diesel::sql_types::{BigInt, Text};
use diesel::{QueryableByName, sql_query};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::transport::MemoryTransport;
use serde::Serialize;

use crate::application;
use crate::arguments::{BenchEnv, Plan};
use crate::cpu::{CpuMeter, CpuShare};
use crate::database;
use crate::report::{Figure, LegLog, Target};

const TOPICS: [&str; 5] = ["orders", "payments", "shipments", "customers", "refunds"];

#[derive(Serialize)]
struct Leg {
    statements_per_second: f64,
    by: &'static str,
    statements: Vec<Statement>,
}

/// A statement that the database counted.
#[derive(Debug, Serialize, QueryableByName)]
pub(super) struct Statement {
    #[diesel(sql_type = BigInt)]
    pub(super) calls: i64,
    #[diesel(sql_type = Text)]
    pub(super) query: String,
}

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let mut rates = Vec::new();
    for _ in 0..plan.rounds(3) {
        let (leg, cpu) = leg(env, plan.duration(60.0)).await?;
        leg_log.leg("idle", cpu, &leg)?;
        rates.push(leg.statements_per_second);
    }
    Ok(vec![Figure::new("idle relay, 5 topics, statements", "/s", rates, Target::AtMost(1.0))])
}

async fn leg(env: &BenchEnv, duration: Duration) -> Result<(Leg, CpuShare)> {
    database::reset(&env.postgres).await?;
    let mut conn = database::connect(&env.postgres).await?;
    let counts_statements = conn.batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements").await.is_ok();
    let outbox = application::outbox(&TOPICS)?;
    let relay = application::start_relay(&outbox, &env.postgres, MemoryTransport::new()).await?;
    tokio::time::sleep(Duration::from_secs(3)).await; // the start's own statements are not those of an idle relay
    let cpu = CpuMeter::start(env.root)?;
    let before = transactions(&mut conn).await?;
    if counts_statements {
        conn.batch_execute("SELECT pg_stat_statements_reset()").await?;
    }
    tokio::time::sleep(duration).await;
    let statements = if counts_statements { statements(&mut conn).await? } else { Vec::new() };
    let (by, count) = if counts_statements {
        ("pg_stat_statements", statements.iter().map(|statement| statement.calls).sum::<i64>())
    } else {
        // A server without the extension: every statement of an idle relay is its own transaction. One of them is ours.
        ("pg_stat_database", transactions(&mut conn).await? - before - 1)
    };
    let cpu = cpu.stop()?;
    application::stop_relay(relay).await;
    ensure!(count > 0, "the server counted no statement: the relay did not run");
    Ok((Leg { statements_per_second: count as f64 / duration.as_secs_f64(), by, statements }, cpu))
}

pub(super) async fn statements(conn: &mut AsyncPgConnection) -> Result<Vec<Statement>> {
    let query = "SELECT calls, query FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_%' ORDER BY calls DESC";
    Ok(sql_query(query).load(conn).await?)
}

async fn transactions(conn: &mut AsyncPgConnection) -> Result<i64> {
    let query = "SELECT xact_commit + xact_rollback AS count FROM pg_stat_database WHERE datname = current_database()";
    database::count(conn, query).await
}
