//! Faults of the brokers.

use anyhow::Result;

use crate::shop::ORDERS;
use crate::world::{Session, World};

pub(super) fn stopped(world: &World) -> Result<Vec<Session>> {
    world.kafka().stop()?;
    Ok(Vec::new())
}

pub(super) fn topic_deleted(world: &World) -> Result<Vec<Session>> {
    world.kafka_tool("org.apache.kafka.tools.TopicCommand", &["--delete", "--topic", ORDERS])?;
    Ok(Vec::new())
}

pub(super) fn receiver_refuses(world: &World) -> Result<Vec<Session>> {
    world.receiver.answer(400);
    Ok(Vec::new())
}

/// Which says nothing about the message: it is sent again and again.
pub(super) fn receiver_fails(world: &World) -> Result<Vec<Session>> {
    world.receiver.answer(500);
    Ok(Vec::new())
}
