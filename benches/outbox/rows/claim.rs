//! The pages that one claim of the sweeper and one poll of the poller touch (EXPLAIN BUFFERS): with delayed messages,
//! with a large history, and while an open transaction keeps vacuum from removing dead rows.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diesel::sql_query;
use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::transport::MemoryTransport;
use serde::Serialize;
use xtask::bench_results::{Spread, short};

use crate::application::{self, PAYLOAD_BYTES};
use crate::arguments::{BenchEnv, Plan};
use crate::cpu::CpuMeter;
use crate::explain::{ClaimSql, Pages, PollSql};
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};
use crate::{database, explain};

const TOPIC: &str = "claims";
const ROWS: usize = 1_000_000;
/// The number of due rows: one claim's worth.
const DUE: i64 = 2_000;
/// How long [`ROWS`] rows take that an open transaction keeps; more take as long for each.
const PASSING_SECONDS: f64 = 120.0;

/// The other contents of the tables.
#[derive(Debug, Clone, Copy)]
enum TableState {
    Nothing,
    Delayed,
    History,
    HeldTransaction,
}

#[derive(Serialize)]
struct Leg {
    pages: f64,
    pages_of_full_claim: f64,
    milliseconds: f64,
    pages_of_poll: f64,
    pages_of_full_scan: f64,
}

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let rows = plan.messages(ROWS) as i64;
    let (claim, poll) = explain::capture_statements(&env.postgres).await?;
    let passing = plan.duration(PASSING_SECONDS * (rows as f64 / ROWS as f64).max(1.0));
    let cases = [
        (TableState::Nothing, "nothing beside".to_owned()),
        (TableState::Delayed, format!("{} delayed messages", short(rows as f64))),
        (TableState::History, format!("{} messages in the history", short(10.0 * rows as f64))),
        (TableState::HeldTransaction, format!("{} passed a held transaction", short(rows as f64))),
    ];
    let (mut figures, mut nothing) = (Vec::new(), None);
    for (table_state, name) in cases {
        let held = prepare(table_state, rows, passing, env, recorder).await?;
        let mut legs = Vec::new();
        // These rows are soon older than the watermark's slack: a second round would measure fewer.
        let rounds = if held.is_some() { 1 } else { plan.rounds(3) };
        for _ in 0..rounds {
            let cpu = CpuMeter::start(env.root)?;
            database::fill(&env.postgres, TOPIC, DUE, PAYLOAD_BYTES, 0).await?;
            let leg = measure(&claim, &poll, env).await?;
            leg_log.leg(&name, cpu.stop()?, &leg)?;
            legs.push(leg);
            remove_due(env, held.is_some()).await?;
        }
        drop(held);
        figures.extend(figures_of(table_state, &name, &legs, &mut nothing)?);
    }
    Ok(figures)
}

/// The figures of a state; `nothing` keeps the medians of the first, which has no other rows.
fn figures_of(
    table_state: TableState,
    name: &str,
    legs: &[Leg],
    nothing: &mut Option<(f64, f64)>,
) -> Result<Vec<Figure>> {
    let all = |of: fn(&Leg) -> f64| legs.iter().map(of).collect::<Vec<f64>>();
    let (pages, full) = (all(|leg| leg.pages), all(|leg| leg.pages_of_full_claim));
    let median = |samples: &[f64]| Spread::of(samples).context("nothing was measured").map(|spread| spread.median);
    let baseline = *nothing.get_or_insert((median(&pages)?, median(&full)?));
    let by = |samples: &[f64], baseline: f64| samples.iter().map(|pages| pages / baseline).collect::<Vec<f64>>();
    let wanted = match table_state {
        TableState::Nothing => None,
        TableState::Delayed | TableState::History => Some(Target::AtMost(1.1)),
        TableState::HeldTransaction => Some(Target::AtMost(2.0)),
    };
    let (pages_by, full_by) = (by(&pages, baseline.0), by(&full, baseline.1));
    let mut figures = vec![
        Figure::new(format!("pages of a claim of 2,000, {name}"), "pages", pages, Target::None),
        Figure::new(format!("execution of a claim of 2,000, {name}"), "ms", all(|leg| leg.milliseconds), Target::None),
    ];
    let polls = [("a poll", all(|leg| leg.pages_of_poll)), ("a full scan", all(|leg| leg.pages_of_full_scan))];
    figures.extend(
        polls.map(|(poll, pages)| Figure::new(format!("pages of {poll}, {name}"), "pages", pages, Target::None)),
    );
    if let Some(wanted) = wanted {
        figures.push(Figure::new(format!("by those with nothing beside, {name}"), "", pages_by, wanted));
        figures.push(Figure::new(format!("the same of a full sweep, {name}"), "", full_by, Target::None));
    }
    Ok(figures)
}

