use std::time::Duration;

use diesel_outbox::internals::store::{Call, ClaimSpec, Fault, InsertOptions, RowKey, Store};
use diesel_outbox::internals::store_suite::MemoryUnderTest;
use diesel_outbox::store::{MemoryStore, StoreError};
use diesel_outbox::{Envelope, MessageId};

use crate::store::parts::unsupported;

mod locking {
    use diesel_outbox::internals::store_suite::MemoryUnderTest;

    diesel_outbox::store_conformance_tests!(async || Some(MemoryUnderTest::locking()));
}

mod leasing {
    use diesel_outbox::internals::store_suite::MemoryUnderTest;

    diesel_outbox::store_conformance_tests!(async || Some(MemoryUnderTest::leasing()));
}

#[tokio::test]
async fn supports_everything_but_half_messages() {
    for under_test in [MemoryUnderTest::locking(), MemoryUnderTest::leasing()] {
        assert_eq!(unsupported(&under_test).await, ["half messages"]);
    }
}

fn insert(store: &MemoryStore) -> RowKey {
    let envelope = Envelope::new(MessageId::new(), "orders".into(), store.now());
    store.insert(envelope, InsertOptions::default())
}

fn spec() -> ClaimSpec {
    ClaimSpec {
        topic: "orders".into(),
        after: None,
        rows_max: 10,
        bytes_max: 1_000,
        lock_duration: Duration::from_millis(250),
        lease_duration: Duration::from_secs(30),
        watermark_slack_duration: Duration::from_secs(10),
        keep: None,
    }
}

#[tokio::test]
async fn a_refused_close_leaves_the_rows_as_they_were() {
    let store = MemoryStore::new();
    let key = insert(&store);
    let before = store.live_rows();
    let claim = store.claim(&spec()).await.expect("claim");
    store.inject(Call::Close, Fault::Refused(StoreError::Conflict("rolled back".into())));
    assert!(claim.handle.close(&[key], &[]).await.is_err());
    assert_eq!(store.live_rows(), before);
    assert_eq!(store.claim(&spec()).await.expect("claim").rows.len(), 1, "given back");
}

#[tokio::test]
async fn a_close_whose_answer_is_lost_has_committed() {
    let store = MemoryStore::new();
    let key = insert(&store);
    let claim = store.claim(&spec()).await.expect("claim");
    store.inject(Call::Close, Fault::ResponseLost(StoreError::Unreachable("reset".into())));
    assert!(claim.handle.close(&[key], &[]).await.is_err());
    assert!(store.live_rows().is_empty());
}

#[tokio::test]
async fn a_database_that_goes_down_takes_open_claims_with_it() {
    let store = MemoryStore::new();
    let key = insert(&store);
    let claim = store.claim(&spec()).await.expect("claim");
    store.set_down(true);
    assert!(matches!(store.check().await, Err(StoreError::Unreachable(_))));
    store.set_down(false);
    assert!(claim.handle.close(&[key], &[]).await.is_err(), "its session died");
    assert_eq!(store.live_rows().len(), 1);
    assert_eq!((store.calls(Call::Check), store.calls(Call::Close)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn its_clock_is_that_of_the_runtime() {
    let store = MemoryStore::new();
    let started_at = store.now();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(store.now(), started_at + Duration::from_secs(3_600));
    store.advance(Duration::from_secs(60));
    assert_eq!(store.now(), started_at + Duration::from_secs(3_660));
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_lock_ends_with_its_session_or_in_time() {
    let store = MemoryStore::new();
    let key = insert(&store);
    let open = store.claim(&spec()).await.expect("claim");
    let locking = diesel_outbox::internals::store::Locking::Wait;
    assert_eq!(store.settle(&[key], locking).await.expect("settle"), [key], "the claim's window was over");
    drop(open);

    let key = insert(&store);
    let _lock = store.lock(key).expect("free");
    assert!(matches!(store.settle(&[key], locking).await, Err(StoreError::TimedOut { .. })));
}
