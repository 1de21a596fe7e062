//! The order chain: deduct stock, create the order, tell everybody, close what is not paid, reconcile. Without a distributed transaction.
//!
//! `examples/order_chain/README.md` walks through it.
#![allow(clippy::print_stdout, reason = "it tells what it does")]
#![cfg_attr(feature = "servers", allow(clippy::duplicate_mod, reason = "the same text for each database"))]

pub mod broker;
pub mod cache;
pub mod domain;
pub mod embedded;
pub mod load;
pub mod page;
mod quiet;
#[cfg(feature = "servers")]
pub mod real;
pub mod reconcile;
mod report;
pub mod services;
pub mod shop;
pub mod steps;
pub mod taught;

use std::error::Error;

/// Any error.
pub type Failure = Box<dyn Error + Send + Sync>;
