//! Limits of the lanes of ordered topics.

use std::time::Duration;

/// Rows that the key locks on MySQL take at most. Two keys in one bucket wait for each other; with 100 open
/// transactions, one in eighty does.
pub const KEY_LOCK_BUCKETS: i64 = 8_192;

/// Lanes of an ordered topic by default: enough for sixteen nodes, few enough that reading all of them costs nothing.
pub const LANES: u16 = 16;

/// The most lanes of an ordered topic: reading all of them stays one statement of a millisecond or two.
pub const LANES_MAX: u16 = 1_024;

/// Rows of each lane whose keys are compared once before a topic gets its lanes. If the number of lanes differs, each
/// key has at best an even chance to be in its right lane.
pub const LANE_SAMPLE_ROWS_MAX: usize = 100;

/// Rows of one page of a lane, read without payloads.
pub const LANE_PAGE_ROWS_MAX: usize = 1_000;

/// Rows of one read of several lanes, which share them.
pub const LANE_READ_ROWS_MAX: usize = 4_000;

/// The least share of a lane, so that a read of very many lanes still makes progress.
pub const LANE_PAGE_ROWS_MIN: usize = 50;

/// Lanes of one read: with more, each would get less than the least share.
pub const LANES_READ_MAX: usize = LANE_READ_ROWS_MAX / LANE_PAGE_ROWS_MIN;

/// The shortest pause between two steps of the lane reader: work that is due but impossible now, because another trial
/// of the broker is running, must not make it spin.
pub const LANE_PAUSE_MIN: Duration = Duration::from_millis(5);

/// If fewer rows than this wait in a lane's memory, more are read: a page takes a millisecond to read, half of one
/// lasts ten.
pub const LANE_WAITING_LOW: usize = 500;

/// Rows of one key that wait in memory, at 24 bytes each. They are sent one after the other; the rest is read again
/// after them.
pub const LANE_KEY_WAITING_MAX: usize = 100;

/// Rows of one key of a fenced lane in flight at once: as many as are kept in memory.
pub const LANE_KEY_IN_FLIGHT_MAX: usize = LANE_KEY_WAITING_MAX;

/// Lanes of a topic that are fenced at once. Each takes a thread that waits for the broker, and some tenths of a
/// second.
pub const LANE_FENCES_AT_ONCE_MAX: usize = 16;

/// The first wait before a failed fence is repeated: short, because an election soon ends. Doubles up to
/// [`LANE_FENCE_WAIT_MAX`], because each attempt costs the broker a write.
pub const LANE_FENCE_WAIT_MIN: Duration = Duration::from_millis(100);

/// The longest of those waits.
pub const LANE_FENCE_WAIT_MAX: Duration = Duration::from_secs(5);

/// Failed fences of a lane before that counts as a failure of the node's broker: the first may be an election.
pub const LANE_FENCE_TRIES_MAX: u32 = 2;

/// How many times a node's database may begin to fail within [`LANE_OUTAGE_WINDOW`] before the node leaves its lanes to
/// others. A failover may cause two.
pub const LANE_OUTAGES_MAX: usize = 3;

/// The window in which those failures count: as long as a node sleeps by default, because a rarer failure costs less than
/// a sleep.
pub const LANE_OUTAGE_WINDOW: Duration = Duration::from_secs(60);

/// Keys of one lane that have something to send or are blocked, at 200 bytes each: 20 MB. Beyond, no new rows are read
/// until some are done.
pub const LANE_KEYS_MAX: usize = 100_000;

/// Keys of a lane whose last message is remembered, to count rows that became visible too late, and to recognize a row
/// that was sent before its hook reported it. To miss one, this many keys would have to be sent within
/// [`LANE_INLINE_AGE_MAX`].
pub const LANE_RECENT_KEYS_MAX: usize = 4_096;

/// How far back a lane is read for a commit whose id the database does not report (MySQL), because the row may be late.
pub const LANE_WAKEUP_SLACK_IDS: i64 = 1_000;

/// How long a transaction may stay open after its enqueue to an ordered topic and still keep the order of its keys, in
/// whichever process it runs, on a database that does not report open transactions (MySQL, MariaDB). Each page of a
/// lane is read this far back, at no cost where rows are settled. See docs/ordering.md.
pub const LANE_OPEN_TRANSACTION_DURATION: Duration = Duration::from_secs(2);

/// The same on a database that reports open transactions (PostgreSQL): as long as any writing transaction is open, but
/// no longer than this. Otherwise a batch job of a day would make each page read a day again. It is long enough for a
/// process that hangs in the middle of a transaction.
pub const LANE_OPEN_TRANSACTION_DURATION_MAX: Duration = Duration::from_secs(30);

/// How far back at most, in rows of the topic that this node has read, a lane is read for a transaction that is open
/// for longer than [`LANE_OPEN_TRANSACTION_DURATION`]. It is what one page may read again, so that each page still
/// reaches new rows. Every page also walks over what was settled since: a few milliseconds for this many in all lanes
/// together. It does not count ids of the table, because other topics and rolled-back transactions draw them as well.
pub const LANE_OPEN_TRANSACTION_ROWS_MAX: u64 = 10_000;

/// Rows that one page of a lane reads again, 100 bytes each. If more rows are that young, newer ones wait until they
/// are older.
pub const LANE_REREAD_ROWS_MAX: usize = 10_000;

/// The step in which the low watermark follows the clock: a sixteenth of the shortest wait.
pub const LANE_OPEN_TRANSACTION_STEP: Duration = Duration::from_millis(125);

/// Steps that are kept per lane, 48 bytes each: those of [`LANE_OPEN_TRANSACTION_DURATION_MAX`], and a few more.
pub const LANE_WATERMARK_STEPS_MAX: usize = 256;

/// Commits to the lanes of a topic whose time is remembered until their rows are sent, 24 bytes each, in each of two
/// generations: half a second at the rate at which one process commits. Only metrics use the time.
pub const LANE_COMMITS_MAX: usize = 4_096;

/// Bytes of the inline rows of those commits, in each of two generations: at 500 bytes each, all of them. Beyond, rows
/// are read, like every row that is not inline.
pub const LANE_INLINE_BYTES_MAX: usize = 4 << 20;

/// How old an inline row may be to be sent without a read. An older row has waited, in an outage or behind its key, and
/// somebody may have deleted or corrected it by hand. A lone message waits for a few milliseconds.
pub const LANE_INLINE_AGE_MAX: Duration = Duration::from_secs(1);

/// How soon a row in flight from an earlier ownership is checked again, and how soon a lane is read again if much of it
/// is reread.
pub const LANE_RECHECK: Duration = Duration::from_millis(100);

/// The pause between two pages of a scan for late rows, if rows of blocked keys fill more than one page. Lanes do this
/// in step, so that one statement reads all of them. A lane with 10,000 such rows is scanned within a second, and a
/// topic reads at most ten pages of [`LANE_READ_ROWS_MAX`] rows a second for it: some hundredths of a database
/// processor while the keys are blocked.
pub const LANE_LATE_PAUSE: Duration = Duration::from_millis(100);
