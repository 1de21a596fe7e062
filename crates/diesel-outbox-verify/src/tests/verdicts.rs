//! A planted mistake of each verdict is found, and nothing else.

use diesel_outbox::MessageId;
use diesel_outbox::internals::store::InsertOptions;
use serde_json::json;

use super::shop::{HOUR, SECOND, Shop, in_millis, only, verdicts};
use crate::{Finding, Part, Record, Table};

#[tokio::test]
async fn tables_and_topic_that_agree_are_clean() {
    let mut shop = Shop::open();
    for key in ["1", "2", "3", "4"] {
        shop.send(key).await;
    }
    shop.enqueue("orders", "5", InsertOptions::default());
    let dead = shop.enqueue("orders", "6", InsertOptions::default());
    shop.dead_letter(dead).await;
    let report = shop.verify("orders").await;
    assert!(report.is_clean(), "{report:?}");
    let compared = &report.compared;
    assert_eq!((compared.sent, compared.live, compared.dead_letters), (4, 1, 1));
    assert_eq!((compared.records, compared.matched), (4, 4));
    assert_eq!((compared.partitions[0].begin, compared.partitions[0].end), (0, 4));
    let json = serde_json::to_value(&report).expect("JSON");
    assert_eq!(json["counts"]["lost"], json!({ "count": 0, "more": false }));
}

#[tokio::test]
async fn a_sent_message_that_the_topic_lacks_is_lost() {
    let mut shop = Shop::open();
    shop.send("1").await;
    let lost = shop.send("2").await;
    shop.topic.remove(lost);
    let report = shop.verify("orders").await;
    let Finding::Lost { row } = only(&report) else { panic!("{report:?}") };
    assert_eq!((row.table, row.message_id, row.row_id), (Table::History, lost, Some(2)));
    assert!(row.sent_at.is_some());
    assert_eq!((report.counts.lost.count, report.counts.lost.more), (1, false));
    assert!(report.has_found() && !report.is_clean());
    let told = only(&report).to_string();
    assert!(told.contains("row 2 of the history") && told.contains("no record"), "{told}");
}

#[tokio::test]
async fn a_record_that_no_table_has_is_a_phantom() {
    let mut shop = Shop::open();
    shop.send("1").await;
    let phantom = shop.send("2").await;
    shop.forget(phantom).await;
    let report = shop.verify("orders").await;
    let Finding::Phantom { record, message_id: Some(found) } = only(&report) else { panic!("{report:?}") };
    assert_eq!((*found, record.partition.as_str(), record.offset), (phantom, "0", 1));
    assert_eq!(report.counts.phantom.count, 1);
}

#[tokio::test]
async fn a_record_without_a_message_id_is_a_phantom() {
    let mut shop = Shop::open();
    shop.send("1").await;
    let at = shop.store.now();
    shop.topic.push(1, Record::new(1, 0, at));
    let report = shop.verify("orders").await;
    let Finding::Phantom { record, message_id: None } = only(&report) else { panic!("{report:?}") };
    assert_eq!((record.partition.as_str(), record.offset), ("1", 0));
}

#[tokio::test]
async fn copies_are_counted_and_allowed() {
    let mut shop = Shop::open();
    let doubled = shop.send("1").await;
    for _ in 0..2 {
        let copy = shop.record_of(doubled).await;
        shop.topic.push(0, copy);
    }
    let report = shop.verify("orders").await;
    assert_eq!(report.counts.doubled.count, 1);
    let Finding::Doubled { record, copies: 3, .. } = only(&report) else { panic!("{report:?}") };
    assert_eq!(record.offset, 0, "the first one");
    assert!(report.is_clean() && !report.has_found());
}

