//! What the handle records, with the memory store.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::admin::{Admin, AdminError, AuditEntry, AuditFilter, DeadLetterFilter, RedriveRate, UnprocessedFilter};
use crate::message::{Envelope, Message, MessageId};
use crate::outbox::Outbox;
use crate::store::{
    Call, Fault, Held, HistoryRow, HistoryStore as _, InsertOptions, Keep, Locking, MemoryStore, NewDeadLetter,
    Store as _, StoreError,
};
use crate::topic::Topic;

fn admin(store: &MemoryStore) -> Admin {
    let orders = Topic::new("orders").keep_sent_days(30).processed_within(Duration::from_secs(60));
    Outbox::builder().topic(orders).build().unwrap().admin(store.clone())
}

fn insert(store: &MemoryStore, options: InsertOptions) -> crate::store::RowKey {
    store.insert(Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH), options)
}

async fn dead_letter(store: &MemoryStore) -> MessageId {
    let key = insert(store, InsertOptions::default());
    let dead = NewDeadLetter { held: Held { key, epoch: 0 }, reason: "refused: no".into() };
    store.dead_letter(&[dead]).await.unwrap();
    key.message_id
}

async fn sent(store: &MemoryStore) -> MessageId {
    let key = insert(store, InsertOptions::default());
    let keep = Keep { days: 30, awaits_processing: true };
    store.settle_into_history(&[HistoryRow { key, keep }], Locking::Skip).await.unwrap();
    key.message_id
}

async fn entries(admin: &Admin) -> Vec<AuditEntry> {
    let mut entries = admin.audit(&AuditFilter::new(), None, 100).await.unwrap().items;
    entries.reverse();
    entries
}

/// Every method that changes something, in the order of the documentation of `Admin`.
#[tokio::test(start_paused = true)]
async fn whatever_changes_something_is_recorded_with_its_actor_and_reason() {
    let store = MemoryStore::new();
    let admin = admin(&store).acting_as("alice").because("ticket 17");
    let far = InsertOptions::default().deliver_after(Duration::from_secs(3_600));
    let [cancelled, hastened, retried, removed] = [(); 4].map(|()| insert(&store, far).message_id);
    let (redriven, purged, edited) = (dead_letter(&store).await, dead_letter(&store).await, dead_letter(&store).await);
    let (processed, resent, late) = (sent(&store).await, sent(&store).await, sent(&store).await);
    let (everything, rate) = (DeadLetterFilter::new().topic("orders"), RedriveRate::default());
    admin.cancel_delayed(cancelled).await.unwrap();
    admin.send_now(hastened).await.unwrap();
    admin.retry_send(retried).await.unwrap();
    admin.cancel_waiting(removed).await.unwrap();
    admin.redrive(redriven).await.unwrap();
    admin.purge(purged).await.unwrap();
    let new_id = admin.redrive_edited(edited, &Message::to("orders")).await.unwrap();
    for _ in 0..2 {
        dead_letter(&store).await;
    }
    admin.redrive_all(&everything, rate, |_| ()).await.unwrap();
    for _ in 0..3 {
        dead_letter(&store).await;
    }
    admin.purge_all(&everything, |_| ()).await.unwrap();
    admin.pause("orders").await.unwrap();
    admin.resume("orders").await.unwrap();
    admin.report_processed(processed).await.unwrap();
    admin.resend(resent).await.unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    let late_ones = UnprocessedFilter::of("orders").older_than(Duration::ZERO);
    admin.resend_all(&late_ones, rate, |_| ()).await.unwrap();
    admin.report_all_processed(&[late]).await.unwrap();

    let filter = || Some(json!({ "topic": "orders" }));
    let expected: [(&str, Option<MessageId>, Option<Value>, usize); 15] = [
        ("cancel_delayed", Some(cancelled), None, 1),
        ("send_now", Some(hastened), None, 1),
        ("retry_send", Some(retried), None, 1),
        ("cancel_waiting", Some(removed), None, 1),
        ("redrive", Some(redriven), None, 1),
        ("purge", Some(purged), None, 1),
        ("redrive_edited", Some(edited), Some(json!({ "replaced_by": new_id })), 1),
        ("redrive_all", None, filter(), 2),
        ("purge_all", None, filter(), 3),
        ("pause", None, filter(), 1),
        ("resume", None, filter(), 1),
        ("report_processed", Some(processed), None, 1),
        ("resend", Some(resent), None, 1),
        ("resend_all", None, Some(json!({ "topic": "orders", "older_than_seconds": 0.0 })), 1),
        ("report_all_processed", None, Some(json!({ "message_ids": [late] })), 1),
    ];
    let recorded = entries(&admin).await;
    assert_eq!(recorded.len(), expected.len(), "{recorded:#?}");
    for (entry, (action, message_id, filter, changed)) in recorded.iter().zip(expected) {
        assert_eq!((&*entry.action, entry.message_id, entry.changed), (action, message_id, changed));
        assert_eq!(entry.filter.as_deref().map(|text| serde_json::from_str(text).unwrap()), filter, "{action}");
        assert_eq!((entry.actor.as_deref(), entry.reason.as_deref()), (Some("alice"), Some("ticket 17")), "{action}");
        assert!(entry.ended_at.is_some(), "{action}");
    }
}

