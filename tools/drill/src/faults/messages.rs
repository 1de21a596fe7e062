//! Messages that cannot be sent.

use anyhow::Result;
use xtask::servers::http_request::request;

use crate::shop::{ACCOUNT_EVENTS, ORDERS};
use crate::world::{Session, World};

/// Bytes that the broker takes of the topic, and of a message that is larger.
const BYTES_MAX: &str = "max.message.bytes=10000";
const TOO_LARGE: usize = 50_000;

/// Written by hand.
pub(super) fn poisoned(world: &World) -> Result<Vec<Session>> {
    world.psql(
        "INSERT INTO outbox_messages (message_id, topic, kind, headers, payload, due_at)
         VALUES (gen_random_uuid(), 'orders', 'placed', 'no JSON', '{}', now())",
    )?;
    Ok(Vec::new())
}

pub(super) fn too_large(world: &World) -> Result<Vec<Session>> {
    enqueue_too_large(world, ORDERS)
}

pub(super) fn too_large_in_a_lane(world: &World) -> Result<Vec<Session>> {
    enqueue_too_large(world, ACCOUNT_EVENTS)
}

fn enqueue_too_large(world: &World, topic: &str) -> Result<Vec<Session>> {
    let set = ["--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", BYTES_MAX];
    world.kafka_tool("kafka.admin.ConfigCommand", &set)?;
    let address = world.shop().address();
    request(&address, "POST", &format!("/enqueue/{topic}/large/{TOO_LARGE}"), "")?;
    Ok(Vec::new())
}

pub(super) fn renamed_topic(world: &World) -> Result<Vec<Session>> {
    without_relay(world, "order")
}

/// Messages of a process that has no relay, so that a sweeper sends them.
pub(super) fn without_relay(world: &World, topic: &str) -> Result<Vec<Session>> {
    world.psql(&format!(
        "INSERT INTO outbox_messages (message_id, topic, kind, headers, payload, due_at)
         SELECT gen_random_uuid(), '{topic}', 'placed', '[]', '{{}}', now() FROM generate_series(1, 3)"
    ))?;
    Ok(Vec::new())
}

pub(super) fn paused(world: &World) -> Result<Vec<Session>> {
    world.psql("INSERT INTO outbox_paused_topics (topic) VALUES ('orders')")?;
    Ok(Vec::new())
}
