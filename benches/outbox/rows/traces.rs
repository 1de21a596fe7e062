//! What traces cost business transactions: without them, with them and no provider, and with spans that nobody keeps.

use anyhow::Result;

use crate::arguments::{BenchEnv, Plan};
use crate::load::{self, Enqueue, Load, RelayTo};
use crate::ratios::Rounds;
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};

const fn hook(relay_to: RelayTo) -> Load {
    Load { enqueue: Enqueue::Hook, relay_to }
}

const LEGS: [Load; 3] = [hook(RelayTo::Memory), hook(RelayTo::MemoryWithoutProvider), hook(RelayTo::MemoryTraced)];

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    load::run(LEGS[2], &env.postgres, env, recorder, load::WARM_UP).await?;
    let duration = plan.duration(10.0);
    let mut rounds = Rounds::default();
    for round in 0..plan.rounds(7) {
        // The order rotates, so that no leg always follows the same one; the baseline comes between all of them.
        for step in 0..LEGS.len() {
            for load in [Load::BASELINE, LEGS[(round + step) % LEGS.len()]] {
                let (throughput, cpu) = load::run(load, &env.postgres, env, recorder, duration).await?;
                leg_log.leg(load.name(), cpu, &throughput)?;
                rounds.push_leg(load, &throughput);
            }
        }
    }
    let (throughput, cpu) = load::run(Load::BASELINE, &env.postgres, env, recorder, duration).await?;
    leg_log.leg(Load::BASELINE.name(), cpu, &throughput)?;
    rounds.push_leg(Load::BASELINE, &throughput);
    let mut figures = vec![rounds.absolute("business tx/s", Load::BASELINE)];
    figures.extend(LEGS.iter().map(|load| rounds.figure("business tx/s", *load, Target::None)));
    figures.push(rounds.less("business tx/s", (LEGS[1], LEGS[0]), Target::AtLeast(-0.01)));
    figures.push(rounds.less("business tx/s", (LEGS[2], LEGS[0]), Target::AtLeast(-0.05)));
    Ok(figures)
}
