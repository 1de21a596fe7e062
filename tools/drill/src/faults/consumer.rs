//! Faults of the consumer, its database and its handler.

use anyhow::Result;

use super::database;
use super::process::release;
use crate::shop::Bug;
use crate::world::{Session, World};

/// A partition that is read already needs no right for that, so the process starts again.
pub(super) fn no_right_to_begin(world: &World) -> Result<Vec<Session>> {
    world.psql("REVOKE SELECT ON outbox_parked FROM billing")?;
    world.shop().deploy(|_| ())?;
    Ok(Vec::new())
}

pub(super) fn table_locked(world: &World) -> Result<Vec<Session>> {
    Ok(vec![world.session("somebody", "BEGIN; LOCK TABLE accounts;")?])
}

pub(super) fn slow_handler(world: &World) -> Result<Vec<Session>> {
    release(world, Bug::SlowHandler)
}

pub(super) fn no_login(world: &World) -> Result<Vec<Session>> {
    database::no_login_of(world, "billing")
}

pub(super) fn failing_handler(world: &World) -> Result<Vec<Session>> {
    release(world, Bug::FailingHandler)
}

pub(super) fn refusing_handler(world: &World) -> Result<Vec<Session>> {
    release(world, Bug::RefusingHandler)
}
