//! Real processes that die, stop and outlive their servers, and an audit of what the topic holds in the end.
//!
//! Each test has a database and a topic of its own. A shop process places orders (a business row and a message in one
//! transaction, some rolled back); the audit compares the committed orders with the topic, read to its end, and with the
//! dead letters.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where, and needs no more words")]

pub(crate) mod access;
mod any_shop;
mod audit;
pub(crate) mod child;
mod crash;
mod crash_ordered;
mod faulty_transport;
mod fenced;
mod killed_admin;
mod messages;
mod ordered;
mod outages;
mod owner;
mod paused;
mod receipts;
mod refused;
mod relays;
mod retention;
mod shop;
