//! The client of a schema registry, with the interface of Confluent's, which Karapace and Apicurio (`/apis/ccompat/v7`) have too.

mod client;
mod config;
mod error;
mod tls;

pub(crate) use client::Client;
pub use config::SchemaRegistry;
pub use error::{SchemaError, SchemaProblem};
