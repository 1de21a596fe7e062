//! The cost of a consumer's inbox: a handler with one INSERT, with and without it; batches, copies, and a large inbox under pruning.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diesel::sql_types::{Array, BigInt};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::MessageId;
use diesel_outbox::inbox::{Inbox, InboxError, Once};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::arguments::{BenchEnv, Plan};
use crate::clients::place_order;
use crate::cpu::CpuMeter;
use crate::database;
use crate::load::{BATCH, CONNECTIONS};
use crate::report::{Figure, LegLog, Target};

/// The entries of a large inbox.
const ENTRIES: usize = 20_000_000;

/// What the clients do with each message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// BEGIN, one INSERT, COMMIT.
    Plain,
    /// The same with `once_async`.
    Once,
    /// [`BATCH`] messages with one `once_many_async`, whose handler has one INSERT.
    Batch,
    /// `once_async` for a message that was handled before.
    Copies,
}

impl Work {
    const ALL: [Self; 4] = [Self::Plain, Self::Once, Self::Batch, Self::Copies];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "without inbox",
            Self::Once => "once",
            Self::Batch => "batches of 100",
            Self::Copies => "copies",
        }
    }
}

#[derive(Debug, Serialize)]
struct Leg {
    messages_per_second: f64,
    cpu_us_per_message: f64,
    entries: i64,
}

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let inbox = Inbox::builder("bench").build()?;
    inbox.migrate_async(&mut database::connect(&env.postgres).await?).await?;
    let mut rates = Work::ALL.map(|_| Vec::new());
    let rounds = plan.rounds(5);
    // The order rotates, so that no leg always follows the same one.
    for round in 0..rounds {
        for step in 0..Work::ALL.len() {
            let at = (round + step) % Work::ALL.len();
            empty(&inbox, env).await?;
            rates[at].push(leg(Work::ALL[at], Work::ALL[at].name(), &inbox, plan, env, leg_log).await?);
        }
    }
    let [plain, once, batch, copies] = rates;
    let by = |rates: &[f64], others: &[f64]| rates.iter().zip(others).map(|(one, other)| one / other).collect();
    Ok(vec![
        Figure::new("inbox, once by the same transaction without it", "", by(&once, &plain), Target::AtLeast(0.80)),
        Figure::new("inbox, batches of 100 by once", "", by(&batch, &once), Target::AtLeast(5.0)),
        Figure::new("inbox, copies by once", "", by(&copies, &once), Target::AtLeast(5.0)),
        Figure::new("inbox, without it", "msg/s", plain, Target::None),
        Figure::new("inbox, once", "msg/s", once, Target::None),
    ])
}

/// `once` in an inbox with many entries, while old ones are removed, as a share of `once` in an empty one.
pub(crate) async fn run_large(plan: &Plan, env: &BenchEnv, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let inbox = Inbox::builder("bench").build()?;
    inbox.migrate_async(&mut database::connect(&env.postgres).await?).await?;
    let (mut shares, rounds) = (Vec::new(), plan.rounds(3));
    for _ in 0..rounds {
        empty(&inbox, env).await?;
        let before = leg(Work::Once, "empty", &inbox, plan, env, leg_log).await?;
        fill(&inbox, plan.messages(ENTRIES), env).await?;
        let (stop, pruner) = start_pruner(&inbox, env).await?;
        let large = leg(Work::Once, "large, with pruning", &inbox, plan, env, leg_log).await?;
        stop.store(true, Ordering::Relaxed);
        let removed = pruner.await??;
        ensure!(removed > 0, "the prune removed nothing");
        empty(&inbox, env).await?;
        let after = leg(Work::Once, "empty", &inbox, plan, env, leg_log).await?;
        shares.push(large / f64::midpoint(before, after));
    }
    Ok(vec![Figure::new("inbox, many entries and pruning by an empty one", "", shares, Target::AtLeast(0.90))])
}

async fn empty(inbox: &Inbox, env: &BenchEnv) -> Result<()> {
    let mut conn = database::connect(&env.postgres).await?;
    conn.batch_execute("TRUNCATE orders, outbox_inbox; SELECT setval('outbox_inbox_start', 0)").await?;
    while inbox.prune_async(&mut conn).await?.has_more {}
    conn.batch_execute("CHECKPOINT").await.context("checkpoint")
}

/// Entries of the days that are kept, and a twentieth of them older, in the default partition: what a prune finds if none ran for a while.
async fn fill(inbox: &Inbox, entries: usize, env: &BenchEnv) -> Result<()> {
    let mut conn = database::connect(&env.postgres).await?;
    let seconds = i64::from(inbox.keep_days()) * 86_400;
    let insert = |from: &str, seconds: i64, entries: usize| {
        format!(
            "INSERT INTO outbox_inbox (message_id, consumer) SELECT (lpad(to_hex(ms), 12, '0') || '7' || lpad(to_hex(g % 4096), 3, '0') || \
               '8' || lpad(to_hex(g), 15, '0'))::uuid, 1 \
             FROM generate_series(1, {entries}) g, LATERAL (SELECT ((extract(epoch FROM {from}) * 1000)::bigint \
               + (g::numeric * {seconds} * 1000 / {entries})::bigint) AS ms) m"
        )
    };
    conn.batch_execute("SET synchronous_commit = off").await?;
    conn.batch_execute(&insert(&format!("now() - {seconds} * interval '1 second'"), seconds, entries)).await?;
    conn.batch_execute(&insert("timestamptz '2020-01-01'", 86_400, entries / 20)).await?;
    conn.batch_execute("VACUUM ANALYZE outbox_inbox").await?;
    conn.batch_execute("CHECKPOINT").await.context("checkpoint")
}