/// Prepares the tables. Returns the connection whose transaction must stay open.
async fn prepare(
    table_state: TableState,
    rows: i64,
    passing: Duration,
    env: &BenchEnv,
    recorder: &Recorder,
) -> Result<Option<AsyncPgConnection>> {
    database::reset(&env.postgres).await?;
    let mut conn = database::connect(&env.postgres).await?;
    match table_state {
        TableState::Nothing => {}
        TableState::Delayed => delayed(&mut conn, rows).await?,
        TableState::History => history(&mut conn, 10 * rows).await?,
        TableState::HeldTransaction => {
            let held = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM orders";
            conn.batch_execute(held).await?;
            pass(rows, passing, env, recorder).await?;
            return Ok(Some(conn));
        }
    }
    // One by one: a batch would be a transaction, in which VACUUM is refused.
    for statement in ["VACUUM ANALYZE outbox_messages", "VACUUM ANALYZE outbox_history", "CHECKPOINT"] {
        conn.batch_execute(statement).await?;
    }
    Ok(None)
}

/// Due over the next month.
async fn delayed(conn: &mut AsyncPgConnection, rows: i64) -> Result<()> {
    let insert = sql_query(
        "INSERT INTO outbox_messages (message_id, topic, key, kind, headers, payload, due_at, deliver_at) \
         SELECT gen_random_uuid(), $1, g::text, 'order.placed', '[]', repeat('x', 200)::bytea, due, due \
         FROM generate_series(1, $2) g, LATERAL (SELECT now() + interval '30 days' + g * interval '1 second' AS due) t",
    );
    insert.bind::<Text, _>(TOPIC).bind::<BigInt, _>(rows).execute(conn).await?;
    Ok(())
}

async fn history(conn: &mut AsyncPgConnection, rows: i64) -> Result<()> {
    let insert = sql_query(
        "INSERT INTO outbox_history (id, message_id, topic, lane, key, kind, headers, epoch, attempts, failures, errors, \
           created_at, sent_at, falls_on, awaits_processing) \
         SELECT -g, gen_random_uuid(), $1, -1, g::text, 'order.placed', '[]', 0, 0, 0, '[]', now(), now(), \
           current_date + 7, false FROM generate_series(1, $2) g",
    );
    insert.bind::<Text, _>(TOPIC).bind::<BigInt, _>(rows).execute(conn).await?;
    Ok(())
}

/// Inserts this many rows, an equal part each tenth of a second, and has them relayed and removed.
async fn pass(rows: i64, within: Duration, env: &BenchEnv, recorder: &Recorder) -> Result<()> {
    recorder.reset();
    let outbox = application::outbox(&[TOPIC])?;
    let relay = application::start_relay(&outbox, &env.postgres, MemoryTransport::new()).await?;
    let steps = ((within.as_secs_f64() * 10.0) as i64).max(1);
    let (mut conn, started) = (database::connect(&env.postgres).await?, Instant::now());
    for step in 0..steps {
        let part = rows * (step + 1) / steps - rows * step / steps;
        let insert = sql_query(
            "INSERT INTO outbox_messages (message_id, topic, key, kind, headers, payload, due_at) \
             SELECT gen_random_uuid(), $1, g::text, 'order.placed', '[]', repeat('x', 500)::bytea, clock_timestamp() \
             FROM generate_series(1, $2) g",
        );
        insert.bind::<Text, _>(TOPIC).bind::<BigInt, _>(part).execute(&mut conn).await?;
        let next = started + within.mul_f64((step + 1) as f64 / steps as f64);
        tokio::time::sleep(next.saturating_duration_since(Instant::now())).await;
    }
    application::delivered(recorder, rows as u64, Duration::from_secs(300)).await?;
    database::wait_until_empty(&env.postgres, Duration::from_secs(60)).await?;
    application::stop_relay(relay).await;
    Ok(())
}

/// Removes the due rows, for the next round. Under an open transaction their dead entries stay, which are few.
async fn remove_due(env: &BenchEnv, is_held: bool) -> Result<()> {
    let mut conn = database::connect(&env.postgres).await?;
    let delete = sql_query("DELETE FROM outbox_messages WHERE topic = $1 AND due_at <= now()");
    let removed = delete.bind::<Text, _>(TOPIC).execute(&mut conn).await?;
    ensure!(removed as i64 == DUE, "{removed} rows were due in place of {DUE}");
    if !is_held {
        // For so few rows it would leave the index entries.
        conn.batch_execute("VACUUM (INDEX_CLEANUP ON) outbox_messages").await?;
    }
    Ok(())
}

/// Measures a claim of a relay that has been working, and one of a full scan.
async fn measure(claim: &ClaimSql, poll: &PollSql, env: &BenchEnv) -> Result<Leg> {
    let mut conn = database::connect(&env.postgres).await?;
    let Pages { touched: pages, milliseconds } = claim.explain(&mut conn, TOPIC, true).await?;
    let full = claim.explain(&mut conn, TOPIC, false).await?;
    let pages_of_poll = poll.explain(&mut conn, TOPIC, true).await?.touched;
    let pages_of_full_scan = poll.explain(&mut conn, TOPIC, false).await?.touched;
    Ok(Leg { pages, pages_of_full_claim: full.touched, milliseconds, pages_of_poll, pages_of_full_scan })
}
