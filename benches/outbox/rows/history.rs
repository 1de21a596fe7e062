//! Business transactions a second where what was sent is kept, against where it is deleted.

use anyhow::{Result, ensure};

use crate::arguments::{Place, Plan};
use crate::broker;
use crate::load::{self, Enqueue, Load, Relayed, TOPIC};
use crate::ratios::Rounds;
use crate::recorder::Recorder;
use crate::report::{Figure, Floor, Journal};

/// Deleted and kept, of each way to enqueue.
const PAIRS: [[Load; 2]; 2] = [pair(Enqueue::Hook), pair(Enqueue::Transaction)];

const fn pair(enqueue: Enqueue) -> [Load; 2] {
    [Load { enqueue, relayed: Relayed::ToKafka }, Load { enqueue, relayed: Relayed::ToKafkaAndKept }]
}

pub(crate) async fn run(plan: &Plan, place: &Place, recorder: &Recorder, journal: &mut Journal) -> Result<Vec<Figure>> {
    broker::make_topics(&place.kafka, &[TOPIC]).await?;
    load::warm_up(place, recorder).await?;
    let duration = plan.duration(10.0);
    let legs: Vec<Load> = PAIRS.into_iter().flatten().collect();
    let mut rounds = Rounds::default();
    for round in 0..plan.rounds(5) {
        // The order turns, so that no leg always follows the same one; the floor stands between all of them.
        for step in 0..legs.len() {
            for load in [Load::FLOOR, legs[(round + step) % legs.len()]] {
                let (throughput, cpu) = load::run(load, &place.postgres, place, recorder, duration).await?;
                let is_kept = load.relayed == Relayed::ToKafkaAndKept;
                ensure!(
                    is_kept == (throughput.rows_kept > 0),
                    "{}: {} rows in the history",
                    load.name(),
                    throughput.rows_kept
                );
                journal.leg(load.name(), cpu, &throughput)?;
                rounds.push_leg(load, &throughput);
            }
        }
    }
    let (throughput, cpu) = load::run(Load::FLOOR, &place.postgres, place, recorder, duration).await?;
    journal.leg(Load::FLOOR.name(), cpu, &throughput)?;
    rounds.push_leg(Load::FLOOR, &throughput);
    let mut figures = vec![rounds.absolute("business tx/s", Load::FLOOR)];
    figures.extend(legs.iter().map(|load| rounds.figure("business tx/s", *load, Floor::None)));
    figures.extend(legs.iter().map(|load| rounds.left("business", *load)));
    for [deleted, kept] in PAIRS {
        figures.push(rounds.less("business tx/s", (kept, deleted), Floor::AtLeast(-0.05)));
    }
    Ok(figures)
}
