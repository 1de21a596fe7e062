//! The defaults of a topic, and what bounds them: staleness, attempts, waits.

use std::time::Duration;

/// Staleness `t` of a topic: how long a new row belongs to the process that wrote it before a sweeper may take it.
///
/// Three seconds cover a commit, the confirm read and a send under load many times over, and bound the delay after a
/// crash.
pub const STALENESS: Duration = Duration::from_secs(3);

/// The shortest staleness: below it, a garbage collection pause or a slow COMMIT would often give a row two holders.
pub const STALENESS_MIN: Duration = Duration::from_secs(2);

/// Attempts before a message is dead-lettered: with the default back-off they span about half an hour.
pub const ATTEMPTS_MAX: u32 = 12;

/// The first wait after a failure, by default: most transient faults are over within a second. Doubles up to
/// [`BACK_OFF_MAX`].
pub const BACK_OFF_MIN: Duration = Duration::from_secs(1);

/// The longest of those waits, by default. Jitter adds up to half: once the cause is fixed, the message goes within a
/// quarter of an hour.
pub const BACK_OFF_MAX: Duration = Duration::from_secs(600);

/// The longest wait of a [`RetryPolicy`](crate::retry::RetryPolicy): longer ones are cut to this, because not every
/// database can store an instant `Duration::MAX` ahead. A message that should wait longer than a year should be a dead letter.
pub const RETRY_WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

/// The longest wait after a temporary failure (time-out, leader election, quota), which says nothing about the message.
pub const TEMPORARY_WAIT_MAX: Duration = Duration::from_secs(30);

/// The longest that a receiver (`Retry-After`) can delay a message or a topic. A receiver that asks for a year by mistake
/// must not stop a topic for a year.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);
