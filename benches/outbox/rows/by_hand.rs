//! The cost of a handwritten outbox, and of many messages in one transaction.

use anyhow::Result;

use crate::arguments::{BenchEnv, Plan};
use crate::load::{self, BATCH, Enqueue, Load, RelayTo};
use crate::ratios::Rounds;
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};
use crate::{by_hand, database};

const BY_HAND: Load = Load { enqueue: Enqueue::ByHand, relay_to: RelayTo::Nowhere };
const HOOK: Load = Load { enqueue: Enqueue::Hook, relay_to: RelayTo::Memory };
const MANY: Load = Load { enqueue: Enqueue::Batch, relay_to: RelayTo::Memory };
const ROUND: [Load; 6] = [Load::BASELINE, BY_HAND, Load::BASELINE, HOOK, Load::BASELINE, MANY];

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let duration = plan.duration(10.0);
    let (mut rounds, mut messages) = (Rounds::default(), Vec::new());
    // The last leg needs a baseline after it, too.
    let legs = (0..plan.rounds(3)).flat_map(|_| ROUND).chain([Load::BASELINE]);
    for load in legs {
        by_hand::make_table(&mut database::connect(&env.postgres).await?).await?;
        let (throughput, cpu) = load::run(load, &env.postgres, env, recorder, duration).await?;
        leg_log.leg(load.name(), cpu, &throughput)?;
        rounds.push_leg(load, &throughput);
        if load == MANY {
            messages.push(throughput.tx_per_second * BATCH as f64);
        }
    }
    Ok(vec![
        rounds.absolute("business tx/s", Load::BASELINE),
        rounds.figure("business tx/s", BY_HAND, Target::None),
        rounds.figure("business tx/s", HOOK, Target::None),
        rounds.figure("business tx/s", MANY, Target::None),
        rounds.left("business", HOOK),
        rounds.left("business", MANY),
        Figure::new(format!("messages, {}", MANY.name()), "msg/s", messages, Target::None),
    ])
}
