//! Limits of consumers.

use std::time::Duration;

/// The longest name of a consumer's group, in characters: that of MariaDB's columns.
pub const CONSUMER_GROUP_CHARS_MAX: usize = 255;

/// Attempts before a record has failed for good. With the default back-off they span eight and a half minutes, without jitter:
/// the relay tries longer, because it delays no other message.
pub const CONSUMER_ATTEMPTS_MAX: u32 = 10;

/// Crashes with a record alone before it has failed for good. A supervisor ends a process that hangs, so while a database hangs, a healthy
/// record may be running alone a few times.
pub const CONSUMER_CRASHES_MAX: u32 = 3;

/// Unclean ends in a row after which records run in groups. The first one is nearly always a deployment or a lost machine, and
/// groups are slower.
pub const CONSUMER_UNCLEAN_ENDS_MAX: u32 = 2;

/// Records of such a group. Each group costs a commit, and so does each record of the one that killed the process. The sum is least near the
/// square root of [`CONSUMER_RECORDS_MAX`].
pub const CONSUMER_SUSPECTS_MAX: i64 = 32;

/// Groups of earlier owners that are noted with an offset. A note has 4,096 bytes at most (`offset.metadata.max.bytes`), and a group 40.
pub const CONSUMER_SUSPECTED_GROUPS_MAX: usize = 16;

/// Records that run at a time: each needs a connection, and a database of four cores runs about as many well.
pub const CONSUMER_WORKERS: usize = 8;

/// The most records of a batch: a claim of a thousand takes milliseconds, and all of them run again if one fails.
pub const CONSUMER_BATCH_RECORDS_MAX: usize = 500;

/// No batch has a message older than what the inbox keeps, divided by this. Handlers of a batch run before the claim, which alone knows what
/// is too old. A half leaves days for clocks that differ, and for a prune that runs late.
pub const CONSUMER_BATCH_AGE_DIVISOR: u32 = 2;

/// Records in memory: a second's work of fast handlers, so that a fetch never delays them.
pub const CONSUMER_RECORDS_MAX: usize = 2_000;

/// Bytes of the records in memory.
pub const CONSUMER_BYTES_MAX: usize = 64 << 20;

/// Finished records of a partition behind one that is not: a restart reads them again, and recognises each as a duplicate.
pub const CONSUMER_FINISHED_MAX: usize = 100_000;

/// How long a rebalance waits for running handlers. Longer waits would stop the whole group.
pub const CONSUMER_REBALANCE_WAIT: Duration = Duration::from_secs(10);

/// How often offsets are committed. A crash repeats as much as a second's work, each record of which is recognised.
pub const CONSUMER_COMMIT_INTERVAL: Duration = Duration::from_secs(1);

/// How long one poll of the client waits for a record.
pub const CONSUMER_POLL_TIMEOUT: Duration = Duration::from_millis(50);

/// The same while the loop has something to watch: a paused partition, records that wait for their mark.
pub const CONSUMER_BUSY_POLL_TIMEOUT: Duration = Duration::from_millis(2);

/// Records taken from the client before the loop looks at anything else.
pub const CONSUMER_POLL_RECORDS_MAX: usize = 500;

/// Records looked up by one read where copies follow one another, at first: such a read takes about as long as one transaction.
pub const CONSUMER_LOOK_AHEAD_MIN: usize = 16;

/// The same, if most of those before were copies: the records that one poll of the loop adds.
pub const CONSUMER_LOOK_AHEAD_MAX: usize = 500;

/// How many records Kafka's client reads ahead of a partition, unless `queued.min.messages` says so: as many as a consumer has in memory.
/// With the client's 100,000 a partition that is paused and resumed reads them again and again.
pub const CONSUMER_READ_AHEAD: usize = 2_000;

/// How long Kafka's client waits before it reads on, once it has read that far ahead, unless `fetch.queue.backoff.ms` says so. With the
/// client's second a fast handler waits for it.
pub const CONSUMER_READ_AHEAD_WAIT: Duration = Duration::from_millis(10);

/// The longest that the loop waits for the answers to requests which only wake Kafka's client. A broker nearby answers sooner.
pub const CONSUMER_WAKE_TIMEOUT: Duration = Duration::from_millis(2);

/// How long a request to the broker may take that the loop waits for.
pub const CONSUMER_BROKER_TIMEOUT: Duration = Duration::from_secs(5);

/// The first wait after a failure that says nothing about the record, such as a database that is away. Doubles up to
/// [`CONSUMER_OUTAGE_WAIT_MAX`].
pub const CONSUMER_OUTAGE_WAIT_MIN: Duration = Duration::from_millis(100);

/// The longest of these waits: a database that is back is used within two seconds.
pub const CONSUMER_OUTAGE_WAIT_MAX: Duration = Duration::from_secs(2);

/// The first wait after a failed statement of the consumer's own. Doubles up to [`CONSUMER_OUTAGE_WAIT_MAX`]. Often another transaction
/// was in the way, which is over by then.
pub const CONSUMER_POSTPONE_WAIT_MIN: Duration = Duration::from_millis(10);

/// How long a new connection may take after one was lost. Beyond, the database counts as away.
pub const CONSUMER_PING_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections that are tried before the database counts as away: a pool may still have some that broke with the first.
pub const CONSUMER_PINGS_MAX: usize = 3;

/// How long the loop waits for what it asked of the database before it asks anew, on another connection.
pub const CONSUMER_LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a statement of the loop's own may wait for locks.
pub const CONSUMER_LOCK_TIMEOUT: Duration = Duration::from_secs(3);

/// How long an owner has to live until its beginning counts as survived: a record that ends the process does so at once, mostly.
pub const CONSUMER_TRIAL: Duration = Duration::from_secs(60);

/// Deadlocks and the like of one record that spend no attempt.
pub const CONSUMER_CONFLICTS_MAX: u32 = 20;

/// The wait after one of them: the other transaction is over by then, mostly.
pub const CONSUMER_CONFLICT_WAIT: Duration = Duration::from_millis(10);

/// How long a worker waits for a connection. Beyond, the database counts as away.
pub const CONSUMER_CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a consumer with parked keys looks for released ones.
pub const CONSUMER_RELEASED_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How often a consumer removes old entries of its inbox. Each call removes a bounded number; if there are more, the next follows at once.
pub const CONSUMER_PRUNE_INTERVAL: Duration = Duration::from_secs(300);

/// How long the consumer's thread may take to close the client after the grace of a shutdown.
pub const CONSUMER_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the lag is measured: each partition costs a request.
pub const CONSUMER_LAG_INTERVAL: Duration = Duration::from_secs(10);

/// How long one of these requests may take. Nothing is read meanwhile.
pub const CONSUMER_LAG_TIMEOUT: Duration = Duration::from_secs(1);
