//! The pages that one claim of the sweeper touches, and one look of the scout (EXPLAIN BUFFERS): beside delayed messages, beside a large history, and
//! while somebody's transaction keeps vacuum from what is gone.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diesel::sql_query;
use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::transport::MemoryTransport;
use serde::Serialize;
use xtask::results::{Spread, short};

use crate::application::{self, PAYLOAD_BYTES};
use crate::arguments::{Place, Plan};
use crate::cpu::CpuMeter;
use crate::explain::{Claim, Look, Pages};
use crate::recorder::Recorder;
use crate::report::{Figure, Floor, Journal};
use crate::{database, explain};

const TOPIC: &str = "claims";
const ROWS: usize = 1_000_000;
/// Rows that are due, a claim's worth.
const DUE: i64 = 2_000;
/// For how long [`ROWS`] pass that a held transaction keeps; more pass as quickly.
const PASSING_SECONDS: f64 = 120.0;

/// What is beside the due rows.
#[derive(Debug, Clone, Copy)]
enum Beside {
    Nothing,
    Delayed,
    History,
    HeldTransaction,
}

#[derive(Serialize)]
struct Leg {
    pages: f64,
    pages_of_full_sweep: f64,
    milliseconds: f64,
    pages_of_look: f64,
    pages_of_look_back: f64,
}

pub(crate) async fn run(plan: &Plan, place: &Place, recorder: &Recorder, journal: &mut Journal) -> Result<Vec<Figure>> {
    let rows = plan.messages(ROWS) as i64;
    let (claim, look) = explain::seen(&place.postgres).await?;
    let passing = plan.duration(PASSING_SECONDS * (rows as f64 / ROWS as f64).max(1.0));
    let cases = [
        (Beside::Nothing, "nothing beside".to_owned()),
        (Beside::Delayed, format!("{} delayed messages", short(rows as f64))),
        (Beside::History, format!("{} messages in the history", short(10.0 * rows as f64))),
        (Beside::HeldTransaction, format!("{} passed a held transaction", short(rows as f64))),
    ];
    let (mut figures, mut nothing) = (Vec::new(), None);
    for (beside, name) in cases {
        let held = prepare(beside, rows, passing, place, recorder).await?;
        let mut legs = Vec::new();
        // What passed is soon behind the watermark's slack: a second round would be of less.
        let rounds = if held.is_some() { 1 } else { plan.rounds(3) };
        for _ in 0..rounds {
            let cpu = CpuMeter::start(place.root)?;
            database::fill(&place.postgres, TOPIC, DUE, PAYLOAD_BYTES, 0).await?;
            let leg = measure(&claim, &look, place).await?;
            journal.leg(&name, cpu.stop()?, &leg)?;
            legs.push(leg);
            remove_due(place, held.is_some()).await?;
        }
        drop(held);
        figures.extend(figures_of(beside, &name, &legs, &mut nothing)?);
    }
    Ok(figures)
}

/// Of a state; `nothing` keeps the medians of the first, which has nothing beside.
fn figures_of(beside: Beside, name: &str, legs: &[Leg], nothing: &mut Option<(f64, f64)>) -> Result<Vec<Figure>> {
    let all = |of: fn(&Leg) -> f64| legs.iter().map(of).collect::<Vec<f64>>();
    let (pages, full) = (all(|leg| leg.pages), all(|leg| leg.pages_of_full_sweep));
    let median = |samples: &[f64]| Spread::of(samples).context("nothing was measured").map(|spread| spread.median);
    let floor = *nothing.get_or_insert((median(&pages)?, median(&full)?));
    let by = |samples: &[f64], floor: f64| samples.iter().map(|pages| pages / floor).collect::<Vec<f64>>();
    let wanted = match beside {
        Beside::Nothing => None,
        Beside::Delayed | Beside::History => Some(Floor::AtMost(1.1)),
        Beside::HeldTransaction => Some(Floor::AtMost(2.0)),
    };
    let (pages_by, full_by) = (by(&pages, floor.0), by(&full, floor.1));
    let mut figures = vec![
        Figure::new(format!("pages of a claim of 2,000, {name}"), "pages", pages, Floor::None),
        Figure::new(format!("execution of a claim of 2,000, {name}"), "ms", all(|leg| leg.milliseconds), Floor::None),
    ];
    let looks =
        [("a look", all(|leg| leg.pages_of_look)), ("a look from the beginning", all(|leg| leg.pages_of_look_back))];
    figures.extend(
        looks.map(|(look, pages)| Figure::new(format!("pages of {look}, {name}"), "pages", pages, Floor::None)),
    );
    if let Some(wanted) = wanted {
        figures.push(Figure::new(format!("by those with nothing beside, {name}"), "", pages_by, wanted));
        figures.push(Figure::new(format!("the same of a full sweep, {name}"), "", full_by, Floor::None));
    }
    Ok(figures)
}

