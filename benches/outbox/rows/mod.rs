//! The rows of the table, a file for each.

pub(crate) mod business;
pub(crate) mod by_hand;
pub(crate) mod drain;
pub(crate) mod history;
pub(crate) mod idle;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod network;
pub(crate) mod ordered;
