//! The same load, without faults, on the shop without messages and on the whole chain.

use std::time::Duration;

use super::Arguments;
use super::driver::{Started, load, start};
use crate::Failure;
use crate::load::{Measured, measure};

/// Measures both, and prints the ratio.
pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut speeds = Vec::new();
    for (name, has_messages) in [("without messages", false), ("the chain", true)] {
        let one = run_one(arguments, has_messages).await?;
        let (p50, p99) = (one.p50.as_secs_f64() * 1_000.0, one.p99.as_secs_f64() * 1_000.0);
        println!("{name}: {:.0} POST /orders a second, p50 {p50:.1} ms, p99 {p99:.1} ms", one.a_second());
        speeds.push(one.a_second());
    }
    println!("the chain to the same shop without messages: {:.2}", speeds[1] / speeds[0]);
    Ok(())
}

/// On servers of its own: what one run leaves does not slow the other.
async fn run_one(arguments: &Arguments, has_messages: bool) -> Result<Measured, Failure> {
    let Started { servers, places, fleet, client, .. } = start(has_messages).await?;
    let lasts = Duration::from_secs(arguments.seconds);
    let measured = measure((arguments.customers, arguments.seed, lasts), &load(&places), client).await;
    fleet.end().await?;
    drop(servers);
    Ok(measured)
}
