//! Limits of a consumer's inbox.

use std::time::Duration;

/// For how many days an inbox keeps its entries. Kafka keeps records for a week by default. A message may have waited for its
/// broker before, and its consumer may be down after: a second week covers both.
pub const INBOX_KEEP_DAYS: u32 = 14;

/// The longest name of an inbox's consumer. It is read by people, and Kafka's groups have at most 249.
pub const INBOX_CONSUMER_CHARS_MAX: usize = 200;

/// Messages that one statement claims. It has at most three values for each, and SQLite allows 32,766.
pub const CLAIM_ROWS_MAX: usize = 1_000;

/// How often `once` begins its transaction, if the database rolls back the claim because of others. The handler has not run yet, so a new
/// attempt costs one claim. Of several that deadlock one always commits: with eight, the last of eight gets through.
pub const CLAIM_ATTEMPTS_MAX: u32 = 8;

/// The most partitions that one prune creates or removes: each locks a partition for a moment.
pub const INBOX_PARTITIONS_MAX: u32 = 16;

/// Days in the past for which partitions are created: a new consumer reads a topic from its beginning. The entries of older messages are
/// deleted one by one.
pub const INBOX_PARTITION_DAYS_BACK: u32 = 31;

/// Bytes of the default partition from which on a prune creates one partition at a time. Attaching a partition reads all of the default one,
/// and locks it meanwhile: 200,000 entries take some tens of milliseconds.
pub const INBOX_DEFAULT_BYTES_MAX: u32 = 16 << 20;

/// How long removing an emptied partition waits for its lock. All claims wait behind it, and an open claim delays it for as long as its
/// handler takes. The partition takes no space, so another prune can remove it.
pub const INBOX_DROP_LOCK_TIMEOUT: Duration = Duration::from_millis(50);
