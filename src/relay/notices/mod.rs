//! Notices: how a commit reaches the owner of its lane in another process, where the store passes them on.
//!
//! ```text
//! commit hook ─ untold ─ crier ─ (store) ─▶ hearer of every relay ─ woken ─ its readers
//! ```
//!
//! They hasten what the poll would find, and nothing rests on them.

pub(crate) mod crier;
pub(crate) mod hearer;
pub(crate) mod text;
