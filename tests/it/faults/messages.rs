//! Messages and transactions at the edge of what is usual.

use std::time::{Duration, Instant};

use diesel::sql_types::Bool;
use diesel_async::{AsyncConnection, RunQueryDsl};
use diesel_outbox::transport::{KafkaConfig, KafkaTopic, KafkaTransport};
use diesel_outbox::{Message, Outbox, Topic};
use uuid::Uuid;

use super::audit::audit;
use super::shop::{DEADLINE, Shop, insert_order};

/// Commits messages with their orders in one transaction; their ids.
pub(super) async fn commit(shop: &Shop, outbox: &Outbox, messages: Vec<Message>) -> Vec<Uuid> {
    let mut connection = shop.connect().await;
    let ids = connection
        .transaction(async |connection| {
            let ids = outbox.enqueue_all_async(connection, messages).await?;
            for (id, number) in ids.iter().zip(0..) {
                insert_order(connection, *id, number).await?;
            }
            Ok::<_, diesel::result::Error>(ids)
        })
        .await
        .unwrap();
    ids.into_iter().map(Uuid::from).collect()
}

fn message(shop: &Shop, bytes: usize) -> Message {
    Message::to(shop.topic.as_str()).payload_bytes(vec![b'x'; bytes])
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_messages_in_one_transaction() {
    let Some(shop) = Shop::open().await else { return };
    let outbox = shop.outbox();
    let relay = shop.start_relay(&outbox).await;
    commit(&shop, &outbox, vec![message(&shop, 100); 10_000]).await;
    shop.wait_until_drained().await;
    assert!(relay.shutdown(Duration::from_secs(10)).await.is_clean());
    let audit = audit(&shop).await;
    assert_eq!((audit.committed, audit.delivered), (10_000, 10_000), "{audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_of_900_kb_arrives_whole() {
    let Some(shop) = Shop::open().await else { return };
    let outbox = shop.outbox();
    let _relay = shop.start_relay(&outbox).await;
    commit(&shop, &outbox, vec![message(&shop, 900_000)]).await;
    shop.wait_until_drained().await;
    let audit = audit(&shop).await;
    assert_eq!((audit.delivered, audit.bytes), (1, 900_000), "{audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_larger_than_the_broker_takes_is_dead_lettered_and_takes_no_other_with_it() {
    let Some(shop) = Shop::open().await else { return };
    let topic = Topic::new(shop.topic.as_str()).message_bytes_max(4_000_000);
    let outbox = Outbox::builder().topic(topic).build().unwrap();
    let config =
        KafkaConfig::new(&shop.bootstrap).set("message.timeout.ms", "2000").set("message.max.bytes", "4000000");
    let created = KafkaTopic::new(shop.topic.as_str()).partitions(1).replication(1);
    let kafka = KafkaTransport::builder(config).create_topic(created).build().unwrap();
    let mut messages = vec![message(&shop, 100); 20];
    messages.insert(10, message(&shop, 2_000_000));
    commit(&shop, &outbox, messages).await;
    let _relay = shop.relay(&outbox, kafka).start().await.unwrap();
    shop.wait_until_drained().await;
    let dead = shop.dead_letters().await;
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert!(dead[0].1.starts_with("refused"), "{dead:?}");
    assert_eq!(audit(&shop).await.delivered, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_longer_than_the_staleness_is_swept_once() {
    let Some(shop) = Shop::open().await else { return };
    let outbox = shop.outbox();
    let relay = shop.start_relay(&outbox).await;
    let mut connection = shop.connect().await;
    connection
        .transaction(async |connection| {
            let id = outbox.enqueue_async(connection, &message(&shop, 10)).await?;
            insert_order(connection, id, 1).await?;
            let end = Instant::now() + DEADLINE;
            let lease_is_over =
                diesel::dsl::sql::<Bool>("SELECT bool_and(due_at < clock_timestamp()) FROM outbox_messages");
            while !lease_is_over.clone().get_result::<bool>(connection).await? {
                assert!(Instant::now() < end, "a born lease that never ends");
            }
            Ok::<_, diesel::result::Error>(())
        })
        .await
        .unwrap();
    shop.wait_until_drained().await;
    assert!(relay.shutdown(Duration::from_secs(10)).await.is_clean());
    let audit = audit(&shop).await;
    assert_eq!((audit.delivered, audit.duplicates), (1, 0), "{audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_topic_waits_until_it_is_made() {
    let Some(shop) = Shop::open().await else { return };
    let outbox = shop.outbox();
    let plain = KafkaConfig::new(&shop.bootstrap)
        .set("message.timeout.ms", "2000")
        .set("topic.metadata.propagation.max.ms", "100");
    let limits = super::shop::limits().topic_back_off_duration(Duration::from_millis(500));
    let kafka = KafkaTransport::new(plain).unwrap();
    let relay = shop.relay(&outbox, kafka).limits(limits).start().await.unwrap();
    shop.place_all(&outbox, 0..10).await;
    let end = Instant::now() + DEADLINE;
    while relay.status().refused_topics.is_empty() {
        assert!(Instant::now() < end, "the topic is not known to be refused: {:?}", relay.status());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(shop.highest_attempts_and_failures().await.0, 0, "an unknown topic spends no attempt");
    // Another node that makes its topics.
    let other = shop.relay(&shop.outbox(), shop.kafka()).start().await.unwrap();
    drop(other);
    shop.wait_until_drained().await;
    let audit = audit(&shop).await;
    assert_eq!((audit.delivered, audit.dead_letters), (audit.committed, 0), "{audit:?}");
}
