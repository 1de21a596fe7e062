//! From the end of COMMIT to the broker's acknowledgement, on one schedule with two baselines: a handwritten hook, and
//! a plain producer from send to acknowledgement.

use anyhow::Result;
use diesel_outbox::Topic;

use crate::arguments::{BenchEnv, Plan};
use crate::broker::BareProducer;
use crate::load::{self, TOPIC};
use crate::open_loop::{self, OpenLoop};
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};
use crate::stats::Waits;
use crate::{broker, handwritten_hook};

/// From an idle application to one that nearly fills two cores.
const PER_SECOND: [f64; 4] = [200.0, 1_000.0, 2_000.0, 5_000.0];
/// The most, as a multiple of the handwritten hook, at each rate.
const BY_HAND_MAX: f64 = 1.5;

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    broker::make_topics(&env.kafka, &[TOPIC]).await?;
    load::warm_up(env, recorder).await?;
    let mut figures = Vec::new();
    for per_second in PER_SECOND {
        figures.extend(at(per_second, plan, env, recorder, leg_log).await?);
    }
    Ok(figures)
}

async fn at(
    per_second: f64,
    plan: &Plan,
    env: &BenchEnv,
    recorder: &Recorder,
    leg_log: &mut LegLog,
) -> Result<Vec<Figure>> {
    let of = OpenLoop { per_second, duration: plan.duration(20.0), keys: usize::MAX, lanes: 0 };
    let rate = format!("{per_second:.0} a second");
    let (mut bares, mut by_hand, mut boxes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds(3) {
        let producer = BareProducer::new(&env.kafka, TOPIC, of.messages(), &[])?;
        let (bare, cpu) = open_loop::bare(env, producer, of).await?;
        leg_log.leg(&format!("bare rdkafka, {rate}"), cpu, &bare)?;
        bares.push(bare.waits_us);
        let (hand, cpu) = handwritten_hook::run(env, of).await?;
        leg_log.leg(&format!("hook by hand, {rate}"), cpu, &hand)?;
        by_hand.push(hand.waits_us);
        let (outbox, cpu) = open_loop::outbox(env, recorder, of, Topic::new(TOPIC)).await?;
        leg_log.leg(&format!("outbox, {rate}"), cpu, &outbox)?;
        boxes.push(outbox.waits_us);
    }
    let legs = [
        ("bare rdkafka, send to ack", &bares),
        ("hook by hand, COMMIT to ack", &by_hand),
        ("outbox, COMMIT to ack", &boxes),
    ];
    let mut figures = Vec::new();
    for (name, legs) in legs {
        for percentile in Waits::PERCENTILES {
            let samples = legs.iter().map(|waits| waits.at(percentile)).collect();
            figures.push(Figure::new(format!("{name}, {rate}, {percentile}"), "us", samples, Target::None));
        }
    }
    // Under load both hooks wait for the CPU that they share with the database. The plain producer does not.
    let bare_max = |max| if per_second == PER_SECOND[0] { Target::AtMost(max) } else { Target::None };
    let baselines = [
        ("the hook by hand", &by_hand, Target::AtMost(BY_HAND_MAX), Target::AtMost(BY_HAND_MAX)),
        ("bare send to ack", &bares, bare_max(1.5), bare_max(2.0)),
    ];
    for (name, baseline, p50, p99) in baselines {
        for (percentile, wanted) in [("p50", p50), ("p99", p99)] {
            let pairs = boxes.iter().zip(baseline);
            let ratios = pairs.map(|(with, base)| with.at(percentile) / base.at(percentile)).collect();
            figures.push(Figure::new(format!("COMMIT to ack by {name}, {rate}, {percentile}"), "", ratios, wanted));
        }
    }
    Ok(figures)
}
