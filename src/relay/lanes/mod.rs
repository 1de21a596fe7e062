//! Ordered topics: lanes, their leases, and the order of their keys.
//!
//! ```text
//! commit hook ─ pending reads ─┐                          ┌─ delivered: the next row of the key; settler ─ settle
//!                              ├─ reader ─ rows ─ send ───┤
//! balancer ─ leases ───────────┘                          └─ failed: the key waits; settler ─ fail, dead-letter
//! ```
//!
//! A lane's rows are first read by id, without their payloads. Per key, one row is in flight, and its payload is read
//! when its turn comes. That second read proves that nobody settled the row in between. An inline row that is still
//! fresh skips the second read, once: no relay but the lane's owner settles it, and this one has not sent it.
//!
//! The fencer fences a lane of a fenced topic before anything is sent from it, and again after its producer closed.
//! Several rows of a key are in flight then, and a failed row takes those behind it back.

pub(crate) mod balancer;
pub(crate) mod failures;
pub(crate) mod fencer;
pub(crate) mod in_flight;
pub(crate) mod lane;
pub(crate) mod load;
pub(crate) mod node_health;
pub(crate) mod ordered_topics;
pub(crate) mod reader;
pub(crate) mod topic;
