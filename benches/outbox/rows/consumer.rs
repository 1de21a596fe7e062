//! Records a second of a consumer: its transactions against those of a loop by hand, and keys in parallel against one after the other.

use anyhow::Result;
use diesel_outbox::consumer::Progress;
use tokio::task::block_in_place;

use crate::arguments::{BenchEnv, Plan};
use crate::broker::{self, PARTITIONS};
use crate::consuming::{FullTopic, Handler, Reading};
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};

/// More than any leg reads.
const RECORDS: usize = 200_000;
const BATCHED_RECORDS: usize = 600_000;
const KEYS: usize = 64;
/// Records of a batch, which is one transaction.
const BATCH: usize = 16;

/// With as many workers as there are partitions, as many as the loop by hand has threads.
const fn orders(progress: Progress, batch: usize) -> Reading {
    Reading::Consumer { progress, workers: PARTITIONS as usize, batch, handler: Handler::Order }
}

const fn waits(workers: usize, batch: usize) -> Reading {
    Reading::Consumer { progress: Progress::Inbox, workers, batch, handler: Handler::Wait }
}

const ORDERS: [(&str, Reading); 4] = [
    ("by hand", Reading::ByHand { batch: 1 }),
    ("offsets in the database", orders(Progress::Offsets, 1)),
    ("inbox", orders(Progress::Inbox, 1)),
    ("inbox and offsets", orders(Progress::InboxAndOffsets, 1)),
];

const BATCHES: [(&str, Reading); 4] = [
    ("by hand, one by one", Reading::ByHand { batch: 1 }),
    ("by hand, batches of 16", Reading::ByHand { batch: BATCH }),
    ("offsets in the database, batches of 16", orders(Progress::Offsets, BATCH)),
    ("inbox, batches of 16", orders(Progress::Inbox, BATCH)),
];

const WAITS: [(&str, Reading); 3] = [
    ("64 at a time", waits(KEYS, 1)),
    ("64 at a time, batches of 16", waits(KEYS, BATCH)),
    ("one at a time", waits(1, 1)),
];

/// The cost of what keeps a record from being processed twice.
///
/// The records have no keys, so each leg runs those of a partition one after the other, and as many at a time as there are partitions.
pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let (records, duration) = (plan.messages(RECORDS), plan.duration(10.0));
    let topic = FullTopic { name: "consumed", partitions: PARTITIONS, records, duration, env, recorder };
    let rates = rates(ORDERS, topic, |_| None, plan.rounds(5), leg_log).await?;
    let [by_hand, offsets, inbox, both] = &rates;
    // The consumer always keeps its progress in the database, so there are two transactions that lack only its offsets. Both readings of
    // the target are held to it: the loop by hand has neither, and the inbox alone is the same loop.
    let share = Target::AtLeast(0.95);
    let mut figures = vec![
        Figure::new("consumer, offsets in the database by a loop by hand without", "", by(offsets, by_hand), share),
        Figure::new("consumer, inbox and offsets by the inbox alone", "", by(both, inbox), share),
        Figure::new("consumer, inbox by a loop by hand without", "", by(inbox, by_hand), Target::AtLeast(0.80)),
    ];
    figures.extend(ORDERS.into_iter().zip(rates).map(|((name, _), rates)| absolute(name, rates)));
    Ok(figures)
}

/// The same with several records in a transaction.
pub(crate) async fn run_batches(
    plan: &Plan,
    env: &BenchEnv,
    recorder: &Recorder,
    leg_log: &mut LegLog,
) -> Result<Vec<Figure>> {
    let (records, duration) = (plan.messages(BATCHED_RECORDS), plan.duration(10.0));
    let topic = FullTopic { name: "consumed-in-batches", partitions: PARTITIONS, records, duration, env, recorder };
    let rates = rates(BATCHES, topic, |_| None, plan.rounds(3), leg_log).await?;
    let [one_by_one, by_hand, offsets, inbox] = &rates;
    let of = |what: &str, rates: &[f64], others: &[f64], target| Figure::new(what, "", by(rates, others), target);
    let mut figures = vec![
        of("consumer, offsets and batches by a loop by hand without", offsets, one_by_one, Target::AtLeast(0.95)),
        of("consumer, inbox and batches by a loop by hand without", inbox, one_by_one, Target::AtLeast(0.80)),
        of("consumer, offsets and batches by a loop by hand with the same batches", offsets, by_hand, Target::None),
        of("consumer, inbox and batches by a loop by hand with the same batches", inbox, by_hand, Target::None),
    ];
    figures.extend(BATCHES.into_iter().zip(rates).map(|((name, _), rates)| absolute(name, rates)));
    Ok(figures)
}

