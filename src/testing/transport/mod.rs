//! The conformance suite of [`Transport`](crate::transport::Transport): what the relay requires of it, as test cases.
//!
//! Implement [`TransportUnderTest`] for the broker: it creates transports, reads back what the broker holds, and causes faults.
//! [`transport_conformance_tests!`](crate::transport_conformance_tests) then creates one `#[test]` per case.
//!
//! ```
//! use diesel_outbox::async_trait;
//! use diesel_outbox::testing::transport::{StoredMessage, TransportUnderTest};
//! use diesel_outbox::transport::{MemoryTransport, Transport};
//!
//! struct Memory(MemoryTransport);
//!
//! #[async_trait]
//! impl TransportUnderTest for Memory {
//!     fn transport(&self) -> Box<dyn Transport> {
//!         Box::new(self.0.clone())
//!     }
//!     async fn stored(&self, topic: &str) -> Vec<StoredMessage> {
//!         self.0.delivered_to(topic).iter().map(StoredMessage::of).collect()
//!     }
//!     async fn go_down(&self) -> bool {
//!         self.0.go_down();
//!         true
//!     }
//!     async fn go_up(&self) {
//!         self.0.go_up();
//!     }
//! }
//!
//! async fn open() -> Option<Memory> {
//!     Some(Memory(MemoryTransport::new()))
//! }
//!
//! # mod held { use super::open;
//! diesel_outbox::transport_conformance_tests! { open; without
//!     only_oversized_messages_are_refused,
//!     unknown_topic_is_a_topic_failure,
//!     full_queue_is_busy,
//!     authentication_failure_hides_secrets,
//!     frozen_broker_times_out_every_message,
//!     refused_message_stops_only_its_own_sequence,
//! }
//! # }
//! # fn main() {}
//! ```
//!
//! Cases assert and panic. A case also panics, with the reason, if the broker or the transport lacks what it needs: leave it out by
//! name, as above, so that the list says what is tested.
//!
//! | Case | What it checks |
//! |---|---|
//! | `prepare_is_idempotent_and_probe_succeeds` | `prepare` may be called again; a running broker answers a probe |
//! | `each_message_gets_one_outcome` | a thousand messages are each delivered, and stored once |
//! | `order_per_key_is_kept` | messages of a key are stored in the order in which they were sent |
//! | `stored_messages_match_sent_messages` | key, payload, headers and times arrive as they are in the row |
//! | `flush_waits_for_every_outcome` | `flush` returns 0 when every outcome has arrived |
//! | `only_oversized_messages_are_refused` | a message that is too large fails for good; its neighbours are delivered |
//! | `unknown_topic_is_a_topic_failure` | an unknown topic is reported in time, stops no other, and works once it is there |
//! | `full_queue_is_busy` | a full client says so at once; it delivers what it took, and nothing else |
//! | `authentication_failure_hides_secrets` | the error of a refused client does not contain its password |
//! | `stopped_broker_is_an_outage_until_restarted` | without a broker messages fail as an outage, in time; then all works again |
//! | `frozen_broker_times_out_every_message` | the same for a broker that keeps its connections and does not answer |
//! | `send_never_blocks` | 20,000 calls without a broker return at once |
//! | `dropping_the_transport_fails_held_messages` | messages that a dropped transport held fail, once |
//! | `fencing_a_lane_shuts_out_the_previous_owner` | once another client has fenced a lane, messages of its previous owner fail |
//! | `fenced_lane_keeps_the_order_of_a_sequence` | many messages of one key in flight are stored in order |
//! | `refused_message_stops_only_its_own_sequence` | a message that fails stops the later ones of its key, and no others |
//! | `exactly_once_lane_sends_no_row_twice` | a row that a lane delivered is not sent again by its next owner |

#[doc(hidden)]
pub mod cases;
mod list;
mod outcomes;
mod under_test;

#[doc(hidden)]
pub use list::CASES;
pub use outcomes::{OutcomeRecorder, RecordedOutcome};
pub use under_test::{StoredMessage, TransportUnderTest};

use std::fmt;
use std::pin::{Pin, pin};

/// One requirement of the relay.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Case {
    /// What is required; also the name of its function in [`cases`].
    pub name: &'static str,
    /// Checks the requirement, and panics if it is not met.
    pub run: fn(&dyn TransportUnderTest) -> CaseFuture<'_>,
}

/// A running case.
#[doc(hidden)]
pub type CaseFuture<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Runs one case on its own tokio runtime; passes if `open` returns no broker.
///
/// # Panics
/// If the case fails.
#[doc(hidden)]
pub fn run_case<T: TransportUnderTest>(
    case: impl AsyncFnOnce(&dyn TransportUnderTest),
    open: impl AsyncFnOnce() -> Option<T>,
) {
    super::run_on_own_runtime(pin!(async {
        if let Some(under_test) = open().await {
            case(&under_test).await;
        }
    }));
}
