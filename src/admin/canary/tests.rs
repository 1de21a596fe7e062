//! Canary redrives on virtual time, with the memory store and a relay that the test plays, or a real one.

use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep};

use crate::admin::{
    Admin, AdminError, AuditFilter, Canary, CanaryHalt, CanaryReport, CanaryStep, DeadLetterFilter, RedriveRate,
};
use crate::lane::lane_of;
use crate::limits::{CANARY_OUTCOME_TIMEOUT, CANARY_REPORTED_MAX, REDRIVE_ROWS_MAX};
use crate::message::{Envelope, MessageId};
use crate::outbox::Outbox;
use crate::relay::Relay;
use crate::store::{Held, InsertOptions, Locking, MemoryStore, NewDeadLetter, RowKey, Store as _};
use crate::topic::{OnFailedKey, Topic};
use crate::transport::{FailureClass, MemoryTransport, ScriptedResponse};

const MINUTE: Duration = Duration::from_secs(60);

fn outbox() -> Outbox {
    let ordered = Topic::new("accounts").ordered_by_key().on_failed_key(OnFailedKey::BlockKey);
    Outbox::builder().topic(Topic::new("orders").attempts_max(1)).topic(ordered).build().unwrap()
}

fn admin(store: &MemoryStore) -> Admin {
    outbox().admin(store.clone())
}

async fn dead_letters(store: &MemoryStore, count: usize) -> Vec<MessageId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
        let key = store.insert(envelope, InsertOptions::default());
        dead_letter(store, key, 0).await;
        ids.push(key.message_id);
    }
    // Only what died before it begins is redriven.
    store.advance(Duration::from_secs(1));
    ids
}

async fn dead_letter(store: &MemoryStore, key: RowKey, epoch: i32) {
    let dead = NewDeadLetter { held: Held { key, epoch }, reason: "refused: still no".into() };
    store.dead_letter(&[dead]).await.unwrap();
}

/// A relay of another process: settles live rows after a while, or dead-letters those for which it is asked to.
async fn relay(store: &MemoryStore, dies: impl Fn(usize) -> bool) {
    let mut count = 0;
    loop {
        sleep(Duration::from_millis(300)).await;
        for row in store.live_rows() {
            count += 1;
            match dies(count) {
                true => dead_letter(store, row.key, row.epoch).await,
                false => drop(store.settle(&[row.key], Locking::Skip).await.unwrap()),
            }
        }
    }
}

/// Runs a canary redrive beside a relay. Returns also what `progress` was called with.
async fn run(store: &MemoryStore, canary: Canary, relay: impl Future<Output = ()>) -> (CanaryReport, Vec<CanaryStep>) {
    let (admin, mut steps) = (admin(store).acting_as("alice"), Vec::new());
    let everything = DeadLetterFilter::new();
    let report = tokio::select! {
        report = admin.redrive_canary(&everything, canary, |step| steps.push(*step)) => report.unwrap(),
        () = relay => unreachable!("a relay never ends"),
    };
    let page = admin.audit(&AuditFilter::new().action("redrive_canary"), None, 10).await.unwrap();
    let recorded: Vec<(usize, bool)> =
        page.items.iter().map(|entry| (entry.changed, entry.ended_at.is_some())).collect();
    assert_eq!(recorded, [(report.redriven(), true)]);
    (report, steps)
}

fn redriven(report: &CanaryReport) -> Vec<usize> {
    report.steps.iter().map(|step| step.redriven).collect()
}

#[tokio::test(start_paused = true)]
async fn it_goes_in_steps_and_each_waits_for_its_outcome() {
    let store = MemoryStore::new();
    dead_letters(&store, 1_300).await;
    let began = Instant::now();
    let fast = Canary::default().rate(RedriveRate::default().per_second(u32::MAX));
    let (report, steps) = run(&store, fast, relay(&store, |_| false)).await;
    assert_eq!((redriven(&report), report.halt.clone()), (vec![1, 10, 100, 1_189], None));
    assert!(report.steps.iter().all(|step| step.sent == step.redriven && step.pending == 0), "{report:?}");
    assert_eq!((steps, report.pending.len(), report.dead_again.len()), (report.steps.clone(), 0, 0));
    assert_eq!((store.live_rows().len(), store.dead_letter_rows().len()), (0, 0));
    assert!(began.elapsed() < MINUTE, "an outcome is seen as soon as it is there");
}

