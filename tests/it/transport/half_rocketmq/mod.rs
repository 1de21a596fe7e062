//! Half messages: a real broker that asks, a real database that knows, and processes that die in between.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where, and needs no more words")]

pub(crate) mod crash;
mod database;
mod fixture;
mod interceptor;
mod marks;
mod namespaced;
mod outages;
mod transactions;
mod watched_store;
