//! What half messages need of a store, without a broker.

use diesel_outbox::half_messages::HalfMessageError;
use diesel_outbox::store::{MemoryStore, SchemaProblem, StoreError};
use diesel_outbox::transport::RocketMqConfig;
use diesel_outbox::{Outbox, Topic};

use super::database::{TestDatabase, on_each_database};

/// Nobody listens there, which is no error by itself.
fn nobody() -> RocketMqConfig {
    RocketMqConfig::new("127.0.0.1:1")
}

fn outbox() -> Outbox {
    Outbox::builder().topic(Topic::new("scans")).build().unwrap()
}

#[test]
fn half_messages_of_rocketmq_need_a_store_that_marks() {
    let refused = outbox().half_messages_blocking(MemoryStore::new(), nobody()).unwrap_err();
    assert!(matches!(refused, HalfMessageError::NoMarks), "{refused}");
}

fn half_messages_of_rocketmq_need_their_table<S: TestDatabase>() {
    let Some((url, _folder)) = S::fresh() else { return };
    let refused = outbox().half_messages_blocking(S::store(&url), nobody()).unwrap_err();
    let missing = StoreError::Schema(SchemaProblem::Missing { table: "outbox_half_messages".to_owned() });
    assert_eq!(refused.to_string(), missing.to_string());
    S::connect(&url).migrate();
    drop(outbox().half_messages_blocking(S::store(&url), nobody()).unwrap());
}

on_each_database!(half_messages_of_rocketmq_need_their_table);
