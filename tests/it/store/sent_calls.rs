//! The statements that scan a history, in one that has many messages.

use std::time::{Duration, SystemTime};

use diesel_outbox::MessageId;
use diesel_outbox::internals::store::{HistoryStore, SentScan};
use uuid::Uuid;

/// Reads messages of `orders`, in steps of so many rows of any topic: the first ten steps, and one from the middle. Returns how many
/// messages there were.
pub(super) async fn scan_all(history: &dyn HistoryStore, rows_max: usize) -> usize {
    let (from, before) = (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 32));
    let mut found = 0;
    for begin in [Uuid::nil(), Uuid::from_u128(1 << 127)] {
        let (mut after, until) = (MessageId::from(begin), MessageId::from(Uuid::max()));
        for _ in 0..10 {
            let end = history.sent_scan_end(after, until, rows_max).await.expect("an end");
            let scan = SentScan { topic: "orders".into(), from, before, after, until: end.unwrap_or(until) };
            let messages = history.sent_in_scan(&scan).await.expect("a scan");
            assert!(messages.len() <= rows_max && messages.is_sorted_by_key(|sent| sent.message_id));
            found += messages.len();
            let Some(end) = end else { break };
            after = end;
        }
    }
    found
}