#[tokio::test]
async fn a_handle_without_a_name_records_nobody_and_a_consumer_records_nothing() {
    let store = MemoryStore::new();
    let admin = admin(&store);
    let alices = admin.acting_as("alice");
    let (processed, dead) = (sent(&store).await, dead_letter(&store).await);
    admin.report_processed(processed).await.unwrap();
    admin.report_all_processed(&[processed]).await.unwrap();
    admin.redrive(dead).await.unwrap();
    alices.report_processed(processed).await.unwrap();
    let recorded = entries(&admin).await;
    let shown: Vec<_> = recorded.iter().map(|entry| (&*entry.action, &entry.actor, &entry.reason)).collect();
    assert_eq!(shown, [("redrive", &None, &None)], "the report was there already");
    assert!(matches!(alices.audit(&AuditFilter::new(), None, 0).await, Err(AdminError::EmptyPage)));
}

#[tokio::test]
async fn long_names_and_reasons_are_cut_and_zeros_left_out() {
    let store = MemoryStore::new();
    let admin = admin(&store).acting_as(format!("a\0{}", "\u{fc}".repeat(500))).because("r\0".repeat(5_000));
    admin.pause("orders").await.unwrap();
    let entry = entries(&admin).await.remove(0);
    let (actor, reason) = (entry.actor.unwrap(), entry.reason.unwrap());
    assert_eq!((actor.chars().count(), actor.contains('\0')), (255, false));
    assert!(reason.len() <= 1_024 && reason.starts_with("rrr"), "{reason}");
}

/// What failed in the middle has an entry with what was done before, and no end.
#[tokio::test(start_paused = true)]
async fn an_operation_that_fails_in_the_middle_says_how_far_it_came() {
    let store = MemoryStore::new();
    for _ in 0..5 {
        dead_letter(&store).await;
    }
    let admin = admin(&store).acting_as("alice");
    store.inject(Call::Redrive, Fault::Slow(Duration::ZERO));
    store.inject(Call::Redrive, Fault::Refused(StoreError::Conflict("a deadlock".into())));
    let rate = RedriveRate::default().rows_max(2);
    let failed = admin.redrive_all(&DeadLetterFilter::new(), rate, |_| ()).await.unwrap_err();
    assert!(failed.is_retriable(), "{failed}");
    let recorded = entries(&admin).await;
    assert_eq!(recorded.iter().map(|entry| (entry.changed, entry.ended_at)).collect::<Vec<_>>(), [(2, None)]);
    assert_eq!(store.live_rows().len(), 2);
}
