//! Receipts tell where Kafka stores a message.

use std::collections::HashMap;
use std::time::Duration;

use diesel_outbox::Outbox;
use diesel_outbox::receipts::DeliveryStatus;

use super::any_shop::Database;
use super::audit::read_records;
use super::ordered::Ordered;
use super::owner::{Sends, start, until_all_owned};
use super::shop::{DEADLINE, Shop, order};

/// Commits orders, and compares what their receipts tell with the topic.
async fn tell_the_place(shop: &Shop, outbox: &Outbox) {
    let mut connection = shop.connect().await;
    let mut told = HashMap::new();
    for number in 0..20 {
        let message = order(&shop.topic, number);
        let placed = outbox.transaction_async(&mut connection, async |tx| tx.enqueue_with_receipt(&message)).await;
        let receipt = placed.unwrap().into_receipt().unwrap();
        let status = receipt.within(DEADLINE).await;
        let DeliveryStatus::Acknowledged { partition: Some(partition), offset: Some(offset) } = status else {
            panic!("{status:?}")
        };
        told.insert(*receipt.message_id().as_uuid(), (partition, offset));
    }
    let (bootstrap, topic) = (shop.bootstrap.clone(), shop.topic.clone());
    let records = tokio::task::spawn_blocking(move || read_records(&bootstrap, &topic)).await.unwrap();
    let stored: HashMap<_, _> = records.iter().map(|record| (record.id, (record.partition, record.offset))).collect();
    assert_eq!(told, stored);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_tells_partition_and_offset() {
    let Some(shop) = Shop::open().await else { return };
    let outbox = shop.outbox();
    let relay = shop.start_relay(&outbox).await;
    tell_the_place(&shop, &outbox).await;
    assert!(relay.shutdown(Duration::from_secs(20)).await.is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_tells_partition_and_offset_of_a_transaction() {
    let Some(ordered) = Ordered::open(Database::Postgres, Sends::Once).await else { return };
    let outbox = ordered.outbox();
    let relay = start(ordered.shop.on, &ordered.shop.at, &outbox, ordered.shop.at.kafka()).await;
    until_all_owned(&relay).await;
    tell_the_place(&ordered.shop.at, &outbox).await;
    assert!(relay.shutdown(Duration::from_secs(20)).await.is_clean());
}
