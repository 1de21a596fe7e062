//! What the shop's own consumers cannot read is set aside at once; a Redis that is away sets nothing aside.

use std::time::Duration;

use diesel_outbox::consumer::ParkedRecords;
use order_chain::domain::{ORDERS, PAYMENT_TERMS};
use order_chain::embedded::world::Consumer;
use order_chain::load::client::Ask;
use order_chain::shop::sqlite;
use order_chain::steps::Steps;
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::bed::{Bed, UNITS, wait_until};

async fn parked(bed: &Bed, group: &str) -> usize {
    let pool = sqlite::pool(&bed.world.shop_file(), 1).expect("a pool");
    let mut conn = pool.get().await.expect("a connection");
    ParkedRecords::new(group).list_async(&mut *conn, 0, 100).await.expect("a list").len()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_record_is_set_aside_alone_and_an_outage_of_redis_is_waited_for() {
    let mut bed = Bed::new(Steps::default()).await;
    let id = bed.placed("key", 2).await;
    let bootstrap = bed.world.kafka.bootstrap_servers();
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", bootstrap).create().expect("a producer");
    for topic in [ORDERS, PAYMENT_TERMS] {
        producer.send(BaseRecord::to(topic).key(&id).payload("no order")).map_err(|(error, _)| error).expect("sent");
    }
    tokio::task::block_in_place(|| producer.flush(Duration::from_secs(30))).expect("the broker has them");
    // What follows it is of the same key.
    assert!(bed.send(&Ask::pay(&id)).await.status.is_success());
    bed.world.cache.set_away(true);
    bed.world.start_relay().await.expect("started");
    for consumer in [Consumer::Close, Consumer::Cache] {
        bed.world.start_consumer(consumer).expect("started");
    }
    for group in ["shop-cache", "shop-close"] {
        wait_until(&format!("{group} has set it aside"), async || parked(&bed, group).await == 1).await;
    }
    bed.world.cache.set_away(false);
    wait_until("the payment reaches the cache", async || bed.shelf().await.sold == 2).await;
    assert_eq!(bed.units().await, (UNITS - 2, 0));
    assert_eq!(parked(&bed, "shop-cache").await, 1);
    bed.world.end().await.expect("it ends in order");
}
