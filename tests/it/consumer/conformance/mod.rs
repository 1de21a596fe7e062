//! The conformance suite of consumers: the library's own pass it, and for each rule a consumer that breaks it fails.

mod brokers;
mod mistakes;
mod own;
