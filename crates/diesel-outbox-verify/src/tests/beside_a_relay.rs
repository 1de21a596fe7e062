//! Messages move between tables while these are read.

use diesel_outbox::internals::store::{InsertOptions, Locking, Store as _};

use super::shop::{SECOND, Shop, verdicts};

/// Its row was live when the live rows were read, and in the history when the topic was.
#[tokio::test]
async fn a_message_that_is_sent_meanwhile_is_found_where_it_went() {
    let mut shop = Shop::open();
    shop.send("1").await;
    let row = shop.enqueue("orders", "2", InsertOptions::default());
    let report = shop.verify("orders").await;
    assert!(report.is_clean(), "a live message need not be in the topic: {report:?}");
    shop.settle(row).await;
    let record = shop.record_of(row.message_id).await;
    shop.topic.push(0, record);
    assert!(shop.verify("orders").await.is_clean());
}

/// It goes from a table that is not read yet to one that was read, so that neither has it.
#[tokio::test]
async fn a_message_that_goes_back_meanwhile_is_no_phantom() {
    let mut shop = Shop::open();
    shop.send("1").await;
    let row = shop.enqueue("orders", "2", InsertOptions::default());
    shop.settle(row).await;
    let record = shop.record_of(row.message_id).await;
    shop.forget(row.message_id).await;
    let (store, mut envelope) = (
        shop.store.clone(),
        diesel_outbox::Envelope::new(row.message_id, "orders".into(), std::time::SystemTime::UNIX_EPOCH),
    );
    envelope.key = Some("2".into());
    shop.topic.meanwhile = Some(Box::new(move |partitions| {
        store.insert(envelope, InsertOptions::default());
        let offset = partitions[0].len() as i64;
        partitions[0].push(crate::Record { offset, ..record });
    }));
    let report = shop.verify("orders").await;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.compared.live, report.compared.records), (0, 2), "its row was not read");
}

/// Sent and settled after the comparison began.
#[tokio::test]
async fn messages_enqueued_meanwhile_are_not_judged() {
    let mut shop = Shop::open();
    shop.send("1").await;
    let mut later = shop.topic.partitions[0][0].clone();
    later.message_id = Some(diesel_outbox::MessageId::new());
    later.created_at = Some(shop.store.now() + 10 * SECOND);
    shop.topic.push(0, later);
    let report = shop.verify("orders").await;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.compared.records, 1);
}

/// A broker acknowledges a message, and shows it a moment later.
#[tokio::test]
async fn a_record_that_shows_late_is_not_lost() {
    let mut shop = Shop::open();
    shop.send("1").await;
    let [shown, late] = [shop.send("2").await, shop.send("3").await];
    for message in [shown, late] {
        shop.topic.remove(message);
    }
    shop.topic.late = vec![shop.record_of(late).await];
    assert_eq!(verdicts(&shop.verify("orders").await), [("lost", Some(shown))]);
}

/// Somebody sends a message again that seemed lost.
#[tokio::test]
async fn a_message_that_is_being_sent_again_is_not_lost() {
    let mut shop = Shop::open();
    shop.send("1").await;
    let message = shop.send("2").await;
    shop.topic.remove(message);
    let (store, admin) = (shop.store.clone(), shop.admin.clone());
    shop.topic.meanwhile = Some(Box::new(move |_| {
        let moved = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(admin.resend(message)).expect("sent again");
        });
        moved.join().expect("joined");
        assert_eq!(store.live_rows().len(), 1);
    }));
    let report = shop.verify("orders").await;
    assert!(report.is_clean(), "{report:?}");
}

/// A dead letter whose last attempt arrived after all is in both.
#[tokio::test]
async fn records_of_live_messages_and_dead_letters_are_no_phantoms() {
    let mut shop = Shop::open();
    for key in ["1", "2"] {
        let message = shop.send(key).await;
        let row = shop.enqueue("orders", key, InsertOptions::default());
        if key == "2" {
            shop.dead_letter(row).await;
        }
        let created_at = shop.record_of(message).await.created_at;
        let mut record = shop.topic.record(message).clone();
        (record.message_id, record.created_at) = (Some(row.message_id), created_at);
        shop.topic.push(1, record);
    }
    let report = shop.verify("orders").await;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.compared.matched, 4);
    // Settled without a history, it is in no table.
    let live = shop.store.live_rows().remove(0).key;
    shop.store.settle(&[live], Locking::Wait).await.expect("settle");
    assert_eq!(verdicts(&shop.verify("orders").await), [("phantom", Some(live.message_id))]);
}
