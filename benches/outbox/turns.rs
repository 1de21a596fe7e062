//! Legs of business transactions in turns, each between two runs of the baseline.

use anyhow::{Result, ensure};

use crate::arguments::{BenchEnv, Plan};
use crate::load::{self, Load, RelayTo};
use crate::ratios::Rounds;
use crate::recorder::Recorder;
use crate::report::LegLog;

/// Runs all legs in each of `rounds` rounds.
pub(crate) async fn run(
    legs: &[Load],
    rounds: usize,
    plan: &Plan,
    env: &BenchEnv,
    recorder: &Recorder,
    leg_log: &mut LegLog,
) -> Result<Rounds> {
    // The order rotates, so that no leg always follows the same one; the baseline comes between all of them.
    let turns = (0..rounds).flat_map(|round| (0..legs.len()).map(move |step| legs[(round + step) % legs.len()]));
    let turns = turns.flat_map(|leg| [Load::BASELINE, leg]);
    let mut measured = Rounds::default();
    // The last leg needs a baseline after it, too.
    for load in turns.chain([Load::BASELINE]) {
        let (throughput, cpu) = load::run(load, &env.postgres, env, recorder, plan.duration(10.0)).await?;
        let (is_kept, rows_kept) = (load.relay_to == RelayTo::KafkaAndKept, throughput.rows_kept);
        ensure!(is_kept == (rows_kept > 0), "{}: {rows_kept} rows in the history", load.name());
        leg_log.leg(load.name(), cpu, &throughput)?;
        measured.push_leg(load, &throughput);
    }
    Ok(measured)
}