type Pruner = tokio::task::JoinHandle<Result<usize, InboxError>>;

/// Prunes in steps, with pauses as long as each step, until it is stopped; returns what it removed.
async fn start_pruner(inbox: &Inbox, env: &BenchEnv) -> Result<(Arc<AtomicBool>, Pruner)> {
    let (mut conn, inbox, stop) =
        (database::connect(&env.postgres).await?, inbox.clone(), Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop);
    let pruner = tokio::spawn(async move {
        let mut removed = 0;
        while !AtomicBool::load(&stopped, Ordering::Relaxed) {
            let started = Instant::now();
            removed += inbox.prune_async(&mut conn).await?.entries;
            tokio::time::sleep(started.elapsed().max(Duration::from_millis(10))).await;
        }
        Ok(removed)
    });
    Ok((stop, pruner))
}

/// Runs one leg; returns its messages a second.
async fn leg(work: Work, name: &str, inbox: &Inbox, plan: &Plan, env: &BenchEnv, leg_log: &mut LegLog) -> Result<f64> {
    let (stop, handled) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut clients = JoinSet::new();
    for client in 0..CONNECTIONS as i64 {
        let conn = database::connect(&env.postgres).await?;
        clients.spawn(consume(work, conn, inbox.clone(), client, Arc::clone(&stop), Arc::clone(&handled)));
    }
    let duration = plan.duration(10.0);
    tokio::time::sleep(duration / 5).await; // statements are prepared
    let (cpu, started, before) =
        (CpuMeter::start(env.root)?, Instant::now(), AtomicU64::load(&handled, Ordering::Relaxed));
    tokio::time::sleep(duration).await;
    let (count, elapsed, cpu) = (AtomicU64::load(&handled, Ordering::Relaxed) - before, started.elapsed(), cpu.stop()?);
    stop.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client?.context("a client")?;
    }
    let entries = match work {
        Work::Plain | Work::Copies => 0,
        Work::Once | Work::Batch => {
            let mut conn = database::connect(&env.postgres).await?;
            database::count(&mut conn, "SELECT count(*) AS count FROM outbox_inbox WHERE consumer <> 1").await?
        }
    };
    ensure!(
        matches!(work, Work::Plain | Work::Copies) || entries as u64 >= count,
        "{entries} entries of {count} messages"
    );
    let messages_per_second = count as f64 / elapsed.as_secs_f64();
    let details = Leg { messages_per_second, cpu_us_per_message: cpu.own_us / count.max(1) as f64, entries };
    leg_log.leg(name, cpu, &details)?;
    Ok(messages_per_second)
}

async fn consume(
    work: Work,
    mut conn: AsyncPgConnection,
    inbox: Inbox,
    client: i64,
    stop: Arc<AtomicBool>,
    handled: Arc<AtomicU64>,
) -> Result<()> {
    let copy = MessageId::new();
    inbox.once_async(&mut conn, copy, async |_| Ok::<_, InboxError>(())).await?;
    while !AtomicBool::load(&stop, Ordering::Relaxed) {
        let count = match work {
            Work::Plain => {
                conn.transaction(async |conn| place_order(conn, client).await).await?;
                1
            }
            Work::Once => {
                let once = inbox.once_async(&mut conn, MessageId::new(), async |conn: &mut AsyncPgConnection| {
                    place_order(conn, client).await.map_err(InboxError::from)
                });
                ensure!(once.await? == Once::Done(()), "the message is new");
                1
            }
            Work::Copies => {
                let once = inbox.once_async(&mut conn, copy, async |_| Ok::<_, InboxError>(()));
                ensure!(once.await? == Once::Duplicate, "the message is a copy");
                1
            }
            Work::Batch => handle_batch(&mut conn, &inbox, client).await?,
        };
        handled.fetch_add(count, Ordering::Relaxed);
    }
    Ok(())
}

async fn handle_batch(conn: &mut AsyncPgConnection, inbox: &Inbox, client: i64) -> Result<u64> {
    let messages: Vec<(MessageId, i64)> = (0..BATCH).map(|_| (MessageId::new(), client)).collect();
    let handled = inbox.once_many_async(conn, &messages, |conn, customers| {
        Box::pin(async move {
            let customers: Vec<i64> = customers.iter().map(|customer| **customer).collect();
            let insert = "INSERT INTO orders (customer, total_cents) SELECT c, c * 100 FROM unnest($1) AS c";
            diesel::sql_query(insert).bind::<Array<BigInt>, _>(customers).execute(conn).await?;
            Ok::<_, InboxError>(())
        })
    });
    for once in handled.await? {
        ensure!(once? == Once::Done(()), "the message is new");
    }
    Ok(messages.len() as u64)
}