#[tokio::test(start_paused = true)]
async fn fewer_dead_letters_than_steps_end_it() {
    let store = MemoryStore::new();
    dead_letters(&store, 7).await;
    let (report, _) = run(&store, Canary::default(), relay(&store, |_| false)).await;
    assert_eq!((redriven(&report), report.halt), (vec![1, 6], None));
    let nothing = admin(&store).redrive_canary(&DeadLetterFilter::new(), Canary::default(), |_| ()).await.unwrap();
    assert_eq!(nothing, CanaryReport::default());
}

#[tokio::test(start_paused = true)]
async fn it_halts_when_a_message_dies_again() {
    let store = MemoryStore::new();
    let ids = dead_letters(&store, 200).await;
    // The third of the ten.
    let (report, _) = run(&store, Canary::default(), relay(&store, |count| count == 4)).await;
    assert_eq!((redriven(&report), report.halt), (vec![1, 10], Some(CanaryHalt::DeadAgain)));
    assert_eq!(report.steps[1].dead_again, 1);
    let again: Vec<_> = report.dead_again.iter().map(|letter| (letter.message_id, &*letter.reason)).collect();
    assert_eq!(again, [(ids[3], "refused: still no")]);
    assert_eq!(store.dead_letter_rows().len(), 190, "nothing more was redriven");
}