#[tokio::test]
async fn each_altered_part_is_named() {
    for (part, alter) in [
        (Part::Key, (|record| record.key = None) as fn(&mut Record)),
        (Part::Kind, |record| record.kind = "order.paid".to_owned()),
        (Part::Headers, |record| record.headers.push("source", "somebody else")),
        (Part::Payload, |record| record.payload = None),
    ] {
        let mut shop = Shop::open();
        shop.send("1").await;
        let altered = shop.send("2").await;
        alter(shop.topic.record(altered));
        let report = shop.verify("orders").await;
        let Finding::Altered { row, record, parts } = only(&report) else { panic!("{report:?}") };
        assert_eq!((row.message_id, record.offset, &parts[..]), (altered, 1, &[part][..]));
    }
}

#[tokio::test]
async fn one_altered_copy_among_good_ones_is_found() {
    let mut shop = Shop::open();
    let message = shop.send("1").await;
    let mut copy = shop.record_of(message).await;
    copy.payload = Some(b"altered".to_vec());
    shop.topic.push(0, copy);
    let report = shop.verify("orders").await;
    assert_eq!(verdicts(&report), [("altered", Some(message)), ("doubled", Some(message))]);
    let Finding::Altered { record, .. } = &report.findings[0] else { panic!("{report:?}") };
    assert_eq!(record.offset, 1);
}

#[tokio::test]
async fn a_record_before_its_delivery_time_is_early() {
    let mut shop = Shop::open();
    let options = InsertOptions::default().deliver_after(HOUR);
    let early = shop.enqueue("orders", "1", options);
    shop.settle(early).await;
    let in_time = shop.enqueue("orders", "2", InsertOptions::default().deliver_after(SECOND));
    shop.settle(in_time).await;
    for row in [early, in_time] {
        let record = shop.record_of(row.message_id).await;
        shop.topic.push(0, record);
    }
    let report = shop.verify("orders").await;
    let Finding::Early { row, record } = only(&report) else { panic!("{report:?}") };
    assert_eq!((row.message_id, record.offset), (early.message_id, 0));
    assert_eq!(row.deliver_at.map(in_millis), Some(in_millis(row.created_at + HOUR)));
}

#[tokio::test]
async fn a_message_that_overtook_an_earlier_one_of_its_key_is_reordered() {
    let mut shop = Shop::open();
    let first = shop.pay("a", 0).await;
    let second = shop.pay("a", 0).await;
    shop.pay("b", 0).await;
    let report = shop.verify("payments").await;
    assert!(report.is_clean(), "{report:?}");
    shop.topic.partitions[0].swap(0, 1);
    for (offset, record) in (0..).zip(&mut shop.topic.partitions[0]) {
        record.offset = offset;
    }
    let report = shop.verify("payments").await;
    let Finding::Reordered { row, record, later_row, later_record } = only(&report) else { panic!("{report:?}") };
    assert_eq!((row.message_id, record.offset), (first.message_id, 1));
    assert_eq!((later_row.message_id, later_record.offset), (second.message_id, 0));
    assert!(only(&report).to_string().contains(&second.message_id.to_string()));
}

/// After a crash, everything that was not settled is sent again: 1 2 1 2. The first copies are in order.
#[tokio::test]
async fn the_order_is_that_of_the_first_copies() {
    let mut shop = Shop::open();
    let sent = [shop.pay("a", 0).await, shop.pay("a", 0).await];
    for row in sent {
        let copy = shop.record_of(row.message_id).await;
        shop.topic.push(0, copy);
    }
    let report = shop.verify("payments").await;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.counts.doubled.count, 2);
}

/// A message that is sent again is behind the later ones of its key, in the table and in the topic.
#[tokio::test]
async fn a_message_that_was_sent_again_has_no_place_in_the_order() {
    let mut shop = Shop::open();
    let first = shop.pay("a", 0).await;
    shop.pay("a", 0).await;
    shop.admin.resend(first.message_id).await.expect("sent again");
    let live = shop.store.live_rows().remove(0);
    assert_ne!(live.key.id, first.id);
    shop.settle(live.key).await;
    let again = shop.record_of(first.message_id).await;
    shop.topic.push(0, again);
    let report = shop.verify("payments").await;
    assert!(report.is_clean(), "{report:?}");
}

