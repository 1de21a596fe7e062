//! The chain and the recipe, one right after the other: the same load by the same seed, and the same faults at the same moments.

use std::collections::BTreeMap;

use super::Settings;
use super::faults::plan;
use super::run::{Pace, run_at};
use crate::Failure;
use crate::report::SideBySide;
use crate::taught;

/// Runs both, and prints one report. Returns whether every place of the chain agrees in the end.
///
/// # Errors
/// Returns an error if a run itself failed.
pub async fn side_by_side(settings: &Settings) -> Result<bool, Failure> {
    println!("the chain");
    let (report, chain) = run_at(settings, Pace::ByTheClock).await?;
    println!("the chain as it is taught");
    let taught = taught::run_through(settings).await?;
    let mut faults: BTreeMap<String, u64> = BTreeMap::new();
    for planned in plan(settings.seed, settings.load) {
        *faults.entry(planned.fault.to_string()).or_default() += 1;
    }
    println!("{}", SideBySide { seed: settings.seed, load: settings.load, faults, chain, taught });
    if !report.is_right() {
        println!("{report}");
    }
    Ok(report.is_right())
}
