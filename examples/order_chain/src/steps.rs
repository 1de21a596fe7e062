//! The steps between which a process can die, named so that a test can stop at each.
//!
//! The table says what a death after the step leaves behind, and what puts it right. Nothing here is a guess: whoever gives a
//! reservation back has committed a row before that says so (`shop::orders::Orders::decide`).
//!
//! | step | left behind | put right by |
//! |---|---|---|
//! | `Asked` | nothing | the client repeats the request |
//! | `Deducted` | a reservation without an order | the sweep of the reconciler: it commits a `refused` row, then gives it back |
//! | `OrderInserted` | the same; the transaction is rolled back | the same; while the transaction is open, the sweep waits for its end |
//! | `Enqueued` | the same | the same |
//! | `Committed` | an order whose client has no answer | the client repeats the request, and gets the order |
//! | `TransactionFailed` | perhaps an order, perhaps none | the row decides: the process asks at once, or else the sweep |
//! | `Refused` | a `refused` row, and the reservation still in the cache | the sweep, which finds the row |
//! | `GivenBack` | nothing | |
//! | `PaymentWritten` | an unpaid order; the transaction is rolled back | the client repeats the payment |
//! | `PaymentCommitted` | a paid order whose client has no answer | the client repeats the payment, and gets the order |
//! | `CloseWritten` | an unpaid order; the transaction with its claim is rolled back | the message is processed again |
//! | `CacheSettled` | a settled reservation whose message is not claimed | the message is processed again, and finds nothing to do |
//! | `GenerationRaised` | a product that the cache does not serve; older deductions cannot become orders | the next round of the reconciler |
//! | `LiveOrdersRead` | the same | the same |
//! | `Loaded` | nothing | |

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

/// A step of an order's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the table above has them")]
pub enum Step {
    Asked,
    Deducted,
    OrderInserted,
    Enqueued,
    Committed,
    TransactionFailed,
    Refused,
    GivenBack,
    PaymentWritten,
    PaymentCommitted,
    CloseWritten,
    CacheSettled,
    GenerationRaised,
    LiveOrdersRead,
    Loaded,
}

impl Step {
    /// Every step, in the order of the table.
    pub const ALL: [Self; 15] = [
        Self::Asked,
        Self::Deducted,
        Self::OrderInserted,
        Self::Enqueued,
        Self::Committed,
        Self::TransactionFailed,
        Self::Refused,
        Self::GivenBack,
        Self::PaymentWritten,
        Self::PaymentCommitted,
        Self::CloseWritten,
        Self::CacheSettled,
        Self::GenerationRaised,
        Self::LiveOrdersRead,
        Self::Loaded,
    ];
}

type Hook = dyn Fn(Step) -> BoxFuture<'static, ()> + Send + Sync;

/// What happens at the steps; by default nothing.
#[derive(Clone, Default)]
pub struct Steps(Option<Arc<Hook>>);

impl Steps {
    /// Waits at each step for this future. One that never ends stops the request there, and dropping the request is its death.
    pub fn with(hook: impl Fn(Step) -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    /// Notes that a step was reached.
    pub async fn reach(&self, step: Step) {
        if let Some(hook) = &self.0 {
            hook(step).await;
        }
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Steps").field(&self.0.is_some()).finish()
    }
}
