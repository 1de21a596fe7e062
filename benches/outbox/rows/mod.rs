//! The rows of the table, one file for each.

pub(crate) mod blocked;
pub(crate) mod business;
pub(crate) mod by_hand;
pub(crate) mod claim;
pub(crate) mod cloud_events;
pub(crate) mod consumer;
pub(crate) mod cost;
pub(crate) mod debezium;
pub(crate) mod delayed;
pub(crate) mod distant_broker;
pub(crate) mod drain;
pub(crate) mod history;
pub(crate) mod idle;
pub(crate) mod inbox;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod network;
pub(crate) mod ordered;
pub(crate) mod ordered_latency;
pub(crate) mod other_databases;
pub(crate) mod receipts;
pub(crate) mod recovery;
pub(crate) mod relays;
pub(crate) mod takeover;
pub(crate) mod traces;
pub(crate) mod verify;
