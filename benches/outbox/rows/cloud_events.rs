//! What CloudEvents cost: business transactions whose messages go to Kafka as they are, and as events in both content modes.

use anyhow::Result;

use crate::arguments::{BenchEnv, Plan};
use crate::broker;
use crate::load::{self, Enqueue, Load, RelayTo, TOPIC};
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};
use crate::turns;

const fn hook(relay_to: RelayTo) -> Load {
    Load { enqueue: Enqueue::Hook, relay_to }
}

const LEGS: [Load; 3] = [hook(RelayTo::Kafka), hook(RelayTo::KafkaCloudEvents), hook(RelayTo::KafkaStructuredEvents)];

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    broker::make_topics(&env.kafka, &[TOPIC]).await?;
    load::warm_up(env, recorder).await?;
    let rounds = turns::run(&LEGS, plan.rounds(7), plan, env, recorder, leg_log).await?;
    let what = "business tx/s";
    let mut figures = vec![rounds.absolute(what, Load::BASELINE)];
    figures.extend(LEGS.iter().map(|load| rounds.figure(what, *load, Target::None)));
    figures.extend(LEGS.iter().map(|load| rounds.left(what, *load)));
    figures.extend(LEGS[1..].iter().map(|load| rounds.of(what, (*load, LEGS[0]), Target::AtLeast(0.97))));
    Ok(figures)
}