/// Of a topic that is not ordered, any order is right.
#[tokio::test]
async fn only_ordered_topics_have_an_order() {
    let mut shop = Shop::open();
    for _ in 0..2 {
        shop.send("1").await;
    }
    shop.topic.partitions[0].swap(0, 1);
    for (offset, record) in (0..).zip(&mut shop.topic.partitions[0]) {
        record.offset = offset;
    }
    assert!(shop.verify("orders").await.is_clean());
}

#[tokio::test]
async fn only_the_period_is_compared() {
    let mut shop = Shop::open();
    let before = shop.send("1").await;
    let since = shop.store.now() + SECOND;
    shop.store.advance(HOUR);
    let within = shop.send("2").await;
    shop.store.advance(HOUR);
    let until = shop.store.now();
    let after = shop.send("3").await;
    for message in [before, within, after] {
        shop.topic.record(message).payload = None;
    }
    let verification = shop.verification("orders").since(since).until(until);
    let report = verification.run(&mut shop.topic, |_| {}).await.expect("verified");
    assert_eq!(verdicts(&report), [("altered", Some(within))]);
    assert_eq!((report.compared.sent, report.compared.records), (1, 1));
    assert_eq!(shop.topic.opened_from, Some(since - HOUR), "the topic is read from a little earlier on");
}

#[tokio::test]
async fn so_many_findings_are_reported_and_the_rest_is_said_to_be_there() {
    let mut shop = Shop::open();
    for key in 0..20 {
        let message = shop.send(&key.to_string()).await;
        match key % 4 {
            0 => shop.topic.remove(message),
            1 => shop.topic.record(message).payload = None,
            2 => shop.forget(message).await,
            _ => {}
        }
    }
    let verification = shop.verification("orders").findings_max(2);
    let report = verification.run(&mut shop.topic, |_| {}).await.expect("verified");
    for (verdict, count) in report.counts.by_verdict() {
        let expected = if ["lost", "phantom", "altered"].contains(&verdict) { (2, true) } else { (0, false) };
        assert_eq!((count.count, count.more), expected, "{verdict}");
    }
    assert_eq!(report.findings.len(), 6);
    assert_eq!(report.counts.lost.to_string(), "at least 2");
}

#[tokio::test]
async fn an_unknown_topic_lists_the_known_ones() {
    let mut shop = Shop::open();
    let error = shop.verification("ordres").run(&mut shop.topic, |_| {}).await.expect_err("no such topic").to_string();
    assert!(error.contains("ordres") && error.contains("orders") && error.contains("payments"), "{error}");
    let never = shop.verification("orders").since(shop.store.now() + HOUR).run(&mut shop.topic, |_| {}).await;
    assert!(never.expect_err("an empty period").to_string().contains("since"));
}

/// Of a message id that is not of version 7, nothing says when it was enqueued: the whole history is read.
#[tokio::test]
async fn rows_with_other_message_ids_are_compared_too() {
    let mut shop = Shop::open();
    let since = shop.store.now();
    let mut ids: Vec<MessageId> = Vec::new();
    for first in [0x10_u8, 0x90, 0xf0] {
        let mut bytes = [7; 16];
        bytes[0] = first;
        let id = MessageId::from(uuid::Builder::from_random_bytes(bytes).into_uuid());
        let envelope = diesel_outbox::Envelope::new(id, "orders".into(), std::time::SystemTime::UNIX_EPOCH);
        let row = shop.store.insert(envelope, InsertOptions::default());
        shop.settle(row).await;
        ids.push(id);
    }
    let report = shop.verification("orders").since(since).run(&mut shop.topic, |_| {}).await.expect("verified");
    let mut lost: Vec<MessageId> = report.findings.iter().filter_map(Finding::message_id).collect();
    lost.sort_unstable();
    assert_eq!(lost, ids);
}