/// Keys in parallel, where a handler waits: in one partition, which alone would run one record at a time.
pub(crate) async fn run_keys(
    plan: &Plan,
    env: &BenchEnv,
    recorder: &Recorder,
    leg_log: &mut LegLog,
) -> Result<Vec<Figure>> {
    let (records, duration) = (plan.messages(RECORDS), plan.duration(10.0));
    let topic = FullTopic { name: "consumed-by-key", partitions: 1, records, duration, env, recorder };
    let key = |number: usize| Some((number % KEYS).to_string());
    let rates = rates(WAITS, topic, key, plan.rounds(3), leg_log).await?;
    let [parallel, batches, single] = &rates;
    let of = |what: &str, rates: &[f64]| Figure::new(what, "", by(rates, single), Target::AtLeast(40.0));
    let mut figures = vec![
        of("consumer, 64 keys at a time by one record at a time, handler of 5 ms", parallel),
        of("consumer, 64 keys at a time in batches by one record at a time, handler of 5 ms", batches),
    ];
    figures.extend(WAITS.into_iter().zip(rates).map(|((name, _), rates)| absolute(name, rates)));
    Ok(figures)
}

/// Copies, recognised by a consumer that reads again what was handled.
pub(crate) async fn run_copies(
    plan: &Plan,
    env: &BenchEnv,
    recorder: &Recorder,
    leg_log: &mut LegLog,
) -> Result<Vec<Figure>> {
    let (records, duration) = (plan.messages(RECORDS), plan.duration(10.0));
    let topic = FullTopic { name: "consumed-again", partitions: PARTITIONS, records, duration, env, recorder };
    broker::make_topics(&env.kafka, &[topic.name]).await?;
    block_in_place(|| broker::fill(&env.kafka, topic.name, records, |_| None))?;
    let (mut times, mut rates) = (Vec::new(), [Vec::new(), Vec::new()]);
    for round in 0..plan.rounds(3) {
        let group = format!("{}-{round}", topic.name);
        let (handled, cpu) = topic.read(orders(Progress::Inbox, 1), &group).await?;
        leg_log.leg("inbox", cpu, &handled)?;
        let (copies, cpu) = topic.read_again(&group, PARTITIONS as usize).await?;
        leg_log.leg("copies", cpu, &copies)?;
        times.push(copies.records_per_second / handled.records_per_second);
        rates[0].push(handled.records_per_second);
        rates[1].push(copies.records_per_second);
    }
    broker::delete_topic(&env.kafka, topic.name).await?;
    let [handled, copies] = rates;
    Ok(vec![
        Figure::new("consumer, copies by handled records", "", times, Target::AtLeast(5.0)),
        absolute("handled, before copies", handled),
        absolute("copies", copies),
    ])
}

fn by(rates: &[f64], others: &[f64]) -> Vec<f64> {
    rates.iter().zip(others).map(|(one, other)| one / other).collect()
}

fn absolute(name: &str, rates: Vec<f64>) -> Figure {
    Figure::new(format!("consumer, {name}"), "msg/s", rates, Target::None)
}

/// Fills the topic, and returns the records a second of each leg, round by round.
async fn rates<const LEGS: usize>(
    legs: [(&str, Reading); LEGS],
    topic: FullTopic<'_>,
    key: impl Fn(usize) -> Option<String>,
    rounds: usize,
    leg_log: &mut LegLog,
) -> Result<[Vec<f64>; LEGS]> {
    broker::make_topics_with(&topic.env.kafka, &[topic.name], topic.partitions).await?;
    block_in_place(|| broker::fill(&topic.env.kafka, topic.name, topic.records, key))?;
    let mut rates = [const { Vec::new() }; LEGS];
    // The order rotates, so that no leg always follows the same one.
    for round in 0..rounds {
        for step in 0..LEGS {
            let at = (round + step) % LEGS;
            let (name, reading) = legs[at];
            let (leg, cpu) = topic.read(reading, &format!("{}-{round}-{at}", topic.name)).await?;
            leg_log.leg(name, cpu, &leg)?;
            rates[at].push(leg.records_per_second);
        }
    }
    broker::delete_topic(&topic.env.kafka, topic.name).await?;
    Ok(rates)
}
