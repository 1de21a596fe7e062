//! Limits of retention, and of removing expired rows.

use std::time::Duration;

/// The longest retention, in days: ten years. A longer one is a mistaken unit, and a history is no archive.
pub const KEEP_DAYS_MAX: u32 = 3_653;

/// The shortest time that consumers get to report that they processed a message: a settle lingers, and they poll.
pub const PROCESSED_WITHIN_MIN: Duration = Duration::from_secs(1);

/// Expired rows that one statement removes: it takes tens of milliseconds and blocks nothing for longer.
pub const PRUNE_ROWS_MAX: usize = 1_000;

/// Bytes of payload that one step removes on SQLite, where all writers wait for it: tens of milliseconds, too.
pub const PRUNE_BYTES_MAX: usize = 8 << 20;

/// While more is left, the pruner pauses for this many times the duration of its last round: it takes at most half of
/// one connection's time, whatever the table's size.
pub const PRUNE_PAUSE_FACTOR: u32 = 1;

/// The shortest of those pauses.
pub const PRUNE_PAUSE_MIN: Duration = Duration::from_millis(10);

/// Days for which partitions are created ahead. If no relay runs for longer, sent rows go to the default partition.
pub const PARTITION_DAYS_AHEAD: u32 = 3;

/// How long a statement that creates a partition waits for its locks. Meanwhile it blocks only new readers of the
/// default partition.
pub const PARTITION_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// How long dropping a partition waits for its lock. Every settle that keeps rows waits behind it, and a reader of the
/// history may hold the lock for minutes. A settle itself takes milliseconds.
pub const PARTITION_DROP_LOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// How long a consumer's report waits for the settle of its message. A settle comes within seconds of the
/// acknowledgement; a week outlasts the outages of a database. After it, a report without a sent message is removed.
pub const PROCESSED_REPORT_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
