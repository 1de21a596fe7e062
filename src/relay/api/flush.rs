//! How a flush ended.

use serde::Serialize;

/// How a flush ended. From [`Relay::flush`](crate::relay::Relay::flush) and [`Outbox::flush`](crate::Outbox::flush).
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use diesel_outbox::relay::FlushOutcome;
/// use diesel_outbox::{Outbox, Topic};
///
/// let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
/// assert_eq!(outbox.flush(Duration::from_secs(1)).await, FlushOutcome::NoRelay);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[must_use = "only `Settled` means that everything was sent"]
#[non_exhaustive]
pub enum FlushOutcome {
    /// Everything that was handed over has been sent and settled.
    Settled,
    /// The time ended before everything was settled. The rest is in the table and is sent later.
    TimedOut,
    /// No relay runs in this process, so there was nothing to wait for. Relays of other processes send the messages.
    NoRelay,
}

impl FlushOutcome {
    /// Whether everything has been sent and settled.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Settled)
    }

    /// The worse of two outcomes.
    pub(crate) fn and(self, other: Self) -> Self {
        self.max(other)
    }
}
