//! Through a real relay to RocketMQ.

use diesel_outbox::MessageId;
use diesel_outbox::transport::{RocketMqConfig, RocketMqTransport};
use diesel_outbox_verify::{Finding, RocketMqSource};
use xtask::servers::ServerKind;
use xtask::servers::rocketmq::create_topic;
use xtask::test_servers;

use crate::shop::{DEADLINE, Kind, Shop, assert_found, kept, of, unique_name};

async fn through_a_relay(kind: Kind) {
    let Some(name_server) = test_servers::shared_or_skip(ServerKind::Rocketmq) else { return };
    let topic = unique_name("orders");
    create_topic(&name_server, &topic).expect("a topic");
    let Some(shop) = Shop::open(kind, kept(&topic).ordered_by_key().lanes(4)).await else { return };
    let rocketmq = RocketMqTransport::new(RocketMqConfig::new(&name_server)).expect("a transport");
    let relay = shop.start(rocketmq).await;
    let mut source = RocketMqSource::new(&name_server);
    let sent = shop.send(&["0", "1", "2", "3", "0", "1"]).await;
    let report = shop.verify(&mut source).await;
    assert_found(&report, &[]);
    assert_eq!((report.compared.sent, report.compared.records, report.compared.matched), (6, 6, 6));
    assert_eq!(report.compared.partitions.len(), 4, "its queues");

    // Not the oldest: what is older than every row may have been removed by age.
    shop.delete(sent[5]).await;
    shop.update(sent[2], "kind = 'order.paid'").await;
    let lost = shop.pretend_sent(sent[0]).await;
    shop.admin().resend(sent[3]).await.expect("sent again");
    shop.wait_for_sent(&[sent[3]]).await;
    let (first, second) = (shop.sent(sent[0]).await.id, shop.sent(sent[4]).await.id);
    for (message, id) in [(sent[0], second), (sent[4], first)] {
        shop.update(message, &format!("id = {id}")).await;
    }
    relay.shutdown(DEADLINE).await;
    let report = shop.verify(&mut source).await;
    let expected: [(&str, MessageId); 5] =
        [("lost", lost), ("phantom", sent[5]), ("altered", sent[2]), ("doubled", sent[3]), ("reordered", sent[4])];
    assert_found(&report, &expected);
    let Finding::Phantom { record, .. } = of(&report, "phantom") else { panic!("{report:?}") };
    assert!(record.partition.contains('/'), "broker and queue: {record:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_of_rocketmq_are_found_on_postgres() {
    through_a_relay(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_of_rocketmq_are_found_on_mariadb() {
    through_a_relay(Kind::Mariadb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_of_rocketmq_are_found_on_sqlite() {
    through_a_relay(Kind::Sqlite).await;
}
