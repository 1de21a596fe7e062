//! Stores: the conformance suite, and what is particular to each.

mod audit;
mod columns;
mod edited;
mod half_message_marks;
mod live_calls;
mod memory;
mod mysql;
mod parts;
mod postgres;
mod sent_calls;
mod sqlite;

use std::time::{Duration, SystemTime};

use diesel_outbox::internals::store::{ClaimSpec, InsertOptions, PollSpec, RowKey, Store};
use diesel_outbox::internals::store_suite::StoreUnderTest;
use diesel_outbox::store::{SchemaProblem, StoreError};
use diesel_outbox::{Envelope, MessageId};
use tokio::time::{Instant, sleep};

/// A message of `orders` that is due.
async fn insert(test: &(impl StoreUnderTest + ?Sized)) -> RowKey {
    let envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
    test.insert(&envelope, InsertOptions::default()).await
}

/// A claim of all of `orders`.
fn spec() -> ClaimSpec {
    ClaimSpec {
        topic: "orders".into(),
        after: None,
        rows_max: 1_000,
        bytes_max: 8 << 20,
        lock_duration: Duration::from_secs(4),
        lease_duration: Duration::from_secs(30),
        watermark_slack_duration: Duration::from_secs(10),
        keep: None,
    }
}

/// Polls until there is an answer.
async fn eventually<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        if let Some(answer) = poll() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within 15 s: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// A separate migration creates the table of pauses. Without it a relay polls as before, and whoever pauses is told what to run.
async fn assert_works_without_pauses(store: &dyn Store, drop_table: impl FnOnce()) {
    let (admin, topics) = (store.admin().expect("admin operations"), ["orders".into()]);
    admin.pause(&topics[0], None).await.expect("pause");
    let everything = PollSpec::everything(topics.clone());
    assert_eq!(store.poll(&everything).await.expect("poll").paused, topics);
    drop_table();
    let error = store.poll(&everything).await.expect_err("it was there a moment ago");
    assert!(matches!(error, StoreError::Statement(_)), "{error}");
    for _ in 0..2 {
        assert!(store.poll(&everything).await.expect("poll").paused.is_empty());
    }
    for error in [admin.pause(&topics[0], None).await.map(drop), admin.resume(&topics[0], None).await.map(drop)] {
        let error = error.expect_err("there is no place for it");
        assert!(error.to_string().contains("0000outbox04_paused_topics"), "{error}");
        assert!(matches!(error, StoreError::Schema(SchemaProblem::NotMigrated { .. })), "{error:?}");
    }
}
