use std::time::Duration;

/// How a row is inserted, as enqueue does it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InsertOptions {
    /// The staleness it is born leased with. Zero, as without a relay in the process, makes it due at once.
    pub leased_for: Duration,
    /// The delay of its delivery. Such a row belongs to nobody and becomes due at its time, whatever the staleness.
    pub deliver_after: Option<Duration>,
    /// The lane, on an ordered topic. Such a row belongs to the lane's owner, and its `due_at` stays at 1970.
    pub lane: Option<u16>,
}

impl InsertOptions {
    /// Inserts the row leased to the process that enqueues it.
    #[must_use]
    pub const fn leased_for(mut self, staleness: Duration) -> Self {
        self.leased_for = staleness;
        self
    }

    /// Delays the delivery.
    #[must_use]
    pub const fn deliver_after(mut self, delay: Duration) -> Self {
        self.deliver_after = Some(delay);
        self
    }

    /// Puts the row into a lane.
    #[must_use]
    pub const fn in_lane(mut self, lane: u16) -> Self {
        self.lane = Some(lane);
        self
    }
}
