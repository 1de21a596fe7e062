use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// Counts the messages that have no outcome yet, for the [`flush`](super::Transport::flush) of your own transport.
///
/// Count each outcome sender before you pass it on ([`OutcomeSender::tracked_by`](super::OutcomeSender::tracked_by)). When it reports, the
/// count drops by itself. A cheap handle: clones share the count.
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::transport::{FailureClass, Outcome, OutcomeSender, Transport, TransportError, InFlightCounter};
/// use diesel_outbox::{Envelope, Topic, async_trait};
///
/// #[derive(Debug)]
/// struct Printer {
///     in_flight: InFlightCounter,
/// }
///
/// #[async_trait]
/// impl Transport for Printer {
///     fn delivery_timeout(&self) -> Duration {
///         Duration::from_secs(1)
///     }
///     async fn prepare(&self, _topics: &[Topic]) -> Result<(), TransportError> {
///         Ok(())
///     }
///     fn send(&self, envelope: Envelope, sender: OutcomeSender) {
///         let sender = sender.tracked_by(&self.in_flight);
///         // .. hands both to a printing thread, which finally calls:
///         # drop(envelope);
///         sender.complete(Outcome::Delivered);
///     }
///     async fn probe(&self) -> Result<(), TransportError> {
///         Ok(())
///     }
///     async fn flush(&self, within: Duration) -> usize {
///         self.in_flight.wait_until_none(within).await
///     }
/// }
/// ```
#[derive(Clone, Default)]
pub struct InFlightCounter(Arc<Count>);

#[derive(Default)]
struct Count {
    messages: AtomicUsize,
    none: Notify,
}

impl InFlightCounter {
    /// A counter at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one until the guard is dropped; `also` is dropped with it.
    pub(crate) fn register(&self, also: Option<InFlightGuard>) -> InFlightGuard {
        self.0.messages.fetch_add(1, Ordering::AcqRel);
        InFlightGuard { by: self.clone(), _also: also.map(Box::new) }
    }

    /// How many messages are in flight.
    pub fn count(&self) -> usize {
        self.0.messages.load(Ordering::Acquire)
    }

    /// Waits until none is left, at most `within`. Returns how many are left.
    ///
    /// # Cancel safety
    /// Cancelling only stops the wait.
    ///
    /// # Panics
    /// Panics outside a tokio runtime with time enabled; a relay has one.
    pub async fn wait_until_none(&self, within: Duration) -> usize {
        let none = async {
            loop {
                // Registered before the count is read: the last message may finish in between.
                let mut notified = pin!(self.0.none.notified());
                notified.as_mut().enable();
                if self.count() == 0 {
                    return;
                }
                notified.await;
            }
        };
        // The result of the wait does not matter; the count is read again.
        let _ = timeout(within, none).await;
        self.count()
    }
}

impl fmt::Debug for InFlightCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlightCounter").field(&self.count()).finish()
    }
}

/// An outcome sender's share in a count, released when it is dropped.
pub(crate) struct InFlightGuard {
    by: InFlightCounter,
    /// Boxed, because few outcome senders are counted twice.
    _also: Option<Box<InFlightGuard>>,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        if self.by.0.messages.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.by.0.none.notify_waiters();
        }
    }
}
