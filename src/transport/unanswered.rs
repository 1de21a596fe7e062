use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// Counts the messages that have no outcome yet, for the [`flush`](super::Transport::flush) of a transport of one's own.
///
/// Count each receipt before it goes its way ([`Receipt::counted_by`](super::Receipt::counted_by)); nothing is to be done
/// when it reports. A cheap handle: clones count together.
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::transport::{FailureClass, Outcome, Receipt, Transport, TransportError, Unanswered};
/// use diesel_outbox::{Envelope, Topic, async_trait};
///
/// #[derive(Debug)]
/// struct Printer {
///     unanswered: Unanswered,
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
///         let receipt = receipt.counted_by(&self.unanswered);
///         // .. hands both to a thread that prints, and that says in the end:
///         # drop(envelope);
///         receipt.settle(Outcome::Delivered);
///     }
///     async fn probe(&self) -> Result<(), TransportError> {
///         Ok(())
///     }
///     async fn flush(&self, within: Duration) -> usize {
///         self.unanswered.none_within(within).await
///     }
/// }
/// ```
#[derive(Clone, Default)]
pub struct Unanswered(Arc<Count>);

#[derive(Default)]
struct Count {
    messages: AtomicUsize,
    none: Notify,
}

impl Unanswered {
    /// Counts none.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one more, until its place is dropped; `also` is dropped with it.
    pub(crate) fn enter(&self, also: Option<Counted>) -> Counted {
        self.0.messages.fetch_add(1, Ordering::AcqRel);
        Counted { by: self.clone(), _also: also.map(Box::new) }
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
    pub async fn none_within(&self, within: Duration) -> usize {
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

impl fmt::Debug for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unanswered").field(&self.count()).finish()
    }
}

/// A receipt's place in a count, given up when it is dropped.
pub(crate) struct Counted {
    by: Unanswered,
    /// Boxed, because few receipts are counted twice.
    _also: Option<Box<Counted>>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.by.0.messages.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.by.0.none.notify_waiters();
        }
    }
}
