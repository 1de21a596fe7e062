use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// Counts the messages that have no outcome yet, for the [`flush`](super::Transport::flush) of a transport of one's own.
///
/// Count each receipt before it goes its way ([`Receipt::tracked_by`](super::Receipt::tracked_by)); nothing is to be done
/// when it reports. A cheap handle: clones count together.
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::transport::{FailureClass, Outcome, Receipt, Transport, TransportError, InFlightCounter};
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
///     fn send(&self, envelope: Envelope, receipt: Receipt) {
///         let receipt = receipt.tracked_by(&self.in_flight);
///         // .. hands both to a thread that prints, and that says in the end:
///         # drop(envelope);
///         receipt.complete(Outcome::Delivered);
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
    /// Counts none.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one more, until its place is dropped; `also` is dropped with it.
    pub(crate) fn register(&self, also: Option<InFlightGuard>) -> InFlightGuard {
        self.0.messages.fetch_add(1, Ordering::AcqRel);
        InFlightGuard { by: self.clone(), _also: also.map(Box::new) }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.messages.load(Ordering::Acquire)
    }

    /// Waits until there is none, at most `within`; returns how many are left.
    ///
    /// # Cancel safety
    /// Cancelling stops the waiting only.
    ///
    /// # Panics
    /// Outside a tokio runtime with time enabled; a relay has one.
    pub async fn wait_until_none(&self, within: Duration) -> usize {
        let none = async {
            loop {
                // Registered before the look at the count: the last one may leave in between.
                let mut told = pin!(self.0.none.notified());
                told.as_mut().enable();
                if self.count() == 0 {
                    return;
                }
                told.await;
            }
        };
        // Over or not, what counts is what is left.
        let _ = timeout(within, none).await;
        self.count()
    }
}

impl fmt::Debug for InFlightCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlightCounter").field(&self.count()).finish()
    }
}

/// A receipt's place in a count, given up when it is dropped.
pub(crate) struct InFlightGuard {
    by: InFlightCounter,
    /// Boxed, because few receipts are counted twice.
    _also: Option<Box<InFlightGuard>>,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        if self.by.0.messages.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.by.0.none.notify_waiters();
        }
    }
}
