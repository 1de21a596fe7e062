//! The cases. Each panics if the transport fails it, or if the broker lacks what the case needs.

mod broker;
mod delivery;
mod exactly_once;
mod fences;
mod refusals;

pub use broker::*;
pub use delivery::*;
pub use exactly_once::*;
pub use fences::*;
pub use refusals::*;

use std::collections::BTreeSet;

use super::{RecordedOutcome, TransportUnderTest};
use crate::message::MessageId;

/// Fails, because a case that cannot run must not count as passed.
fn missing_capability(case: &str, needs: &str) -> ! {
    panic!(
        "{case} says nothing of this transport, which has no {needs}: give its TransportUnderTest one, or leave the case out, \
         as in transport_conformance_tests! {{ open; without {case} }}"
    )
}

/// The message ids in a topic. Panics if one is stored twice.
async fn ids_stored(broker: &dyn TransportUnderTest, topic: &str) -> BTreeSet<MessageId> {
    let stored = broker.stored(topic).await;
    let ids: BTreeSet<_> = stored.iter().filter_map(super::StoredMessage::message_id).collect();
    assert_eq!(ids.len(), stored.len(), "every message carries its id and is stored once");
    ids
}

/// The numbers of messages. Panics if one occurs twice.
fn numbers(seen: &[(i64, RecordedOutcome)]) -> BTreeSet<i64> {
    let numbers: BTreeSet<i64> = seen.iter().map(|(id, _)| *id).collect();
    assert_eq!(numbers.len(), seen.len(), "one outcome for each message");
    numbers
}
