//! Ordered topics: lanes, their leases, and the order of their keys.
//!
//! ```text
//! commit hook ─ pending reads ─┐                                  ┌─ delivered: the next row of the key; settler ─ settle
//!                      ├─ reader ─ entries ─ rows ─ send ─┤
//! balancer ─ leases ─────┘                                  └─ failed: the key waits; settler ─ fail, dead
//! ```
//!
//! A lane's rows are read by id, without what they carry; one row of each key is under way, and what it carries is read when
//! its turn comes. That second read is the proof that nobody settled it meanwhile. A row that came along with its commit needs
//! no second read, once and while it is young: no relay but the lane's owner settles it, and this one has not sent it.
//!
//! A lane of a fenced topic is fenced before anything is sent from it, by the fencer, and again after its way out closed.
//! Several rows of a key are under way then; one that fails takes those behind it back.

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
