//! Business transactions a second when sent messages are kept, compared with when they are deleted.

use anyhow::{Result, ensure};

use crate::arguments::{BenchEnv, Plan};
use crate::broker;
use crate::load::{self, Enqueue, Load, RelayTo, TOPIC};
use crate::ratios::Rounds;
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};

/// Deleted and kept, for each kind of enqueue.
const PAIRS: [[Load; 2]; 2] = [pair(Enqueue::Hook), pair(Enqueue::Transaction)];

const fn pair(enqueue: Enqueue) -> [Load; 2] {
    [Load { enqueue, relay_to: RelayTo::Kafka }, Load { enqueue, relay_to: RelayTo::KafkaAndKept }]
}

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    broker::make_topics(&env.kafka, &[TOPIC]).await?;
    load::warm_up(env, recorder).await?;
    let duration = plan.duration(10.0);
    let legs: Vec<Load> = PAIRS.into_iter().flatten().collect();
    let mut rounds = Rounds::default();
    for round in 0..plan.rounds(5) {
        // The order rotates, so that no leg always follows the same one; the baseline comes between all of them.
        for step in 0..legs.len() {
            for load in [Load::BASELINE, legs[(round + step) % legs.len()]] {
                let (throughput, cpu) = load::run(load, &env.postgres, env, recorder, duration).await?;
                let is_kept = load.relay_to == RelayTo::KafkaAndKept;
                ensure!(
                    is_kept == (throughput.rows_kept > 0),
                    "{}: {} rows in the history",
                    load.name(),
                    throughput.rows_kept
                );
                leg_log.leg(load.name(), cpu, &throughput)?;
                rounds.push_leg(load, &throughput);
            }
        }
    }
    let (throughput, cpu) = load::run(Load::BASELINE, &env.postgres, env, recorder, duration).await?;
    leg_log.leg(Load::BASELINE.name(), cpu, &throughput)?;
    rounds.push_leg(Load::BASELINE, &throughput);
    let mut figures = vec![rounds.absolute("business tx/s", Load::BASELINE)];
    figures.extend(legs.iter().map(|load| rounds.figure("business tx/s", *load, Target::None)));
    figures.extend(legs.iter().map(|load| rounds.left("business", *load)));
    for [deleted, kept] in PAIRS {
        figures.push(rounds.less("business tx/s", (kept, deleted), Target::AtLeast(-0.05)));
    }
    Ok(figures)
}
