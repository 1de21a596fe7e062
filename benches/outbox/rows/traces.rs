//! What traces cost business transactions: without them, with them and no provider, and with spans that nobody keeps.

use anyhow::Result;

use crate::arguments::{BenchEnv, Plan};
use crate::load::{self, Enqueue, Load, RelayTo};
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};
use crate::turns;

const fn hook(relay_to: RelayTo) -> Load {
    Load { enqueue: Enqueue::Hook, relay_to }
}

const LEGS: [Load; 3] = [hook(RelayTo::Memory), hook(RelayTo::MemoryWithoutProvider), hook(RelayTo::MemoryTraced)];

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    load::run(LEGS[2], &env.postgres, env, recorder, load::WARM_UP).await?;
    let rounds = turns::run(&LEGS, plan.rounds(7), plan, env, recorder, leg_log).await?;
    let mut figures = vec![rounds.absolute("business tx/s", Load::BASELINE)];
    figures.extend(LEGS.iter().map(|load| rounds.figure("business tx/s", *load, Target::None)));
    figures.push(rounds.of("business tx/s", (LEGS[1], LEGS[0]), Target::AtLeast(0.99)));
    figures.push(rounds.less("business tx/s", (LEGS[2], LEGS[0]), Target::AtLeast(-0.05)));
    Ok(figures)
}
