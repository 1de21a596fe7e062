//! The database cost of a message: statements and bytes of its log, beyond those of the application.

use anyhow::Result;
use diesel_async::SimpleAsyncConnection;
use serde::Serialize;

use super::idle::{self, Statement};
use crate::arguments::{BenchEnv, Plan};
use crate::database;
use crate::load::{self, Enqueue, Load, RelayTo, Throughput};
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};

const LEGS: [Load; 4] = [
    Load::BASELINE,
    Load { enqueue: Enqueue::Hook, relay_to: RelayTo::Memory },
    Load { enqueue: Enqueue::Transaction, relay_to: RelayTo::Memory },
    Load { enqueue: Enqueue::ByHand, relay_to: RelayTo::Nowhere },
];

#[derive(Serialize)]
struct Leg {
    statements_per_tx: Option<f64>,
    wal_bytes_per_tx: f64,
    statements: Vec<Statement>,
    #[serde(flatten)]
    throughput: Throughput,
}

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let mut conn = database::connect(&env.postgres).await?;
    let counts_statements = conn.batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements").await.is_ok();
    let (mut statements, mut bytes) = (LEGS.map(|_| Vec::new()), LEGS.map(|_| Vec::new()));
    for _ in 0..plan.rounds(3) {
        for (number, load) in LEGS.into_iter().enumerate() {
            crate::by_hand::make_table(&mut conn).await?;
            let written_before = written(env).await?;
            if counts_statements {
                conn.batch_execute("SELECT pg_stat_statements_reset()").await?;
            }
            let (throughput, cpu) = load::run(load, &env.postgres, env, recorder, plan.duration(6.0)).await?;
            let counted = if counts_statements { idle::statements(&mut conn).await? } else { Vec::new() };
            let transactions = throughput.transactions as f64;
            let calls = calls(&counted, throughput.transactions as i64) as f64;
            let statements_per_tx = counts_statements.then_some(calls / transactions);
            let wal_bytes_per_tx = (written(env).await? - written_before) as f64 / transactions;
            leg_log.leg(
                load.name(),
                cpu,
                Leg { statements_per_tx, wal_bytes_per_tx, statements: counted, throughput },
            )?;
            statements[number].extend(statements_per_tx);
            bytes[number].push(wal_bytes_per_tx);
        }
    }
    let mut figures = Vec::new();
    for (what, unit, samples) in
        [("statements of a transaction", "statements", &statements), ("log of a transaction, one INSERT", "B", &bytes)]
    {
        let [baseline, with @ ..] = samples;
        figures.push(Figure::new(format!("{what}, without outbox"), unit, baseline.clone(), Target::None));
        for (load, samples) in LEGS[1..].iter().zip(with) {
            let more = samples.iter().zip(baseline).map(|(with, without)| with - without).collect();
            figures.push(Figure::new(format!("{what}, more with {}", load.name()), unit, more, Target::None));
        }
    }
    Ok(figures)
}

/// The number of statements of a leg in which the clients made this many transactions.
///
/// The server's count of transaction ends is not used: `outbox.transaction` sends its COMMIT as a prepared statement,
/// and PostgreSQL 14 and 15 count only the first execution of such a one. Instead each transaction of the clients or
/// the relay counts twice, as BEGIN and end. The relay's are the BEGINs beyond the clients'.
fn calls(counted: &[Statement], transactions: i64) -> i64 {
    let (mut begun, mut others) = (0, 0);
    for Statement { calls, query } in counted {
        let word = query.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
        match word.to_ascii_uppercase().as_str() {
            "BEGIN" | "START" => begun += calls,
            "COMMIT" | "END" | "ROLLBACK" | "ABORT" => {}
            _ => others += calls,
        }
    }
    others + 2 * begun.max(transactions)
}

/// Bytes of log so far.
async fn written(env: &BenchEnv) -> Result<i64> {
    let query = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint AS count";
    database::count(&mut database::connect(&env.postgres).await?, query).await
}
