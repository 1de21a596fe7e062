//! The consumer's inbox: one suite on each database, sync and async, and what is particular to each.

mod mariadb;
mod migrations;
mod node;
mod plans;
mod postgres;
mod suite;

use diesel_outbox::inbox::Inbox;

/// The inbox of a consumer.
fn inbox(consumer: &str) -> Inbox {
    Inbox::builder(consumer).build().expect("build")
}
