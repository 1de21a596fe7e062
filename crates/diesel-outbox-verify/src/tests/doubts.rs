//! What cannot be told is said to be so, and is never clean.

use diesel_outbox::internals::store::InsertOptions;

use super::shop::{HOUR, SECOND, Shop, in_millis, only_doubt, verdicts};
use crate::{Compaction, Doubt, OpenTransaction, Partition};

#[tokio::test]
async fn nothing_is_not_clean() {
    let mut shop = Shop::open();
    shop.send("1").await;
    let since = shop.store.now() + SECOND;
    shop.store.advance(HOUR);
    let report = shop.verification("orders").since(since).run(&mut shop.topic, |_| {}).await.expect("verified");
    assert_eq!(only_doubt(&report), &Doubt::NothingToCompare);
}

#[tokio::test]
async fn without_a_history_records_are_no_phantoms_and_nothing_is_lost() {
    let mut shop = Shop::open();
    let row = shop.send_to("invoices", "1", InsertOptions::default(), 0).await;
    shop.forget(row.message_id).await;
    let report = shop.verify("invoices").await;
    assert_eq!(only_doubt(&report), &Doubt::HistoryNotKept { records: 1 });
    assert!(only_doubt(&report).to_string().contains("keep_sent_days"));
}

#[tokio::test]
async fn a_record_older_than_the_history_is_no_phantom() {
    let mut shop = Shop::open();
    let pruned = shop.send("1").await;
    shop.send("2").await;
    let phantom = shop.send("3").await;
    shop.forget(pruned).await;
    shop.forget(phantom).await;
    let report = shop.verify("orders").await;
    assert_eq!(verdicts(&report), [("phantom", Some(phantom))]);
    let [Doubt::HistoryRetention { records: 1, since: Some(since) }] = report.cannot_tell[..] else {
        panic!("{report:?}")
    };
    assert_eq!(since, in_millis(shop.topic.partitions[0][1].at));
}

#[tokio::test]
async fn a_message_older_than_the_topic_is_not_lost() {
    let mut shop = Shop::open();
    let removed = shop.send("1").await;
    shop.store.advance(HOUR);
    shop.send("2").await;
    shop.store.advance(HOUR);
    let lost = shop.send("3").await;
    shop.topic.remove(removed);
    shop.topic.remove(lost);
    // Offset 0 was removed by the broker.
    shop.topic.state.partitions = vec![Partition { name: "0".into(), first: 1, begin: 1, ..Partition::default() }];
    let report = shop.verify("orders").await;
    assert_eq!(verdicts(&report), [("lost", Some(lost))]);
    assert!(matches!(report.cannot_tell[..], [Doubt::TopicRetention { messages: 1, .. }]), "{report:?}");
}

/// The broker has removed everything, so that no record says how far.
#[tokio::test]
async fn nothing_is_lost_of_a_partition_that_was_emptied() {
    let mut shop = Shop::open();
    let removed = shop.send("1").await;
    shop.topic.remove(removed);
    shop.topic.state.partitions = vec![Partition { name: "0".into(), first: 1, begin: 1, ..Partition::default() }];
    let report = shop.verify("orders").await;
    assert!(matches!(only_doubt(&report), Doubt::TopicRetention { messages: 1, .. }));
}

/// Records were removed from the topic, but only such that are older than the period.
#[tokio::test]
async fn what_was_removed_before_the_period_leaves_no_doubt() {
    let mut shop = Shop::open();
    let lost = shop.send("1").await;
    shop.send("2").await;
    shop.topic.remove(lost);
    shop.topic.state.partitions = vec![Partition { name: "0".into(), first: 5, begin: 9, ..Partition::default() }];
    assert_eq!(verdicts(&shop.verify("orders").await), [("lost", Some(lost))]);
}

#[tokio::test]
async fn of_a_compacted_topic_neither_losses_nor_the_order_can_be_told() {
    let mut shop = Shop::open();
    let replaced = shop.pay("a", 0).await;
    shop.pay("a", 0).await;
    shop.pay("a", 0).await;
    shop.topic.remove(replaced.message_id);
    shop.topic.partitions[0].swap(0, 1);
    for (offset, record) in (0..).zip(&mut shop.topic.partitions[0]) {
        record.offset = offset;
    }
    for (compaction, problem) in
        [(Compaction::On, None), (Compaction::Unknown("refused".into()), Some("refused".to_owned()))]
    {
        shop.topic.state.compaction = compaction;
        let report = shop.verify("payments").await;
        assert_eq!(only_doubt(&report), &Doubt::Compaction { messages: 1, problem });
    }
}

#[tokio::test]
async fn what_may_be_in_an_open_transaction_is_not_lost() {
    let mut shop = Shop::open();
    shop.send("1").await;
    let message = shop.send("2").await;
    shop.topic.remove(message);
    let open = OpenTransaction { last_stable: 1, high_watermark: 3 };
    shop.topic.state.partitions =
        vec![Partition { name: "0".into(), open_transaction: Some(open), ..Partition::default() }];
    let report = shop.verify("orders").await;
    let told = Doubt::OpenTransaction { partition: "0".into(), last_stable: 1, high_watermark: 3 };
    assert_eq!((&report.findings[..], &report.cannot_tell[..]), (&[][..], &[told, Doubt::Unread { messages: 1 }][..]));
}

#[tokio::test]
async fn what_may_be_in_an_unread_partition_is_not_lost() {
    let mut shop = Shop::open();
    shop.send("1").await;
    let message = shop.send("2").await;
    shop.topic.remove(message);
    shop.topic.state.partitions = vec![
        Partition { name: "0".into(), ..Partition::default() },
        Partition { name: "1".into(), unread: Some("no leader".into()), ..Partition::default() },
    ];
    let report = shop.verify("orders").await;
    let told = Doubt::UnreadPartition { partition: "1".into(), problem: "no leader".into() };
    assert_eq!((&report.findings[..], &report.cannot_tell[..]), (&[][..], &[told, Doubt::Unread { messages: 1 }][..]));
}

#[tokio::test]
async fn a_key_in_several_partitions_has_no_order() {
    let mut shop = Shop::open();
    let first = shop.pay("a", 0).await;
    let second = shop.pay("a", 1).await;
    shop.pay("b", 1).await;
    let report = shop.verify("payments").await;
    let Doubt::KeyInSeveralPartitions { keys: 1, example } = only_doubt(&report) else { panic!("{report:?}") };
    assert!([first.message_id, second.message_id].contains(example));
}

/// A copy of one message in another partition, as after partitions were added.
#[tokio::test]
async fn a_message_in_several_partitions_has_no_order() {
    let mut shop = Shop::open();
    let message = shop.pay("a", 0).await.message_id;
    let copy = shop.record_of(message).await;
    shop.topic.push(1, copy);
    let report = shop.verify("payments").await;
    assert_eq!(report.cannot_tell, [Doubt::KeyInSeveralPartitions { keys: 1, example: message }]);
}

/// A broker that holds messages back shows none of them yet.
#[tokio::test]
async fn what_the_broker_still_holds_back_is_not_lost() {
    let mut shop = Shop::open();
    shop.send("1").await;
    shop.store.advance(HOUR);
    let held = shop.send("2").await;
    shop.topic.remove(held);
    shop.topic.state.delay = HOUR / 2;
    assert!(shop.verify("orders").await.is_clean());
    shop.store.advance(HOUR);
    assert_eq!(verdicts(&shop.verify("orders").await), [("lost", Some(held))]);
}
