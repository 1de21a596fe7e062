//! What becomes of a row after its outcome: it is settled, tried again, or dead-lettered.

pub(super) mod delivered;
pub(super) mod failures;
pub(super) mod outcome_queue;
pub(super) mod settle_batch;
pub(crate) mod unflushed;
