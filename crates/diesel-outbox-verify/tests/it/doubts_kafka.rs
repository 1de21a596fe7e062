//! What cannot be told of a topic of Kafka. The table plays no part in it, so one database does.

use std::time::Duration;

use diesel_outbox::{MessageId, Topic};
use diesel_outbox_verify::{Doubt, KafkaSource, Verification, VerifyError};
use rdkafka::Offset;
use rdkafka::producer::Producer as _;

use crate::broker::Cluster;
use crate::shop::{DEADLINE, Kind, Shop, assert_found, kept, unique_name, verdicts};

/// A shop whose messages were sent, to a topic with these settings.
async fn sent(
    topic: fn(&str) -> Topic,
    partitions: i32,
    settings: &[(&str, &str)],
    keys: &[&str],
) -> Option<(Shop, Cluster, KafkaSource, Vec<MessageId>)> {
    let name = unique_name("orders");
    let cluster = Cluster::with_topic(&name, partitions, settings).await?;
    let shop = Shop::open(Kind::Sqlite, topic(&name)).await?;
    let relay = shop.start(cluster.transport()).await;
    let sent = shop.send(keys).await;
    relay.shutdown(DEADLINE).await;
    let source = KafkaSource::new(&cluster.config());
    Some((shop, cluster, source, sent))
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_were_deleted_are_not_lost_sqlite() {
    let Some((shop, cluster, mut source, _)) = sent(kept, 1, &[], &["1", "2", "3"]).await else { return };
    cluster.delete_records(0, Offset::Offset(2)).await;
    let report = shop.verify(&mut source).await;
    assert_eq!(verdicts(&report), []);
    assert!(matches!(report.cannot_tell[..], [Doubt::TopicRetention { messages: 2, .. }]), "{report:#?}");
    let [partition] = &report.compared.partitions[..] else { panic!("{report:#?}") };
    assert_eq!((partition.first, partition.begin, partition.end), (2, 2, 3));
    cluster.delete_records(0, Offset::End).await;
    let report = shop.verify(&mut source).await;
    assert_eq!(verdicts(&report), []);
    assert!(matches!(report.cannot_tell[..], [Doubt::TopicRetention { messages: 3, .. }]), "{report:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_is_told_sqlite() {
    let Some((shop, cluster, mut source, sent)) = sent(kept, 1, &[], &["1", "2"]).await else { return };
    let open = cluster.begin(0);
    let lost = shop.pretend_sent(sent[0]).await;
    let report = shop.verify(&mut source).await;
    assert_eq!(verdicts(&report), []);
    let [Doubt::OpenTransaction { last_stable: 2, high_watermark: 3, .. }, Doubt::Unread { messages: 1 }] =
        report.cannot_tell[..]
    else {
        panic!("{report:#?}")
    };
    open.abort_transaction(Duration::from_secs(30)).expect("aborted");
    let report = shop.verify(&mut source).await;
    assert_found(&report, &[("lost", lost)]);
    assert_eq!(report.compared.records, 2, "what was aborted was never there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compacted_topic_is_told_sqlite() {
    let settings = [("cleanup.policy", "compact")];
    let Some((shop, _cluster, mut source, sent)) = sent(kept, 1, &settings, &["1", "2"]).await else { return };
    let report = shop.verify(&mut source).await;
    assert_eq!(report.cannot_tell, [Doubt::Compaction { messages: 0, problem: None }]);
    shop.pretend_sent(sent[0]).await;
    let report = shop.verify(&mut source).await;
    assert_eq!(verdicts(&report), []);
    assert_eq!(report.cannot_tell, [Doubt::Compaction { messages: 1, problem: None }]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_without_a_history_is_told_sqlite() {
    let name = unique_name("orders");
    let Some(cluster) = Cluster::with_topic(&name, 1, &[]).await else { return };
    let shop = Shop::open(Kind::Sqlite, Topic::new(name)).await.expect("a file");
    cluster.produce(0, Some(MessageId::new()));
    let report = shop.verify(&mut KafkaSource::new(&cluster.config())).await;
    assert_eq!((verdicts(&report), &report.cannot_tell[..]), (vec![], &[Doubt::HistoryNotKept { records: 1 }][..]));
}

/// Partitions were added, so that keys moved.
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_moved_are_told_sqlite() {
    let ordered = |name: &str| kept(name).ordered_by_key().lanes(4);
    let keys = ["1", "2", "3", "4", "5", "6"];
    let Some((shop, cluster, mut source, _)) = sent(ordered, 1, &[], &keys).await else { return };
    cluster.grow(8).await;
    let relay = shop.start(cluster.transport()).await;
    shop.send(&keys).await;
    relay.shutdown(DEADLINE).await;
    let report = shop.verify(&mut source).await;
    assert_eq!(verdicts(&report), []);
    let [Doubt::KeyInSeveralPartitions { keys, .. }] = report.cannot_tell[..] else { panic!("{report:#?}") };
    assert!((1..=6).contains(&keys));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_period_is_read_sqlite() {
    let Some((shop, cluster, mut source, _)) = sent(kept, 1, &[], &["1", "2"]).await else { return };
    let admin = shop.admin();
    let newest = admin.now().await.expect("the time");
    while admin.now().await.expect("the time") <= newest + Duration::from_millis(2) {}
    let since = admin.now().await.expect("the time");
    let relay = shop.start(cluster.transport()).await;
    shop.send(&["3"]).await;
    relay.shutdown(DEADLINE).await;
    let end = admin.now().await.expect("the time") + Duration::from_millis(2);
    while admin.now().await.expect("the time") <= end {}
    let verification = Verification::of(&admin, shop.topic.as_str()).since(since);
    let report = verification.run(&mut source, |_| {}).await.expect("verified");
    assert_found(&report, &[]);
    assert_eq!((report.compared.sent, report.compared.records), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_the_cluster_lacks_is_an_error_sqlite() {
    let Some((shop, cluster, _, _)) = sent(kept, 1, &[], &["1"]).await else { return };
    let missing = unique_name("missing");
    let admin = shop.admin();
    let topic = Verification::of(&admin, missing.as_str());
    let error = topic.run(&mut KafkaSource::new(&cluster.config()), |_| {}).await.expect_err("nobody knows it");
    assert!(matches!(error, VerifyError::NoSuchTopic { .. }), "{error}");
    let shop = Shop::open(Kind::Sqlite, kept(&missing)).await.expect("a file");
    let topic =
        Verification::of(&shop.admin(), missing.as_str()).run(&mut KafkaSource::new(&cluster.config()), |_| {}).await;
    let error = topic.expect_err("the cluster lacks it").to_string();
    assert!(error.contains(&missing) && error.contains(&cluster.bootstrap), "{error}");
}