/// Brings the tables into that state; returns the connection whose transaction has to stay open.
async fn prepare(
    beside: Beside,
    rows: i64,
    passing: Duration,
    place: &Place,
    recorder: &Recorder,
) -> Result<Option<AsyncPgConnection>> {
    database::reset(&place.postgres).await?;
    let mut conn = database::connect(&place.postgres).await?;
    match beside {
        Beside::Nothing => {}
        Beside::Delayed => delayed(&mut conn, rows).await?,
        Beside::History => history(&mut conn, 10 * rows).await?,
        Beside::HeldTransaction => {
            let held = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM orders";
            conn.batch_execute(held).await?;
            pass(rows, passing, place, recorder).await?;
            return Ok(Some(conn));
        }
    }
    // One by one: a batch would be a transaction, in which VACUUM is refused.
    for statement in ["VACUUM ANALYZE outbox_messages", "VACUUM ANALYZE outbox_history", "CHECKPOINT"] {
        conn.batch_execute(statement).await?;
    }
    Ok(None)
}

/// Due in the course of next month.
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

/// So many rows come, in equal parts each tenth of a second, are relayed and are gone.
async fn pass(rows: i64, within: Duration, place: &Place, recorder: &Recorder) -> Result<()> {
    recorder.reset();
    let outbox = application::outbox(&[TOPIC])?;
    let relay = application::start_relay(&outbox, &place.postgres, MemoryTransport::new()).await?;
    let steps = ((within.as_secs_f64() * 10.0) as i64).max(1);
    let (mut conn, started) = (database::connect(&place.postgres).await?, Instant::now());
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
    database::all_gone(&place.postgres, Duration::from_secs(60)).await?;
    application::stop_relay(relay).await;
    Ok(())
}

/// Takes the due rows away again, for the next round. Under a held transaction their traces stay, few beside those that are
/// there.
async fn remove_due(place: &Place, is_held: bool) -> Result<()> {
    let mut conn = database::connect(&place.postgres).await?;
    let delete = sql_query("DELETE FROM outbox_messages WHERE topic = $1 AND due_at <= now()");
    let removed = delete.bind::<Text, _>(TOPIC).execute(&mut conn).await?;
    ensure!(removed as i64 == DUE, "{removed} rows were due in place of {DUE}");
    if !is_held {
        // Of so few rows it would leave the entries of the index.
        conn.batch_execute("VACUUM (INDEX_CLEANUP ON) outbox_messages").await?;
    }
    Ok(())
}

/// As a relay claims that has been at it, and as one that sweeps from the beginning.
async fn measure(claim: &Claim, look: &Look, place: &Place) -> Result<Leg> {
    let mut conn = database::connect(&place.postgres).await?;
    let Pages { touched: pages, milliseconds } = claim.explain(&mut conn, TOPIC, true).await?;
    let full = claim.explain(&mut conn, TOPIC, false).await?;
    let pages_of_look = look.explain(&mut conn, TOPIC, true).await?.touched;
    let pages_of_look_back = look.explain(&mut conn, TOPIC, false).await?.touched;
    Ok(Leg { pages, pages_of_full_sweep: full.touched, milliseconds, pages_of_look, pages_of_look_back })
}
