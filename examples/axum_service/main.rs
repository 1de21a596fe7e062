//! An order service on axum and diesel-async, to be copied: orders come by HTTP, each commits with its event, and the relay brings the
//! events to Kafka. With a health check, metrics, the dead letters, an end in order on SIGTERM, and tests.
//!
//! ```sh
//! cargo run --example axum_service
//! ```
//!
//! That needs no server, and checks the service: it starts it as a process of its own beside a Kafka in memory (librdkafka's mock
//! cluster), sends requests, reads the topic, and stops the service by SIGTERM. With the argument `serve` it is the service alone,
//! on the addresses in `SHOP_LISTEN`, `SHOP_DATABASE` and `SHOP_KAFKA`. `cargo test --example axum_service` runs its tests.
//!
//! | file | copy it? |
//! |---|---|
//! | `orders.rs` | the events, and the transactions that enqueue them |
//! | `service.rs` | the start, the parts that requests share, the end |
//! | `web.rs` | the routes |
//! | `tests.rs` | the tests, as `src/` would have them |
//! | `check.rs`, `client.rs` | what starts the service here, and what speaks to it |
#![allow(clippy::print_stdout, reason = "it tells what it does")]

mod check;
mod client;
mod orders;
mod service;
#[cfg(test)]
mod tests;
mod web;

use std::error::Error;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    match std::env::args().nth(1).as_deref() {
        Some("serve") => service::main(),
        _ => check::main(),
    }
}
