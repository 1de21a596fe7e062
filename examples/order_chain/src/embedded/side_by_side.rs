//! The chain and the recipe, one right after the other: the same load by the same seed, and the same faults at the same moments.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Settings;
use super::faults::plan;
use super::run::{Pace, run_at};
use crate::Failure;
use crate::report::{Report, SideBySide};
use crate::taught::{self, REST, Reconciled};

/// Runs both, and prints one report. Returns whether every place of the chain agrees in the end.
///
/// # Errors
/// Returns an error if a run itself failed.
pub async fn side_by_side(settings: &Settings) -> Result<bool, Failure> {
    let (report, both, reconciled) = run_both(settings, REST).await?;
    println!("{both}as it is taught, {reconciled}");
    if !report.is_right() {
        println!("{report}");
    }
    Ok(report.is_right())
}

/// `rest` is for the recipe, to process what it has sent.
async fn run_both(settings: &Settings, rest: Duration) -> Result<(Report, SideBySide, Reconciled), Failure> {
    println!("the chain");
    let (report, chain) = run_at(settings, Pace::ByTheClock).await?;
    println!("the chain as it is taught");
    let (taught, reconciled) = taught::run_through(settings, rest).await?;
    let mut faults: BTreeMap<String, u64> = BTreeMap::new();
    for planned in plan(settings.seed, settings.load) {
        *faults.entry(planned.fault.to_string()).or_default() += 1;
    }
    let both = SideBySide { seed: settings.seed, load: settings.load, faults, chain, taught };
    Ok((report, both, reconciled))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `--side-by-side` does, for a shorter time.
    #[tokio::test(flavor = "multi_thread")]
    async fn the_chain_is_right_beside_the_recipe() {
        let settings = Settings { load: Duration::from_secs(7), seed: 5, ..Settings::default() };
        let (report, both, _) = run_both(&settings, Duration::from_secs(3)).await.expect("it runs");
        assert!(report.is_right(), "{report}");
        assert!(both.chain.orders > 0 && both.taught.orders > 0, "{both}");
        assert_eq!(both.faults.values().sum::<u64>(), 2, "{both}");
        let chain = &both.chain;
        assert_eq!((chain.oversold_units, chain.drift_units, chain.missing, chain.doubled), (0, 0, 0, 0), "{both}");
        assert_eq!(chain.unknown_to_customer, 0, "every customer is told in the end: {both}");
    }
}
