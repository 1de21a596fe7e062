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
    Ok(rounds.by_first("business tx/s", LEGS[0], [1, 2].map(|leg| (LEGS[leg], Target::AtLeast(0.97)))))
}
