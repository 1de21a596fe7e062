//! Of what is kept, and of its removal.

use std::time::Duration;

/// The longest retention, in days: ten years. Beyond it somebody has mistaken a unit, and a history is no archive.
pub const KEEP_DAYS_MAX: u32 = 3_653;

/// The least time that consumers are given to say that they have processed a message: a settle lingers, and they poll.
pub const PROCESSED_WITHIN_MIN: Duration = Duration::from_secs(1);

/// Rows removed by one statement for their age: it is over in tens of milliseconds, and holds nothing up.
pub const PRUNE_ROWS_MAX: usize = 1_000;

/// Bytes of payload that one step removes on SQLite, where everybody who writes waits for it: that is over in tens of milliseconds,
/// too.
pub const PRUNE_BYTES_MAX: usize = 8 << 20;

/// How many times as long as a round took the pruner pauses before the next where more is left: it takes at most half of one
/// connection's time, whatever the table's size.
pub const PRUNE_PAUSE_FACTOR: u32 = 1;

/// The shortest of those pauses.
pub const PRUNE_PAUSE_MIN: Duration = Duration::from_millis(10);

/// Days for which partitions are made ahead. Where no relay runs for longer, what is sent then goes to the default partition.
pub const PARTITION_DAYS_AHEAD: u32 = 3;

/// How long a statement that makes a partition waits for its locks. It holds nobody up meanwhile but new readers of the default
/// partition.
pub const PARTITION_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the fall of a partition waits for its lock: every settle that keeps waits behind it, and a reader of the history may
/// have it for minutes. A settle itself is over in milliseconds.
pub const PARTITION_DROP_LOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// How long a consumer's mark waits for the settle of its message. A settle comes within seconds of the acknowledgement; a week
/// outlasts the outages of a database. After it, a mark of what was never sent goes.
pub const PROCESSED_FLAG_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
