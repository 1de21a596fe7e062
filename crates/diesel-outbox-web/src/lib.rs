//! A dashboard for [`diesel-outbox`](diesel_outbox): an [`axum::Router`] to nest in your application, under any path.
//!
//! It shows relays, topics, lanes, live messages, dead letters, the history and the audit, and does what
//! [`Admin`](diesel_outbox::admin::Admin) can do: pause, send now, cancel, redrive, edit, purge, send again. Pages are made on the server,
//! and work without JavaScript. [`Dashboard`] has an example.
//!
//! - **Access**: a function of yours decides on each request ([`Access`], [`Rights`]). Without one there is no dashboard.
//! - **Audit**: each change is recorded with its actor and their reason, in its own transaction. Without the table of the audit (migration
//!   `0000outbox06_audit`) nothing can be changed.
//! - **Other sites**: a change that another site's page has sent is refused, by `Sec-Fetch-Site` and `Origin`.
//! - **Connections**: it has its own, at most seven.
//!
//! [`HealthRoutes`] are `/livez` and `/readyz` for the probes of an orchestrator.

#![forbid(unsafe_code)]

mod access;
mod acts;
mod assets;
mod dashboard;
mod edited;
mod failure;
mod guard;
mod health;
mod jobs;
mod limits;
mod pages;
mod routes;
mod samples;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod topics;
mod verify;
mod visit;

pub use access::{Access, Right, Rights};
pub use dashboard::Dashboard;
pub use health::HealthRoutes;
pub use verify::{NotAReport, VerifyReports};