#[tokio::test(start_paused = true)]
async fn some_may_die_if_that_is_allowed() {
    let store = MemoryStore::new();
    dead_letters(&store, 130).await;
    let canary = Canary::default().dead_max(1);
    let (report, _) = run(&store, canary, relay(&store, |count| [5, 50, 60].contains(&count))).await;
    assert_eq!((redriven(&report), report.halt), (vec![1, 10, 100], Some(CanaryHalt::DeadAgain)));
    assert_eq!(report.steps.iter().map(|step| step.dead_again).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(report.dead_again.len(), 3);
}

/// The last step has many transactions, and looks at the outcomes so far after each.
#[tokio::test(start_paused = true)]
async fn the_last_step_halts_in_the_middle() {
    let store = MemoryStore::new();
    dead_letters(&store, 5_000).await;
    let canary = Canary::default().steps([1]).rate(RedriveRate::default().rows_max(100).per_second(100));
    let (report, _) = run(&store, canary, relay(&store, |count| count > 250)).await;
    assert_eq!(report.halt, Some(CanaryHalt::DeadAgain));
    assert!(report.redriven() <= 401, "{report:?}");
    assert!(report.dead_again.len() <= CANARY_REPORTED_MAX);
}

#[tokio::test(start_paused = true)]
async fn it_halts_when_nobody_sends() {
    let store = MemoryStore::new();
    let ids = dead_letters(&store, 20).await;
    let began = Instant::now();
    let (report, _) = run(&store, Canary::default(), std::future::pending()).await;
    assert_eq!(report.halt, Some(CanaryHalt::TimedOut { paused: Vec::new() }));
    assert_eq!((redriven(&report), report.pending), (vec![1], vec![ids[0]]));
    assert_eq!(began.elapsed().as_secs(), CANARY_OUTCOME_TIMEOUT.as_secs());
    assert_eq!((store.live_rows().len(), store.dead_letter_rows().len()), (1, 19), "it stays redriven");
}

#[tokio::test(start_paused = true)]
async fn it_takes_no_wait_for_an_overflow_and_no_step_of_nothing() {
    let store = MemoryStore::new();
    dead_letters(&store, 2).await;
    let (report, _) = run(&store, Canary::default().outcome_within(Duration::MAX), relay(&store, |_| false)).await;
    assert_eq!(report.halt, None);
    let (admin, all) = (admin(&store), DeadLetterFilter::new());
    let error = admin.redrive_canary(&all, Canary::default().steps([1, 0]), |_| ()).await.unwrap_err();
    assert!(matches!(error, AdminError::EmptyStep) && !error.is_retriable());
    let standing = Canary::default().rate(RedriveRate::default().per_second(0));
    assert!(matches!(admin.redrive_canary(&all, standing, |_| ()).await, Err(AdminError::ZeroRate)));
}

/// What is dropped in the middle leaves what was redriven, and the audit says how many that is.
#[tokio::test(start_paused = true)]
async fn a_dropped_canary_leaves_what_it_has_redriven() {
    let store = MemoryStore::new();
    dead_letters(&store, 20).await;
    let admin = admin(&store);
    let everything = DeadLetterFilter::new();
    let redrive = admin.redrive_canary(&everything, Canary::default().steps([3]), |_| ());
    assert!(tokio::time::timeout(Duration::from_secs(5), redrive).await.is_err(), "nobody sends");
    let entries = admin.audit(&AuditFilter::new(), None, 10).await.unwrap().items;
    assert_eq!(entries.iter().map(|entry| (entry.changed, entry.ended_at)).collect::<Vec<_>>(), [(3, None)]);
    assert_eq!((store.live_rows().len(), store.dead_letter_rows().len()), (3, 17));
    assert_eq!(REDRIVE_ROWS_MAX, 500, "and one transaction has no more");
}

async fn start(outbox: &Outbox, store: &MemoryStore, broker: &MemoryTransport) -> Relay {
    outbox.relay().store(store.clone()).transport(broker.clone()).start().await.unwrap()
}

/// With real relays, of which one sends each message, and one that fails everything at first.
#[tokio::test(start_paused = true)]
async fn it_halts_beside_several_relays_and_goes_on_once_the_broker_is_mended() {
    let (store, broker) = (MemoryStore::new(), MemoryTransport::new());
    dead_letters(&store, 150).await;
    let outboxes = [outbox(), outbox()];
    let relays = [start(&outboxes[0], &store, &broker).await, start(&outboxes[1], &store, &broker).await];
    let admin = outboxes[0].admin(store.clone());
    broker.respond_when(ScriptedResponse::Fail(FailureClass::RecordRefused), |_| true);
    let everything = DeadLetterFilter::new();
    let report = admin.redrive_canary(&everything, Canary::default(), |_| ()).await.unwrap();
    assert_eq!((redriven(&report), report.halt), (vec![1], Some(CanaryHalt::DeadAgain)));
    assert_eq!(store.dead_letter_rows().len(), 150);
    broker.clear_responses();
    store.advance(Duration::from_secs(1));
    let report = admin.redrive_canary(&everything, Canary::default(), |_| ()).await.unwrap();
    assert_eq!((redriven(&report), report.halt), (vec![1, 10, 100, 39], None));
    assert_eq!(broker.delivered().len(), 150);
    for relay in relays {
        assert!(relay.shutdown(MINUTE).await.is_clean());
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_topic_halts_it_and_is_named() {
    let (store, broker, outbox) = (MemoryStore::new(), MemoryTransport::new(), outbox());
    dead_letters(&store, 20).await;
    let relay = start(&outbox, &store, &broker).await;
    let admin = outbox.admin(store.clone());
    admin.pause("orders").await.unwrap();
    sleep(MINUTE).await;
    let report = admin.redrive_canary(&DeadLetterFilter::new(), Canary::default(), |_| ()).await.unwrap();
    assert_eq!(report.halt, Some(CanaryHalt::TimedOut { paused: vec!["orders".into()] }));
    assert_eq!((redriven(&report), broker.delivered().len()), (vec![1], 0));
    assert!(relay.shutdown(MINUTE).await.is_clean());
}

/// In a lane, behind a message of its key that fails.
#[tokio::test(start_paused = true)]
async fn a_message_behind_a_failed_one_of_its_key_halts_it() {
    let (store, broker, outbox) = (MemoryStore::new(), MemoryTransport::new(), outbox());
    let insert = |key: &str| {
        let mut envelope = Envelope::new(MessageId::new(), "accounts".into(), SystemTime::UNIX_EPOCH);
        envelope.key = Some(key.to_owned());
        store.insert(envelope, InsertOptions::default().in_lane(lane_of(key, crate::limits::LANES)))
    };
    let dead = insert("stuck");
    dead_letter(&store, dead, 0).await;
    let first = insert("stuck");
    store.advance(Duration::from_secs(1));
    broker.respond_when(ScriptedResponse::Fail(FailureClass::Record), |sent| sent.key.as_deref() == Some("stuck"));
    let relay = start(&outbox, &store, &broker).await;
    let admin = outbox.admin(store.clone());
    let report = admin.redrive_canary(&DeadLetterFilter::new(), Canary::default(), |_| ()).await.unwrap();
    assert_eq!(report.halt, Some(CanaryHalt::TimedOut { paused: Vec::new() }));
    assert_eq!((report.pending, report.dead_again.len()), (vec![dead.message_id], 0));
    assert_eq!(store.live_rows()[0].key.message_id, first.message_id, "it waits behind this one");
    drop(relay);
}
