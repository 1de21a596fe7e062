//! Stores, against the conformance suite and against what is particular to each.

mod columns;
mod memory;
mod mysql;
mod postgres;
mod sqlite;

use std::time::Duration;

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
