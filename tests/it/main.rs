//! The one test binary: servers start once for all of it, and it links once.

mod cdc;
#[cfg(feature = "_test")]
mod consumer;
mod docs;
#[cfg(feature = "_test")]
mod faults;
mod inbox;
mod migrations;
mod outbox;
mod servers;
mod store;
mod tidy;
mod transport;
