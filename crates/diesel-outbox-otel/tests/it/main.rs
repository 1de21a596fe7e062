//! The traces of real runs, as an OTLP receiver in this process gets them.

mod child;
mod collector;
mod consumers;
mod crash;
mod enqueue;
mod global;
mod http_receiver;
mod loops;
#[allow(dead_code, reason = "shared with the tests of the library, which need more of it")]
#[path = "../../../../tests/it/transport/rocketmq_broker.rs"]
mod rocketmq_broker;
mod sends;
mod shop;
mod transports;
mod wrapper;
