//! Business transactions a second, as a share of the same transaction without an outbox.

use anyhow::Result;

use crate::arguments::{BenchEnv, Plan};
use crate::broker;
use crate::load::{self, Enqueue, Load, RelayTo, TOPIC};
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};
use crate::turns;

const LEGS: [Load; 6] = [
    Load { enqueue: Enqueue::Hook, relay_to: RelayTo::Memory },
    Load { enqueue: Enqueue::Hook, relay_to: RelayTo::Kafka },
    Load { enqueue: Enqueue::Transaction, relay_to: RelayTo::Memory },
    Load { enqueue: Enqueue::Transaction, relay_to: RelayTo::Kafka },
    Load { enqueue: Enqueue::Hook, relay_to: RelayTo::Nowhere },
    Load { enqueue: Enqueue::Transaction, relay_to: RelayTo::Nowhere },
];

const TARGETS: [Target; 6] = [
    Target::AtLeast(0.65),
    Target::AtLeast(0.55),
    Target::AtLeast(0.68),
    Target::AtLeast(0.58),
    Target::None,
    Target::None,
];

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    broker::make_topics(&env.kafka, &[TOPIC]).await?;
    load::warm_up(env, recorder).await?;
    let rounds = turns::run(&LEGS, plan.rounds(5), plan, env, recorder, leg_log).await?;
    let mut figures = vec![rounds.absolute("business tx/s", Load::BASELINE)];
    figures.extend(LEGS.into_iter().zip(TARGETS).map(|(load, target)| rounds.figure("business tx/s", load, target)));
    figures.extend(LEGS[..4].iter().map(|load| rounds.left("business", *load)));
    for (relayed, target) in [(LEGS[0], Target::AtLeast(0.93)), (LEGS[1], Target::AtLeast(0.80))] {
        let enqueued = rounds.shares(LEGS[4]);
        let shares = rounds.shares(relayed).into_iter().zip(enqueued).map(|(with, without)| with / without);
        figures.push(Figure::new(format!("{} by {}", relayed.name(), LEGS[4].name()), "", shares.collect(), target));
    }
    for transaction_and_hook in [(LEGS[2], LEGS[0]), (LEGS[3], LEGS[1])] {
        figures.push(rounds.less("business tx/s", transaction_and_hook, Target::AtLeast(0.03)));
    }
    Ok(figures)
}
