//! The admin handle on virtual time, with the memory store.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::{Admin, AdminError, DeadLetterFilter, ProcessedOutcome, RedriveRate, RetryOutcome, UnprocessedFilter};
use crate::codec::{Codec, CodecError, Json, Raw};
use crate::enqueue::EnqueueError;
use crate::lane::lane_of;
use crate::limits::REDRIVE_ROWS_MAX;
use crate::message::{Envelope, Message, MessageId, OutboxMessage};
use crate::outbox::Outbox;
use crate::store::{
    Held, HistoryRow, HistoryStore as _, InsertOptions, Keep, LaneCount, LaneScan, LaneStore as _, Locking,
    MemoryStore, NewDeadLetter, Store as _,
};
use crate::topic::Topic;

fn admin(store: &MemoryStore) -> Admin {
    Outbox::builder().topic(Topic::new("orders")).build().unwrap().admin(store.clone())
}

async fn dead_letter(store: &MemoryStore) -> MessageId {
    let envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
    let key = store.insert(envelope, InsertOptions::default());
    let dead = NewDeadLetter { held: Held { key, epoch: 0 }, reason: "refused: no".into() };
    store.dead_letter(&[dead]).await.unwrap();
    key.message_id
}

#[tokio::test(start_paused = true)]
async fn a_redrive_keeps_its_rate_and_reports_progress() {
    let store = MemoryStore::new();
    for _ in 0..250 {
        dead_letter(&store).await;
    }
    let (began, reported) = (Instant::now(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let rate = RedriveRate::default().rows_max(1_000).per_second(100);
    let recorder = Arc::clone(&reported);
    let progress = move |so_far| recorder.lock().unwrap().push((so_far, began.elapsed().as_secs()));
    let moved = admin(&store).redrive_all(&DeadLetterFilter::new(), rate, progress).await.unwrap();
    assert_eq!(moved, 250);
    assert_eq!(*reported.lock().unwrap(), [(100, 0), (200, 1), (250, 2)]);
    assert_eq!((store.live_rows().len(), store.dead_letter_rows().len()), (250, 0));
}

#[tokio::test(start_paused = true)]
async fn one_transaction_moves_no_more_than_its_bound() {
    let (store, most, reported) = (MemoryStore::new(), REDRIVE_ROWS_MAX, std::sync::Mutex::new(Vec::new()));
    let record = |so_far| reported.lock().unwrap().push(so_far);
    let steps = || std::mem::take(&mut *reported.lock().unwrap());
    for _ in 0..=most {
        dead_letter(&store).await;
        send(&store).await;
    }
    let (admin, rate) = (admin_of_confirmed(&store), RedriveRate::default().rows_max(usize::MAX).per_second(u32::MAX));
    let unprocessed = UnprocessedFilter::of("orders").older_than(Duration::ZERO);
    tokio::time::advance(Duration::from_secs(1)).await;
    admin.resend_all(&unprocessed, rate, record).await.unwrap();
    assert_eq!(steps(), [most, most + 1]);
    admin.redrive_all(&DeadLetterFilter::everything(), rate, record).await.unwrap();
    assert_eq!(steps(), [most, most + 1]);
    for _ in 0..=most {
        dead_letter(&store).await;
    }
    admin.purge_all(&DeadLetterFilter::everything(), record).await.unwrap();
    assert_eq!(steps(), [most, most + 1]);
}

/// Each message is dead-lettered again as soon as it is redriven, as while the receiver still refuses it.
#[tokio::test(start_paused = true)]
async fn a_redrive_ends_when_messages_are_dead_lettered_again() {
    let store = MemoryStore::new();
    for _ in 0..30 {
        dead_letter(&store).await;
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    let dead_letter_again = async {
        loop {
            // After the millisecond that still counts as before the call.
            tokio::time::sleep(Duration::from_millis(5)).await;
            let rows = store.live_rows();
            let dead = rows
                .iter()
                .map(|row| NewDeadLetter { held: Held { key: row.key, epoch: row.epoch }, reason: "again".into() });
            store.dead_letter(&dead.collect::<Vec<_>>()).await.unwrap();
        }
    };
    let rate = RedriveRate::default().rows_max(10).per_second(10);
    let (admin, all) = (admin(&store), DeadLetterFilter::new());
    let moved = tokio::select! {
        moved = admin.redrive_all(&all, rate, |_| ()) => moved.unwrap(),
        () = dead_letter_again => unreachable!("the loop never ends"),
    };
    assert_eq!(moved, 30, "each once");
}

#[tokio::test]
async fn impossible_operations_are_errors() {
    let store = MemoryStore::new();
    let (admin, live) = (admin(&store), MessageId::new());
    let envelope = Envelope::new(live, "orders".into(), SystemTime::UNIX_EPOCH);
    store.insert(envelope, InsertOptions::default());
    for message_id in [live, MessageId::new()] {
        assert!(matches!(admin.redrive(message_id).await, Err(AdminError::NotDeadLetter { .. })));
        assert!(matches!(admin.purge(message_id).await, Err(AdminError::NotDeadLetter { .. })));
        assert!(matches!(admin.dead_letter(message_id).await, Err(AdminError::NotDeadLetter { .. })));
    }
    assert!(matches!(admin.send_now(MessageId::new()).await, Err(AdminError::NotWaiting { .. })));
    let standing = RedriveRate::default().per_second(0);
    let error = admin.redrive_all(&DeadLetterFilter::new(), standing, |_| ()).await.unwrap_err();
    assert!(matches!(error, AdminError::ZeroRate) && !error.is_retriable());
}

#[tokio::test]
async fn pages_and_purges_follow_the_filter() {
    let store = MemoryStore::new();
    for _ in 0..5 {
        dead_letter(&store).await;
    }
    let (admin, everything) = (admin(&store), DeadLetterFilter::everything());
    let first = admin.dead_letters(&everything, None, 3).await.unwrap();
    let second = admin.dead_letters(&everything, first.next.as_ref(), 3).await.unwrap();
    assert_eq!((first.items.len(), second.items.len(), second.next), (3, 2, None));
    admin.purge(first.items[0].message_id).await.unwrap();
    assert_eq!(admin.purge_all(&DeadLetterFilter::new().topic("invoices"), |_| ()).await.unwrap(), 0);
    assert_eq!(admin.purge_all(&everything, |_| ()).await.unwrap(), 4);
    assert_eq!(store.dead_letter_rows().len(), 0);
}

#[tokio::test]
async fn only_configured_topics_are_paused_and_only_paused_ones_resumed() {
    let store = MemoryStore::new();
    let admin = admin(&store);
    let error = admin.pause("order").await.unwrap_err();
    assert!(matches!(&error, AdminError::UnknownTopic { configured, .. } if configured == &["orders"]), "{error}");
    assert!(matches!(admin.resume("orders").await, Err(AdminError::NotPaused { .. })));
    admin.pause("orders").await.unwrap();
    admin.pause("orders").await.unwrap();
    let paused = admin.paused().await.unwrap();
    assert_eq!(
        paused.iter().map(|(topic, since)| (&**topic, *since <= store.now())).collect::<Vec<_>>(),
        [("orders", true)]
    );
    // Another process no longer configures the topic.
    let other = Outbox::builder().topic(Topic::new("invoices")).build().unwrap().admin(store.clone());
    other.resume("orders").await.unwrap();
    assert_eq!(admin.paused().await.unwrap(), []);
}

fn admin_of_confirmed(store: &MemoryStore) -> Admin {
    let confirmed = Topic::new("orders").keep_sent_days(30).processed_within(Duration::from_secs(60));
    Outbox::builder().topic(confirmed).topic(Topic::new("invoices")).build().unwrap().admin(store.clone())
}

async fn send(store: &MemoryStore) -> MessageId {
    let envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
    let key = store.insert(envelope, InsertOptions::default());
    settle(store, key).await;
    key.message_id
}

async fn settle(store: &MemoryStore, key: crate::store::RowKey) {
    let keep = Keep { days: 30, awaits_processing: true };
    store.settle_into_history(&[HistoryRow { key, keep }], Locking::Skip).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn late_messages_are_listed_and_resent() {
    let store = MemoryStore::new();
    let admin = admin_of_confirmed(&store);
    let (late, processed) = (send(&store).await, send(&store).await);
    let which = UnprocessedFilter::of("orders");
    assert_eq!(admin.unprocessed(&which, None, 10).await.unwrap().items, [], "its consumer has a minute");
    assert_eq!(admin.report_processed(processed).await.unwrap(), ProcessedOutcome::Processed);
    assert_eq!(admin.report_processed(processed).await.unwrap(), ProcessedOutcome::AlreadyProcessed);
    tokio::time::advance(Duration::from_secs(61)).await;
    let page = admin.unprocessed(&which, None, 1).await.unwrap();
    assert_eq!(page.items.iter().map(|sent| sent.message_id).collect::<Vec<_>>(), [late]);
    assert!(admin.unprocessed(&which, page.next.as_ref(), 1).await.unwrap().items.is_empty());
    admin.resend(late).await.unwrap();
    assert_eq!(store.live_rows()[0].key.message_id, late);
    for message_id in [late, processed, MessageId::new()] {
        let refused = admin.resend(message_id).await.unwrap_err();
        assert!(matches!(refused, AdminError::NotUnprocessed { .. }), "{refused}");
    }
    assert!(matches!(admin.sent(late).await, Err(AdminError::NotInHistory { .. })), "it is live again");
    assert!(admin.sent(processed).await.unwrap().processed_at.is_some());
    let unconfirmed = admin.unprocessed(&UnprocessedFilter::of("invoices"), None, 1).await.unwrap_err();
    assert!(matches!(unconfirmed, AdminError::ReportsNotExpected { .. }), "{unconfirmed}");
    assert!(!unconfirmed.is_retriable());
}

/// Each is sent at once, and is unprocessed again from then on.
#[tokio::test(start_paused = true)]
async fn resending_ends_when_messages_stay_unprocessed() {
    let store = MemoryStore::new();
    for _ in 0..30 {
        send(&store).await;
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    let send_at_once = async {
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            for row in store.live_rows() {
                settle(&store, row.key).await;
            }
        }
    };
    let admin = admin_of_confirmed(&store);
    let rate = RedriveRate::default().rows_max(10).per_second(10);
    let everything = UnprocessedFilter::of("orders").older_than(Duration::ZERO);
    let sent_again = tokio::select! {
        moved = admin.resend_all(&everything, rate, |_| ()) => moved.unwrap(),
        () = send_at_once => unreachable!("the loop never ends"),
        () = tokio::time::sleep(Duration::from_secs(60)) => panic!("it does not end"),
    };
    assert_eq!(sent_again, 30);
}

#[tokio::test]
async fn retry_send_finds_waiting_and_dead_lettered_messages() {
    let store = MemoryStore::new();
    let admin = admin(&store);
    let envelope = || Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
    let far = InsertOptions::default().deliver_after(Duration::from_secs(3_600));
    let waits = store.insert(envelope(), far).message_id;
    let due = store.insert(envelope(), InsertOptions::default()).message_id;
    let dead = dead_letter(&store).await;
    for (message_id, expected) in
        [(waits, RetryOutcome::Due), (due, RetryOutcome::Soon), (dead, RetryOutcome::Redriven)]
    {
        assert_eq!(admin.retry_send(message_id).await.unwrap(), expected);
        assert_eq!(admin.retry_send(message_id).await.unwrap(), RetryOutcome::Soon, "once is enough");
    }
    assert_eq!((store.live_rows().len(), store.dead_letter_rows().len()), (3, 0));
    let error = admin.retry_send(MessageId::new()).await.unwrap_err();
    assert!(matches!(error, AdminError::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn an_edited_message_is_checked_as_at_enqueue() {
    let store = MemoryStore::new();
    let outbox = Outbox::builder()
        .topic(Topic::new("orders").message_bytes_max(10))
        .topic(Topic::new("payments").ordered_by_key());
    let admin = outbox.build().unwrap().admin(store.clone());
    let dead = dead_letter(&store).await;
    let letter = || Message::to("orders");
    for (edited, refusal) in [
        (letter().payload_bytes([0; 11]), "11 bytes"),
        (letter().header("outbox-kind", "x"), "outbox-kind"),
        (letter().key("no\0"), "NUL"),
        (letter().redirect("order"), "not configured"),
        (letter().redirect("payments"), "no key"),
    ] {
        let error = admin.redrive_edited(dead, &edited).await.unwrap_err();
        assert!(matches!(&error, AdminError::Refused(error) if error.to_string().contains(refusal)), "{error}");
    }
    let delayed = letter().delay(Duration::from_secs(1));
    assert!(matches!(admin.redrive_edited(dead, &delayed).await, Err(AdminError::DelayedRedrive { .. })));
    assert!(matches!(
        admin.redrive_edited(dead, &letter().redirect("payments").key("a").delay(Duration::from_secs(1))).await,
        Err(AdminError::Refused(EnqueueError::DelayedOnOrderedTopic { .. }))
    ));
    assert_eq!(store.dead_letter_rows().len(), 1, "it is still there");
    let unknown = admin.redrive_edited(MessageId::new(), &letter()).await;
    assert!(matches!(unknown, Err(AdminError::NotDeadLetter { .. })));

    let edited = admin.dead_letter(dead).await.unwrap().to_message().unwrap().redirect("payments").key("a");
    let new_id = admin.redrive_edited(dead, &edited).await.unwrap();
    assert_ne!(new_id, dead);
    let rows = store.live_rows();
    assert_eq!(rows.iter().map(|row| (row.key.message_id, &*row.topic)).collect::<Vec<_>>(), [(new_id, "payments")]);
    assert_eq!(store.dead_letter_rows().len(), 0);
}

#[tokio::test]
async fn an_empty_filter_purges_nothing() {
    let store = MemoryStore::new();
    let dead = dead_letter(&store).await;
    let admin = admin(&store);
    assert!(matches!(admin.purge_all(&DeadLetterFilter::new(), |_| ()).await, Err(AdminError::NoFilter)));
    assert!(matches!(admin.dead_letters(&DeadLetterFilter::new(), None, 0).await, Err(AdminError::EmptyPage)));
    let reversed = DeadLetterFilter::new().dead_from(store.now()).dead_before(SystemTime::UNIX_EPOCH);
    let (rate, none) = (RedriveRate::default(), |_| ());
    for error in [
        admin.purge_all(&reversed, none).await.map(drop),
        admin.redrive_all(&reversed, rate, none).await.map(drop),
        admin.dead_letters(&reversed, None, 1).await.map(drop),
    ] {
        assert!(matches!(error, Err(AdminError::ImpossibleFilter)));
    }
    assert_eq!(store.dead_letter_rows()[0].key.message_id, dead);
    assert_eq!(admin.purge_all(&DeadLetterFilter::everything(), none).await.unwrap(), 1);
}

/// Two bytes, shown as degrees.
struct Celsius;

impl Codec<Reading> for Celsius {
    fn encode(reading: &Reading) -> Result<Vec<u8>, CodecError> {
        Ok(reading.0.to_be_bytes().to_vec())
    }

    fn text(payload: &[u8]) -> Result<String, CodecError> {
        let bytes = payload.try_into().map_err(|_| CodecError::new("not 2 bytes"))?;
        Ok(format!("{} degrees", i16::from_be_bytes(bytes)))
    }
}

struct Reading(i16);

impl OutboxMessage for Reading {
    const TOPIC: Option<&'static str> = Some("orders");
    const KIND: &'static str = "reading";

    fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
        Celsius::encode(self).map(Some)
    }

    fn payload_text(payload: &[u8]) -> Result<String, CodecError> {
        Celsius::text(payload)
    }
}

#[tokio::test]
async fn a_payload_is_shown_by_the_codec_of_its_type() {
    let store = MemoryStore::new();
    let outbox = Outbox::builder().topic(Topic::new("orders")).topic(Topic::new("others")).message::<Reading>();
    let admin = outbox.build().unwrap().admin(store.clone());
    for (topic, kind, payload, shown) in [
        ("orders", "reading", Some(&[0xff, 0xfb][..]), "-5 degrees"),
        ("orders", "reading", Some(b"{}x"), "3 bytes (the codec failed: not 2 bytes): {}x"),
        ("orders", "writing", Some(b"\0x"), "2 bytes of a type that is not registered: \\x00x"),
        ("others", "reading", Some(b"x"), "1 bytes of a type that is not registered: x"),
        ("orders", "reading", None, "no payload (a tombstone)"),
    ] {
        let mut envelope = Envelope::new(MessageId::new(), topic.into(), SystemTime::UNIX_EPOCH);
        (envelope.kind, envelope.payload) = (kind.to_owned(), payload.map(<[u8]>::to_vec));
        let key = store.insert(envelope, InsertOptions::default());
        store.dead_letter(&[NewDeadLetter { held: Held { key, epoch: 0 }, reason: "refused".into() }]).await.unwrap();
        let letter = admin.dead_letter(key.message_id).await.unwrap();
        assert_eq!(admin.payload_text(&letter).to_string(), shown);
    }
    let (json, raw) = (<Json as Codec<str>>::text, <Raw as Codec<str>>::text);
    assert_eq!(json(br#" {"a": 1}"#).unwrap(), r#" {"a": 1}"#);
    assert!(json(b"{").is_err() && json(&[0xff]).is_err() && raw(&[0xff]).is_err());
    assert_eq!(raw(b"as is").unwrap(), "as is");
}

/// The lane of each key's message, out of 32.
async fn lanes_of(store: &MemoryStore, keys: &[&str]) -> Vec<Option<u16>> {
    let scans: Vec<LaneScan> = (0..32).map(|lane| LaneScan { lane, after: 0, rows_max: 99 }).collect();
    let entries = store.lane_entries(&"orders".into(), &scans).await.unwrap();
    let of = |key: &&str| entries.iter().find(|entry| entry.key.as_deref() == Some(key));
    keys.iter().map(|key| of(key).map(|entry| scans[entry.scan].lane)).collect()
}

/// The lanes that a dead letter and a sent message were in no longer exist, or have later messages.
#[tokio::test]
async fn requeued_messages_go_to_the_current_lane_of_their_key() {
    let with = |topic: Topic| Outbox::builder().topic(topic).build().unwrap();
    let cases = [
        (with(Topic::new("orders").ordered_by_key().lanes(8)), Some(8)),
        (with(Topic::new("orders").ordered_by_key().lanes(32)), Some(32)),
        (with(Topic::new("orders")), None),
        (with(Topic::new("payments")), Some(4)), // of this one only the table knows
    ];
    for (outbox, lanes) in cases {
        let store = MemoryStore::new();
        store.prepare_lanes(&[LaneCount { topic: "orders".into(), lanes: 4 }]).await.unwrap();
        let keys = ["a", "b", "c", "d"];
        let mut rows = Vec::new();
        for key in keys {
            let mut envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
            envelope.key = Some(key.to_owned());
            rows.push(store.insert(envelope, InsertOptions::default().in_lane(lane_of(key, 16))));
        }
        let dead = |key| NewDeadLetter { held: Held { key, epoch: 0 }, reason: "refused: no".into() };
        store.dead_letter(&[dead(rows[0]), dead(rows[1])]).await.unwrap();
        for key in &rows[2..] {
            settle(&store, *key).await;
        }
        let admin = outbox.admin(store.clone());
        admin.redrive(rows[0].message_id).await.unwrap();
        let moved = admin.redrive_all(&DeadLetterFilter::everything(), RedriveRate::default(), |_| ()).await.unwrap();
        assert_eq!(moved, 1);
        for row in &rows[2..] {
            admin.resend(row.message_id).await.unwrap();
        }
        assert_eq!(lanes_of(&store, &keys).await, keys.map(|key| lanes.map(|lanes| lane_of(key, lanes))));
    }
}
