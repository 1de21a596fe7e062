//! The conformance suite of [`Transport`](crate::transport::Transport): what the relay requires of it, as test cases.
//!
//! Implement [`TransportUnderTest`] for the broker: it creates transports, reads back what the broker holds, and causes faults.
//! [`transport_conformance_tests!`](crate::transport_conformance_tests) then creates one `#[test]` per case; [`run_case`] runs one.
//!
//! ```
//! use diesel_outbox::async_trait;
//! use diesel_outbox::testing::transport::{StoredMessage, TransportUnderTest, cases, run_case};
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
//! # fn main() {
//! run_case(cases::stopped_broker_is_an_outage_until_restarted, open);
//! # }
//! ```
//!
//! Cases assert and panic. A case also panics, with the reason, if the broker or the transport lacks what it needs: leave it out by
//! name, as above, so that the list says what is tested.

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
