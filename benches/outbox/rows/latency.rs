//! From the end of COMMIT to the broker's acknowledgement, against a bare producer's from send to acknowledgement, both
//! on one schedule: at two rates of an application, and near the highest that there is.

use std::time::Duration;

use anyhow::Result;
use diesel_outbox::Topic;

use crate::arguments::{Place, Plan};
use crate::broker;
use crate::load::{self, Enqueue, Load, Relayed, TOPIC};
use crate::open_loop::{self, OpenLoop};
use crate::recorder::Recorder;
use crate::report::{Figure, Floor, Journal};
use crate::stats::Waits;

const PER_SECOND: [f64; 2] = [200.0, 2_000.0];
/// Of what a closed loop reaches.
const OF_HIGHEST: f64 = 0.7;
const HIGHEST: Load = Load { enqueue: Enqueue::Hook, relayed: Relayed::ToKafka };

pub(crate) async fn run(plan: &Plan, place: &Place, recorder: &Recorder, journal: &mut Journal) -> Result<Vec<Figure>> {
    broker::make_topics(&place.kafka, &[TOPIC]).await?;
    let (highest, cpu) = load::run(HIGHEST, &place.postgres, place, recorder, Duration::from_secs(5)).await?;
    journal.leg(HIGHEST.name(), cpu, &highest)?;
    let near_highest = OF_HIGHEST * highest.tx_per_second;
    let mut figures = Vec::new();
    for per_second in PER_SECOND {
        figures.extend(at(per_second, &format!("{per_second:.0} a second"), plan, place, recorder, journal).await?);
    }
    figures.push(Figure::new("70 % of the highest rate", "tx/s", vec![near_highest], Floor::None));
    figures.extend(at(near_highest, "70 % of the highest rate", plan, place, recorder, journal).await?);
    Ok(figures)
}

async fn at(
    per_second: f64,
    rate: &str,
    plan: &Plan,
    place: &Place,
    recorder: &Recorder,
    journal: &mut Journal,
) -> Result<Vec<Figure>> {
    let of = OpenLoop { per_second, duration: plan.duration(20.0), keys: usize::MAX, lanes: 0 };
    let (mut bares, mut boxes) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds(3) {
        let (bare, cpu) = open_loop::bare(place, of).await?;
        journal.leg(&format!("bare rdkafka, {rate}"), cpu, &bare)?;
        let (outbox, cpu) = open_loop::outbox(place, recorder, of, Topic::new(TOPIC)).await?;
        journal.leg(&format!("outbox, {rate}"), cpu, &outbox)?;
        bares.push(bare.waits_us);
        boxes.push(outbox.waits_us);
    }
    let mut figures = Vec::new();
    for (name, legs) in [("bare rdkafka, send to ack", &bares), ("outbox, COMMIT to ack", &boxes)] {
        for percentile in Waits::PERCENTILES {
            let samples = legs.iter().map(|waits| waits.at(percentile)).collect();
            figures.push(Figure::new(format!("{name}, {rate}, {percentile}"), "us", samples, Floor::None));
        }
    }
    // Under load both wait for the processors that they share with the database, and the bare one has none of it.
    let wanted = |floor| if per_second == PER_SECOND[0] { Floor::AtMost(floor) } else { Floor::None };
    for (percentile, floor) in [("p50", wanted(1.5)), ("p99", wanted(2.0))] {
        let ratios = boxes.iter().zip(&bares).map(|(with, bare)| with.at(percentile) / bare.at(percentile)).collect();
        figures.push(Figure::new(
            format!("COMMIT to ack by bare send to ack, {rate}, {percentile}"),
            "",
            ratios,
            floor,
        ));
    }
    Ok(figures)
}
