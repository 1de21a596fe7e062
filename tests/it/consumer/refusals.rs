//! What is refused at the start.

use diesel::r2d2::{ConnectionManager, Pool};
use diesel::sqlite::SqliteConnection;
use diesel_outbox::consumer::{ConsumerStartError, HandlerError, KafkaConsumer, Record};
use diesel_outbox::transport::KafkaConfig;

fn pool() -> Pool<ConnectionManager<SqliteConnection>> {
    Pool::builder().max_size(2).build(ConnectionManager::new(":memory:")).expect("a pool")
}

fn handle(_: &mut SqliteConnection, _: &Record) -> Result<(), HandlerError> {
    Ok(())
}

fn consumer(config: KafkaConfig) -> KafkaConsumer {
    KafkaConsumer::new(config, "billing")
}

#[test]
fn a_consumer_has_a_topic_and_settings_that_are_not_its_own() {
    let nowhere = || KafkaConfig::new("127.0.0.1:1");
    let no_topic = consumer(nowhere()).start(pool(), handle);
    assert!(matches!(no_topic, Err(ConsumerStartError::NoTopic)), "{no_topic:?}");
    let refused = consumer(nowhere().set("enable.auto.commit", "true")).topic("orders").start(pool(), handle);
    let text = refused.expect_err("refused").to_string();
    assert!(text.contains("enable.auto.commit") && text.contains("is committed once"), "{text}");
    let unknown = consumer(nowhere().set("fetch.everything", "true")).topic("orders").start(pool(), handle);
    assert!(unknown.expect_err("unknown").to_string().contains("fetch.everything"));
}

#[test]
fn async_connections_need_a_runtime() {
    let manager = diesel_async::pooled_connection::AsyncDieselConnectionManager::new("postgres://nowhere");
    let pool = diesel_async::pooled_connection::deadpool::Pool::<diesel_async::AsyncPgConnection>::builder(manager)
        .build()
        .expect("a pool");
    let started = consumer(KafkaConfig::new("127.0.0.1:1"))
        .topic("orders")
        .start_async(pool, async |_: &mut diesel_async::AsyncPgConnection, _: &Record| Ok::<_, HandlerError>(()));
    assert!(matches!(started, Err(ConsumerStartError::NoRuntime)), "{started:?}");
}
