//! Through a real relay to Kafka, on each database.

use diesel_outbox::MessageId;
use diesel_outbox_verify::{Finding, KafkaSource, Part, Table};

use crate::broker::Cluster;
use crate::shop::{DEADLINE, Kind, Shop, assert_found, kept, of, unique_name, verdicts};

/// A shop with a new topic of so many partitions.
async fn open(kind: Kind, name: &str, partitions: i32) -> Option<(Shop, Cluster, KafkaSource)> {
    let topic = unique_name(name);
    let cluster = Cluster::with_topic(&topic, partitions, &[]).await?;
    let source = KafkaSource::new(&cluster.config());
    let topic = kept(&topic);
    let topic = if name == "payments" { topic.ordered_by_key().lanes(4) } else { topic };
    Some((Shop::open(kind, topic).await?, cluster, source))
}

/// Beside the relay, while it sends.
async fn clean(kind: Kind) {
    let Some((shop, cluster, mut source)) = open(kind, "payments", 3).await else { return };
    let relay = shop.start(cluster.transport()).await;
    let report = shop.verify(&mut source).await;
    assert!(!report.is_clean(), "there is nothing yet: {report:#?}");
    let first = shop.send(&["1", "2", "3", "1", "2", "3", "1"]).await;
    let report = shop.verify(&mut source).await;
    assert_found(&report, &[]);
    assert!(report.is_clean());
    assert_eq!((report.compared.sent, report.compared.records, report.compared.matched), (7, 7, 7));
    let read: i64 = report.compared.partitions.iter().map(|partition| partition.end - partition.begin).sum();
    assert_eq!((report.compared.partitions.len(), read), (3, 7));
    let enqueue = async {
        for round in 0..40 {
            shop.enqueue(&(round % 4).to_string()).await;
        }
    };
    let verify = async {
        for _ in 0..3 {
            let report = shop.verify(&mut source).await;
            assert_found(&report, &[]);
            assert!(report.compared.matched >= first.len() as u64);
        }
    };
    tokio::join!(enqueue, verify);
    relay.shutdown(DEADLINE).await;
}

async fn mistakes(kind: Kind) {
    let Some((shop, cluster, mut source)) = open(kind, "orders", 1).await else { return };
    let relay = shop.start(cluster.transport()).await;
    let sent = shop.send(&["0", "1", "2", "3", "4", "5"]).await;
    let [first, deleted, altered, early, doubled, headers] = sent[..] else { unreachable!("six messages") };
    assert_found(&shop.verify(&mut source).await, &[]);

    shop.delete(deleted).await;
    shop.update(altered, &format!("payload = {}", shop.bytes("00"))).await;
    shop.update(headers, "headers = '[]'").await;
    shop.update(early, &format!("deliver_at = {}", shop.an_hour_after("created_at"))).await;
    let lost = shop.pretend_sent(first).await;
    shop.admin().resend(doubled).await.expect("sent again");
    shop.wait_for_sent(&[doubled]).await;
    relay.shutdown(DEADLINE).await;
    let by_hand = MessageId::new();
    cluster.produce(0, Some(by_hand));
    let report = shop.verify(&mut source).await;
    assert_found(
        &report,
        &[
            ("lost", lost),
            ("phantom", deleted),
            ("phantom", by_hand),
            ("altered", altered),
            ("altered", headers),
            ("early", early),
            ("doubled", doubled),
        ],
    );
    let Finding::Lost { row } = of(&report, "lost") else { panic!("{report:?}") };
    assert_eq!((row.table, row.row_id), (Table::History, Some(shop.sent(lost).await.id)));
    let Finding::Altered { row, record, parts } = of(&report, "altered") else { panic!("{report:?}") };
    assert_eq!((row.message_id, record.offset, &parts[..]), (altered, 2, &[Part::Payload][..]));
    let Finding::Doubled { record, copies: 2, .. } = of(&report, "doubled") else { panic!("{report:?}") };
    assert_eq!((record.partition.as_str(), record.offset), ("0", 4));
    let Finding::Early { record, .. } = of(&report, "early") else { panic!("{report:?}") };
    assert_eq!(record.offset, 3);
    assert!(report.has_found());
}

/// Two rows change places, as if the relay had sent the later one first.
async fn swapped(kind: Kind) {
    let Some((shop, cluster, mut source)) = open(kind, "payments", 2).await else { return };
    let relay = shop.start(cluster.transport()).await;
    let sent = shop.send(&["1", "2", "1", "1"]).await;
    relay.shutdown(DEADLINE).await;
    let (first, third) = (shop.sent(sent[0]).await.id, shop.sent(sent[2]).await.id);
    assert!(first < third);
    for (message, id) in [(sent[0], third), (sent[2], first)] {
        shop.update(message, &format!("id = {id}")).await;
    }
    let report = shop.verify(&mut source).await;
    assert_found(&report, &[("reordered", sent[2])]);
    let Finding::Reordered { row, record, later_row, later_record } = of(&report, "reordered") else {
        panic!("{report:?}")
    };
    assert_eq!((row.row_id, later_row.row_id, later_row.message_id), (Some(first), Some(third), sent[0]));
    assert!(later_record.offset < record.offset && record.partition == later_record.partition);
}

macro_rules! on_each_database {
    ($($scenario:ident: $postgres:ident, $mariadb:ident, $sqlite:ident;)+) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $postgres() {
            $scenario(Kind::Postgres).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn $mariadb() {
            $scenario(Kind::Mariadb).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn $sqlite() {
            $scenario(Kind::Sqlite).await;
        }
    )+};
}

on_each_database! {
    clean: a_clean_run_is_clean_on_postgres, a_clean_run_is_clean_on_mariadb, a_clean_run_is_clean_on_sqlite;
    mistakes: each_mistake_is_found_on_postgres, each_mistake_is_found_on_mariadb, each_mistake_is_found_on_sqlite;
    swapped: swapped_rows_are_found_on_postgres, swapped_rows_are_found_on_mariadb, swapped_rows_are_found_on_sqlite;
}

/// A record of somebody else, without the outbox's headers.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_another_producer_is_a_phantom_sqlite() {
    let Some((shop, cluster, mut source)) = open(Kind::Sqlite, "orders", 2).await else { return };
    let relay = shop.start(cluster.transport()).await;
    shop.send(&["1"]).await;
    relay.shutdown(DEADLINE).await;
    cluster.produce(1, None);
    let report = shop.verify(&mut source).await;
    assert_eq!(verdicts(&report), [("phantom", None)]);
}
