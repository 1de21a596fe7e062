//! What applications do without a library, and what many messages in one transaction cost.

use anyhow::Result;

use crate::arguments::{Place, Plan};
use crate::load::{self, BATCH, Enqueue, Load, Relayed};
use crate::ratios::Rounds;
use crate::recorder::Recorder;
use crate::report::{Figure, Floor, Journal};
use crate::{by_hand, database};

const BY_HAND: Load = Load { enqueue: Enqueue::ByHand, relayed: Relayed::Nowhere };
const HOOK: Load = Load { enqueue: Enqueue::Hook, relayed: Relayed::ToMemory };
const MANY: Load = Load { enqueue: Enqueue::Batch, relayed: Relayed::ToMemory };
const ROUND: [Load; 6] = [Load::FLOOR, BY_HAND, Load::FLOOR, HOOK, Load::FLOOR, MANY];

pub(crate) async fn run(plan: &Plan, place: &Place, recorder: &Recorder, journal: &mut Journal) -> Result<Vec<Figure>> {
    let duration = plan.duration(10.0);
    let (mut rounds, mut messages) = (Rounds::default(), Vec::new());
    // The last leg wants a floor behind it, too.
    let legs = (0..plan.rounds(3)).flat_map(|_| ROUND).chain([Load::FLOOR]);
    for load in legs {
        by_hand::make_table(&mut database::connect(&place.postgres).await?).await?;
        let (throughput, cpu) = load::run(load, &place.postgres, place, recorder, duration).await?;
        journal.leg(load.name(), cpu, &throughput)?;
        rounds.push_leg(load, &throughput);
        if load == MANY {
            messages.push(throughput.tx_per_second * BATCH as f64);
        }
    }
    Ok(vec![
        rounds.absolute("business tx/s", Load::FLOOR),
        rounds.figure("business tx/s", BY_HAND, Floor::None),
        rounds.figure("business tx/s", HOOK, Floor::None),
        rounds.figure("business tx/s", MANY, Floor::None),
        rounds.left("business", HOOK),
        rounds.left("business", MANY),
        Figure::new(format!("messages, {}", MANY.name()), "msg/s", messages, Floor::None),
    ])
}
