//! Business transactions a second, as a share of the same transaction without an outbox.

use anyhow::Result;

use crate::arguments::{Place, Plan};
use crate::broker;
use crate::load::{self, Enqueue, Load, Relayed, TOPIC};
use crate::ratios::Rounds;
use crate::recorder::Recorder;
use crate::report::{Figure, Floor, Journal};

const LEGS: [Load; 6] = [
    Load { enqueue: Enqueue::Hook, relayed: Relayed::ToMemory },
    Load { enqueue: Enqueue::Hook, relayed: Relayed::ToKafka },
    Load { enqueue: Enqueue::Transaction, relayed: Relayed::ToMemory },
    Load { enqueue: Enqueue::Transaction, relayed: Relayed::ToKafka },
    Load { enqueue: Enqueue::Hook, relayed: Relayed::Nowhere },
    Load { enqueue: Enqueue::Transaction, relayed: Relayed::Nowhere },
];

const FLOORS: [Floor; 6] =
    [Floor::AtLeast(0.65), Floor::AtLeast(0.55), Floor::AtLeast(0.68), Floor::AtLeast(0.58), Floor::None, Floor::None];

pub(crate) async fn run(plan: &Plan, place: &Place, recorder: &Recorder, journal: &mut Journal) -> Result<Vec<Figure>> {
    broker::make_topics(&place.kafka, &[TOPIC]).await?;
    load::warm_up(place, recorder).await?;
    let duration = plan.duration(10.0);
    let mut rounds = Rounds::default();
    for round in 0..plan.rounds(5) {
        // The order turns, so that no leg always follows the same one; the floor stands between all of them.
        for step in 0..LEGS.len() {
            for load in [Load::FLOOR, LEGS[(round + step) % LEGS.len()]] {
                let (throughput, cpu) = load::run(load, &place.postgres, place, recorder, duration).await?;
                journal.leg(load.name(), cpu, &throughput)?;
                rounds.push_leg(load, &throughput);
            }
        }
    }
    // The last leg wants a floor behind it, too.
    let (throughput, cpu) = load::run(Load::FLOOR, &place.postgres, place, recorder, duration).await?;
    journal.leg(Load::FLOOR.name(), cpu, &throughput)?;
    rounds.push_leg(Load::FLOOR, &throughput);
    let mut figures = vec![rounds.absolute("business tx/s", Load::FLOOR)];
    figures.extend(LEGS.into_iter().zip(FLOORS).map(|(load, floor)| rounds.figure("business tx/s", load, floor)));
    figures.extend(LEGS[..4].iter().map(|load| rounds.left("business", *load)));
    for (relayed, floor) in [(LEGS[0], Floor::AtLeast(0.93)), (LEGS[1], Floor::AtLeast(0.80))] {
        let enqueued = rounds.shares(LEGS[4]);
        let shares = rounds.shares(relayed).into_iter().zip(enqueued).map(|(with, without)| with / without);
        figures.push(Figure::new(format!("{} by {}", relayed.name(), LEGS[4].name()), "", shares.collect(), floor));
    }
    for transaction_and_hook in [(LEGS[2], LEGS[0]), (LEGS[3], LEGS[1])] {
        figures.push(rounds.less("business tx/s", transaction_and_hook, Floor::AtLeast(0.03)));
    }
    Ok(figures)
}
