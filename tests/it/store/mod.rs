//! Stores, against the conformance suite and against what is particular to each.

mod memory;
mod postgres;
