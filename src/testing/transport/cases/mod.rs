//! The cases. Each panics where the transport breaks it, and where the broker lacks what it needs.

mod broker;
mod delivery;
mod fences;
mod refusals;

pub use broker::*;
pub use delivery::*;
pub use fences::*;
pub use refusals::*;

use std::collections::BTreeSet;

use super::{RecordedOutcome, TransportUnderTest};
use crate::message::MessageId;

/// Fails, because a case that cannot be run would else be counted as one that holds.
fn missing_capability(case: &str, needs: &str) -> ! {
    panic!(
        "{case} says nothing of this transport, which has no {needs}: give its TransportUnderTest one, or leave the case out, \
         as in transport_conformance_tests! {{ open; without {case} }}"
    )
}

/// The ids of what a topic holds; each once, or it panics.
async fn ids_stored(broker: &dyn TransportUnderTest, topic: &str) -> BTreeSet<MessageId> {
    let stored = broker.stored(topic).await;
    let ids: BTreeSet<_> = stored.iter().filter_map(super::StoredMessage::message_id).collect();
    assert_eq!(ids.len(), stored.len(), "every message carries its id and is stored once");
    ids
}

/// The numbers of messages, each once, or it panics.
fn numbers(seen: &[(i64, RecordedOutcome)]) -> BTreeSet<i64> {
    let numbers: BTreeSet<i64> = seen.iter().map(|(id, _)| *id).collect();
    assert_eq!(numbers.len(), seen.len(), "one outcome for each message");
    numbers
}
