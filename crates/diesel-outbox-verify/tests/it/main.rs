//! Mistakes that are planted in real databases and brokers are found, and nothing else.

mod broker;
mod doubts_kafka;
mod kafka;
mod reported_http;
mod rocketmq;
mod shop;
