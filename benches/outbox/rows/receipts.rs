//! What receipts cost business transactions: while one is open for another message, and with one for each message.

use anyhow::Result;

use crate::arguments::{BenchEnv, Plan};
use crate::broker;
use crate::load::{self, Enqueue, Load, RelayTo, TOPIC};
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};
use crate::turns;

/// To Kafka, because it tells partition and offset of each message, which is looked up for receipts, too.
const LEGS: [Load; 3] = [
    Load { enqueue: Enqueue::Hook, relay_to: RelayTo::Kafka },
    Load { enqueue: Enqueue::Hook, relay_to: RelayTo::KafkaBesideReceipt },
    Load { enqueue: Enqueue::WithReceipt, relay_to: RelayTo::Kafka },
];

/// The share of the transactions that are left.
///
/// Without receipts an acknowledgement reads a counter twice, which no leg can do without. While one is open, it also looks for its
/// message among the receipts, twice. So the first target bounds what receipts cost where they are not used.
const TARGETS: [Target; 2] = [Target::AtLeast(0.99), Target::AtLeast(0.97)];

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    broker::make_topics(&env.kafka, &[TOPIC]).await?;
    load::warm_up(env, recorder).await?;
    let rounds = turns::run(&LEGS, plan.rounds(7), plan, env, recorder, leg_log).await?;
    Ok(rounds.by_first("business tx/s", LEGS[0], [(LEGS[1], TARGETS[0]), (LEGS[2], TARGETS[1])]))
}
