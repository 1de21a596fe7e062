//! Stores, against the conformance suite and against what is particular to each.

mod columns;
mod edited;
mod marks;
mod memory;
mod mysql;
mod parts;
mod postgres;
mod sqlite;

use std::time::Duration;

use diesel_outbox::store::{LookSpec, SchemaProblem, Store, StoreError};
use tokio::time::{Instant, sleep};

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

/// The table of pauses comes by a migration of its own: without it a relay looks as before, and whoever pauses is told what
/// to run.
async fn assert_works_without_pauses(store: &dyn Store, drop_table: impl FnOnce()) {
    let (admin, topics) = (store.admin().expect("what people need"), ["orders".into()]);
    admin.pause(&topics[0]).await.expect("pause");
    let everything = LookSpec::everything(topics.clone());
    assert_eq!(store.look(&everything).await.expect("look").paused, topics);
    drop_table();
    let error = store.look(&everything).await.expect_err("it was there a moment ago");
    assert!(matches!(error, StoreError::Statement(_)), "{error}");
    for _ in 0..2 {
        assert_eq!(store.look(&everything).await.expect("look").paused, []);
    }
    for error in [admin.pause(&topics[0]).await.map(drop), admin.resume(&topics[0]).await.map(drop)] {
        let error = error.expect_err("there is no place for it");
        assert!(error.to_string().contains("0000outbox04_paused_topics"), "{error}");
        assert!(matches!(error, StoreError::Schema(SchemaProblem::NotMigrated { .. })), "{error:?}");
    }
}
