//! Faults of the application's process, most of them by a bad release.

use anyhow::Result;

use super::messages;
use crate::shop::{Bug, ORDERS};
use crate::world::{Session, World};

/// Fewer than a transaction of the application's writes.
const SMALL_QUEUE: usize = 4;

pub(super) fn release(world: &World, bug: Bug) -> Result<Vec<Session>> {
    world.shop().deploy(|config| config.bug = Some(bug))?;
    Ok(Vec::new())
}

pub(super) fn killed(world: &World) -> Result<Vec<Session>> {
    world.shop().kill9()?;
    Ok(Vec::new())
}

pub(super) fn small_queue(world: &World) -> Result<Vec<Session>> {
    world.shop().deploy(|config| config.queue_rows_max = SMALL_QUEUE)?;
    Ok(Vec::new())
}

pub(super) fn cleanup(world: &World) -> Result<Vec<Session>> {
    world.start_cleanup()?;
    Ok(Vec::new())
}

pub(super) fn no_hook(world: &World) -> Result<Vec<Session>> {
    release(world, Bug::NoHook)
}

pub(super) fn panicking_call(world: &World) -> Result<Vec<Session>> {
    release(world, Bug::PanickingCall)
}

/// A sweeper panics when it has claimed rows, so there must be one for it.
pub(super) fn panicking_task(world: &World) -> Result<Vec<Session>> {
    release(world, Bug::PanickingTask)?;
    messages::without_relay(world, ORDERS)
}

pub(super) fn slow_transactions(world: &World) -> Result<Vec<Session>> {
    release(world, Bug::SlowTransactions)
}
