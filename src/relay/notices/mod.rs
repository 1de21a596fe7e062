//! Notices: how a lane's owner in another process learns of a commit, if the store can pass notices.
//!
//! ```text
//! commit hook ─ unnotified ─ notifier ─ (store) ─▶ notice listener of every relay ─ pending reads ─ its readers
//! ```
//!
//! Notices only speed up what the poll would find. Nothing depends on them.

pub(crate) mod listener;
pub(crate) mod notifier;
pub(crate) mod payload;
