//! Each verdict and each doubt, with tables and topics in memory.

mod beside_a_relay;
mod doubts;
mod reported;
mod shop;
mod size;
mod verdicts;
