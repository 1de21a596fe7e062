//! Notices: how a commit reaches the owner of its lane in another process, where the store passes them on.
//!
//! ```text
//! commit hook ─ unnotified ─ notifier ─ (store) ─▶ notice listener of every relay ─ pending reads ─ its readers
//! ```
//!
//! They hasten what the poll would find, and nothing rests on them.

pub(crate) mod listener;
pub(crate) mod notifier;
pub(crate) mod payload;
