//! Codecs and events through real brokers, and real and faked schema registries.

mod cloudevents;
mod consumer;
mod decoding;
mod fake_registry;
mod kafka;
mod registry_answers;
mod schema_registry;
mod several_registries;
mod shop;
mod webhook;
