//! Business transactions a second when sent messages are kept, compared with when they are deleted.

use anyhow::Result;

use crate::arguments::{BenchEnv, Plan};
use crate::broker;
use crate::load::{self, Enqueue, Load, RelayTo, TOPIC};
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};
use crate::turns;

/// Deleted and kept, for each kind of enqueue.
const PAIRS: [[Load; 2]; 2] = [pair(Enqueue::Hook), pair(Enqueue::Transaction)];

const fn pair(enqueue: Enqueue) -> [Load; 2] {
    [Load { enqueue, relay_to: RelayTo::Kafka }, Load { enqueue, relay_to: RelayTo::KafkaAndKept }]
}

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    broker::make_topics(&env.kafka, &[TOPIC]).await?;
    load::warm_up(env, recorder).await?;
    let legs: Vec<Load> = PAIRS.into_iter().flatten().collect();
    let rounds = turns::run(&legs, plan.rounds(5), plan, env, recorder, leg_log).await?;
    let mut figures = vec![rounds.absolute("business tx/s", Load::BASELINE)];
    figures.extend(legs.iter().map(|load| rounds.figure("business tx/s", *load, Target::None)));
    figures.extend(legs.iter().map(|load| rounds.left("business", *load)));
    for [deleted, kept] in PAIRS {
        figures.push(rounds.less("business tx/s", (kept, deleted), Target::AtLeast(-0.05)));
    }
    Ok(figures)
}
