//! Faults of the database, its rights and its clock.

use std::time::Duration;

use anyhow::Result;

use super::messages;
use crate::shop::ORDERS;
use crate::world::{Session, World};

const DEADLINE: Duration = Duration::from_secs(30);

pub(super) fn stopped(world: &World) -> Result<Vec<Session>> {
    world.postgres().stop()?;
    Ok(Vec::new())
}

pub(super) fn no_right_to_write(world: &World) -> Result<Vec<Session>> {
    world.psql("REVOKE UPDATE, DELETE ON outbox_messages FROM shop")?;
    Ok(Vec::new())
}

pub(super) fn no_right_to_count(world: &World) -> Result<Vec<Session>> {
    world.psql("REVOKE SELECT ON outbox_dead_letters FROM shop")?;
    Ok(Vec::new())
}

/// The rows are locked between send and acknowledgement, for which the broker is halted.
pub(super) fn sent_rows_locked(world: &World) -> Result<Vec<Session>> {
    world.halt_kafka(true)?;
    let are_there = "SELECT count(*) > 5 FROM outbox_messages WHERE topic = 'orders'";
    world.until_sql(DEADLINE, "messages are in flight", are_there)?;
    let session = world.session("somebody", "BEGIN; SELECT id FROM outbox_messages FOR UPDATE;")?;
    let is_idle = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = 'somebody'
        AND state = 'idle in transaction')";
    world.until_sql(DEADLINE, "the rows are locked", is_idle)?;
    world.halt_kafka(false)?;
    Ok(vec![session])
}

/// The rows are due, and locked before the relay may have them. The lock is as old as the runbook wants it.
pub(super) fn rows_locked(world: &World) -> Result<Vec<Session>> {
    world.psql(
        "INSERT INTO outbox_paused_topics (topic) VALUES ('orders');
         SELECT pg_sleep(3);",
    )?;
    messages::without_relay(world, ORDERS)?;
    let sql = "BEGIN; SELECT id FROM outbox_messages WHERE topic = 'orders' FOR UPDATE;";
    let session = world.session("somebody", sql)?;
    let is_idle = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = 'somebody'
        AND state = 'idle in transaction' AND state_change < now() - interval '10 seconds')";
    world.until_sql(DEADLINE, "the rows are locked", is_idle)?;
    world.psql("DELETE FROM outbox_paused_topics")?;
    Ok(vec![session])
}

pub(super) fn no_login(world: &World) -> Result<Vec<Session>> {
    no_login_of(world, "shop_notices")
}

/// The role may not log in any more, and its sessions end.
pub(super) fn no_login_of(world: &World, role: &str) -> Result<Vec<Session>> {
    world.psql(&format!(
        "ALTER ROLE {role} NOLOGIN;
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'"
    ))?;
    Ok(Vec::new())
}

/// As after a restore by another role. The partitions of the next days are missing, too.
pub(super) fn not_owner(world: &World) -> Result<Vec<Session>> {
    world.psql(
        "SELECT format('DROP TABLE %s', inhrelid::regclass) FROM pg_inherits
         WHERE inhparent = 'outbox_history'::regclass AND inhrelid <> 'outbox_history_default'::regclass
         \\gexec
         ALTER TABLE outbox_history OWNER TO outbox;
         ALTER TABLE outbox_history_default OWNER TO outbox;",
    )?;
    Ok(Vec::new())
}

/// A node that wrote its leases while the database's clock was a day ahead, and died.
pub(super) fn lease_of_tomorrow(world: &World) -> Result<Vec<Session>> {
    world.psql(
        "INSERT INTO outbox_nodes (topic, node, expires_at)
         VALUES ('account-events', '00000000-0000-4000-8000-000000000001', now() + interval '1 day');
         UPDATE outbox_lanes SET owner = '00000000-0000-4000-8000-000000000001', fence = fence + 1,
             expires_at = now() + interval '1 day' WHERE topic = 'account-events' AND lane < 4;",
    )?;
    Ok(Vec::new())
}
