//! The same backlog, from one server into one broker, through Debezium and through a relay.

use anyhow::{Context, Result};
use serde::Serialize;
use xtask::bench_results::short;

use super::drain;
use crate::application::{self, PAYLOAD_BYTES};
use crate::arguments::{BenchEnv, Plan};
use crate::cpu::CpuShare;
use crate::cpu_breakdown::{CpuBreakdown, CpuBreakdownMeter, SidePids};
use crate::debezium::Debezium;
use crate::reader::Reader;
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};
use crate::{broker, database};

const ROWS: usize = 300_000;
/// One row in a transaction, as an outbox writes.
const ONE: usize = 1;
/// The case in which Debezium is faster: a reader of the log pays for each transaction.
const MANY: usize = 100;

/// The programs that drain a backlog.
#[derive(Debug, Clone, Copy)]
enum Subject {
    Debezium { per_transaction: usize },
    Relay,
}

const LEGS: [Subject; 3] =
    [Subject::Debezium { per_transaction: ONE }, Subject::Debezium { per_transaction: MANY }, Subject::Relay];

/// One drain of either.
#[derive(Debug, Serialize)]
struct Leg {
    messages_per_second: f64,
    second_copies: u64,
    /// For one message.
    #[serde(flatten)]
    sides: CpuBreakdown,
}

/// Both have the same rows in tables with the same columns. Where they cannot be measured alike, Debezium gets the
/// advantage. Its clock starts when its first message is in the topic, the relay's before it connects. The relay's
/// clock stops when the last row is deleted; Debezium deletes no rows.
pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let rows = plan.messages(ROWS);
    let debezium = Debezium::prepare(env).await?;
    let mut legs = LEGS.map(|_| Vec::new());
    for round in 0..plan.rounds(3) {
        // The order rotates, so that no leg always follows the same one. Debezium's connector runs only in its own
        // legs.
        for step in 0..LEGS.len() {
            let number = (round + step) % LEGS.len();
            let topic = format!("debezium-{round}-{number}");
            broker::make_topics(&env.kafka, &[&topic]).await?;
            let (name, leg, cpu) = match LEGS[number] {
                Subject::Debezium { per_transaction } => {
                    let drain = debezium.drain(&topic, rows, per_transaction).await?;
                    let messages_per_second = rows as f64 / drain.seconds;
                    let leg = Leg { messages_per_second, second_copies: drain.second_copies, sides: drain.sides };
                    (format!("Debezium, rows a transaction: {per_transaction}"), leg, drain.cpu)
                }
                Subject::Relay => {
                    let (leg, cpu) = relayed(env, recorder, &topic, rows).await?;
                    ("relay".to_owned(), leg, cpu)
                }
            };
            leg_log.leg(&name, cpu, &leg)?;
            legs[number].push(leg);
            broker::delete_topic(&env.kafka, &topic).await?;
        }
    }
    figures(rows, &legs)
}

async fn relayed(env: &BenchEnv, recorder: &Recorder, topic: &str, rows: usize) -> Result<(Leg, CpuShare)> {
    database::reset(&env.postgres).await?;
    database::fill_by_transactions(&env.postgres, "outbox_messages", topic, rows, PAYLOAD_BYTES, ONE).await?;
    let debezium_env = env.debezium.as_ref().context("a Debezium beside us")?;
    // The relay is in this process.
    let client = std::process::id();
    let sides = CpuBreakdownMeter::start(SidePids {
        database: debezium_env.database_pid,
        broker: debezium_env.broker_pid,
        client,
    })?;
    let (drain, cpu) =
        drain::drained(env, recorder, application::outbox(&[topic])?, application::kafka(&env.kafka)?, rows).await?;
    let sides = sides.stop(rows)?;
    let reader = Reader::new(&env.kafka, topic)?;
    let second_copies = tokio::task::block_in_place(|| reader.second_copies(rows, &database::payloads(PAYLOAD_BYTES)))?;
    Ok((Leg { messages_per_second: drain.messages_per_second, second_copies, sides }, cpu))
}

fn figures(rows: usize, legs: &[Vec<Leg>; 3]) -> Result<Vec<Figure>> {
    let [one, hundred, ours] = legs;
    let who = [
        ("Debezium", "connector", one.as_slice()),
        ("Debezium, 100 rows a transaction", "connector", hundred.as_slice()),
        ("relay", "relay and librdkafka", ours.as_slice()),
    ];
    let all = |legs: &[Leg], of: fn(&Leg) -> f64| legs.iter().map(of).collect::<Vec<f64>>();
    let rate = |leg: &Leg| leg.messages_per_second;
    let mut figures = Vec::new();
    for (who, _, legs) in who {
        let what = format!("{who}: drain of {} x 500 B into Kafka", short(rows as f64));
        figures.push(Figure::new(what, "msg/s", all(legs, rate), Target::None));
    }
    let multiples = |theirs: &[Leg]| ours.iter().zip(theirs).map(|(ours, theirs)| rate(ours) / rate(theirs)).collect();
    figures.push(Figure::new("relay, multiple of Debezium", "", multiples(one), Target::AtLeast(5.0)));
    let what = "relay, multiple of Debezium, 100 rows a transaction";
    figures.push(Figure::new(what, "", multiples(hundred), Target::None));
    let processors = std::thread::available_parallelism()?;
    for (who, client, legs) in who {
        let busy = |leg: &Leg| leg.sides.all_us() * leg.messages_per_second / 1e6;
        figures.push(Figure::new(format!("{who}: busy, of {processors}"), "processors", all(legs, busy), Target::None));
        let mut side = |side: &str, of: fn(&Leg) -> f64| {
            figures.push(Figure::new(format!("{who}: {side}, a message"), "us", all(legs, of), Target::None));
        };
        side("database", |leg| leg.sides.database_us);
        side("broker", |leg| leg.sides.broker_us);
        side(client, |leg| leg.sides.client_us);
    }
    let copies = |legs: &[Leg]| all(legs, |leg| leg.second_copies as f64);
    let debezium = [copies(one), copies(hundred)].concat();
    figures.push(Figure::new("Debezium, second copies of a leg", "msg", debezium, Target::None));
    figures.push(Figure::new("relay, second copies of a leg", "msg", copies(ours), Target::AtMost(0.0)));
    Ok(figures)
}
