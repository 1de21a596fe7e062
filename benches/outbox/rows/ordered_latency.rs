//! From the end of COMMIT to the broker's acknowledgement on an ordered topic, compared with an unordered one.

use anyhow::Result;
use diesel_outbox::Topic;

use crate::arguments::{BenchEnv, Plan};
use crate::broker;
use crate::load::TOPIC;
use crate::open_loop::{self, OpenLoop};
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};

const PER_SECOND: f64 = 200.0;
const KEYS: usize = 1_000;
const LANES: u16 = 16;

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    broker::make_topics(&env.kafka, &[TOPIC]).await?;
    let (mut unordered, mut ordered) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds(3) {
        for (name, topic, lanes, legs) in [
            ("unordered", Topic::new(TOPIC), 0, &mut unordered),
            ("ordered", Topic::new(TOPIC).ordered_by_key().lanes(LANES), LANES, &mut ordered),
        ] {
            let of = OpenLoop { per_second: PER_SECOND, duration: plan.duration(20.0), keys: KEYS, lanes };
            let (leg, cpu) = open_loop::outbox(env, recorder, of, topic).await?;
            leg_log.leg(name, cpu, &leg)?;
            legs.push(leg.waits_us);
        }
    }
    let mut figures = Vec::new();
    for (name, legs) in [("unordered", &unordered), ("ordered", &ordered)] {
        for percentile in ["p50", "p99"] {
            let samples = legs.iter().map(|waits| waits.at(percentile)).collect();
            figures.push(Figure::new(
                format!("COMMIT to ack, 1,000 keys, {name}, {percentile}"),
                "us",
                samples,
                Target::None,
            ));
        }
    }
    for (percentile, target) in [("p50", Target::AtMost(2.0)), ("p99", Target::None)] {
        let ratios = ordered.iter().zip(&unordered).map(|(with, without)| with.at(percentile) / without.at(percentile));
        figures.push(Figure::new(format!("ordered by unordered, {percentile}"), "", ratios.collect(), target));
    }
    Ok(figures)
}
