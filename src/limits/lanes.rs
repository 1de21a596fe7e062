//! Of the lanes of ordered topics.

use std::time::Duration;

/// Rows that the locks of keys take at most on MySQL: two keys in one bucket wait for each other, which at 100 open
/// transactions happens to every eightieth of them.
pub const KEY_LOCK_BUCKETS: i64 = 8_192;

/// Lanes of an ordered topic, where none are given: enough for sixteen nodes, few enough that looking at all costs nothing.
pub const LANES: u16 = 16;

/// The most lanes of an ordered topic: a read of all of them stays one statement of a millisecond or two.
pub const LANES_MAX: u16 = 1_024;

/// Rows of each lane whose keys are compared before a topic gets its lanes, once: of another number of lanes, each key has an even
/// chance at best to be where it belongs.
pub const LANE_SAMPLE_ROWS_MAX: usize = 100;

/// Rows of one page of a lane, read without what they carry.
pub const LANE_PAGE_ROWS_MAX: usize = 1_000;

/// Rows of one read of several lanes, of which each gets its part.
pub const LANE_READ_ROWS_MAX: usize = 4_000;

/// The least part, so that a read of very many lanes still gets on.
pub const LANE_PAGE_ROWS_MIN: usize = 50;

/// Lanes of one read: of more, each would get less than the least part.
pub const LANES_READ_MAX: usize = LANE_READ_ROWS_MAX / LANE_PAGE_ROWS_MIN;

/// The shortest pause between two rounds through the lanes: what is due and cannot be done now, because another trial of the broker is
/// under way, is no reason to spin.
pub const LANE_PAUSE_MIN: Duration = Duration::from_millis(5);

/// Rows that wait in a lane's memory, below which more are read: a page takes a millisecond, half of one lasts ten.
pub const LANE_WAITING_LOW: usize = 500;

/// Rows of one key that wait in memory, 24 bytes each, sent one after the other; the others are read again after these.
pub const LANE_KEY_WAITING_MAX: usize = 100;

/// Rows of one key of a fenced lane that are under way at once: what is kept of it in memory.
pub const LANE_KEY_IN_FLIGHT_MAX: usize = LANE_KEY_WAITING_MAX;

/// Lanes of a topic that are fenced at once. Each takes a thread that waits for the broker, and some tenths of a second.
pub const LANE_FENCES_AT_ONCE_MAX: usize = 16;

/// How long a lane waits to be fenced anew that was so in vain: from the first time, because a broker that is about to elect is
/// soon done, to the longest, because each time costs the broker a write.
pub const LANE_FENCE_WAIT_MIN: Duration = Duration::from_millis(100);

/// The longest of those waits.
pub const LANE_FENCE_WAIT_MAX: Duration = Duration::from_secs(5);

/// How often a lane is fenced in vain before that counts as a failure of the node's broker: the first time may be an election.
pub const LANE_FENCE_TRIES_MAX: u32 = 2;

/// How often a node's database may begin to fail within [`LANE_OUTAGE_WINDOW`] before it leaves its lanes to others: once is a
/// failover, a second time its echo.
pub const LANE_OUTAGES_MAX: usize = 3;

/// As long as a node sleeps by default: what fails less often costs less than a sleep.
pub const LANE_OUTAGE_WINDOW: Duration = Duration::from_secs(60);

/// Keys of one lane with something to send or blocked, 200 bytes each: 20 MB. Beyond, nothing new is read until some are done.
pub const LANE_KEYS_MAX: usize = 100_000;

/// Keys of a lane whose last message is remembered, to count rows that became visible too late, and to know one again that was sent
/// and is only then said to be committed. For that as many keys would have to be sent within [`LANE_INLINE_AGE_MAX`].
pub const LANE_RECENT_KEYS_MAX: usize = 4_096;

/// How far a lane is read again where a database does not tell the id of a new row (MySQL), which may be a late one.
pub const LANE_WAKEUP_SLACK_IDS: i64 = 1_000;

/// How long a transaction may be open behind its enqueue to an ordered topic and keep the order of its keys, whichever
/// process it is of, in a database that does not tell which ones are (MySQL, MariaDB): so far back each page of a lane is
/// read, at no cost where rows are settled. docs/ordering.md has more.
pub const LANE_OPEN_TRANSACTION_DURATION: Duration = Duration::from_secs(2);

/// The same in one that tells (PostgreSQL): as long as a transaction that writes anything is open, and no longer, because a day's
/// batch would have each page read a day again. Long enough for a process that hangs in the middle of one.
pub const LANE_OPEN_TRANSACTION_DURATION_MAX: Duration = Duration::from_secs(30);

/// So far back at most, in rows of the topic that this node reads, a lane is read for a transaction that is open for longer than
/// [`LANE_OPEN_TRANSACTION_DURATION`]: as much as one page may read again, so that each still reaches what is new; and what was settled meanwhile
/// is walked over by every page, a few milliseconds for so many in all lanes together. Not in ids of the table, which other topics and
/// transactions that are rolled back draw as well.
pub const LANE_OPEN_TRANSACTION_ROWS_MAX: u64 = 10_000;

/// Rows that one page of a lane reads again, 100 bytes each. Where more are that young, new ones wait until they are older.
pub const LANE_REREAD_ROWS_MAX: usize = 10_000;

/// The steps in which that follows the clock: a sixteenth of what it waits at least.
pub const LANE_OPEN_TRANSACTION_STEP: Duration = Duration::from_millis(125);

/// Steps that are kept of a lane, 48 bytes each: those of [`LANE_OPEN_TRANSACTION_DURATION_MAX`], and some.
pub const LANE_WATERMARK_STEPS_MAX: usize = 256;

/// Commits to the lanes of a topic whose time is remembered until their rows are sent, 24 bytes each, and once more as many:
/// half a second at the rate at which one process commits. Only measured by it.
pub const LANE_COMMITS_MAX: usize = 4_096;

/// Bytes of the rows that came along with those commits, and once more as many: for 500 bytes each, all of them. What is beyond
/// is read, as every row is whose commit is not verified.
pub const LANE_INLINE_BYTES_MAX: usize = 4 << 20;

/// How old such a row may be when its turn comes and still be sent without being read: what is deleted or mended by hand while it waits,
/// in an outage or behind its key, is seen. A lone message waits for a few milliseconds.
pub const LANE_INLINE_AGE_MAX: Duration = Duration::from_secs(1);

/// How soon a row in hand from an earlier time is looked at again, and a lane of which much is read again.
pub const LANE_RECHECK: Duration = Duration::from_millis(100);

/// The pause between two pages of a lane that is read for rows that became visible late, where rows of held keys fill more than one,
/// in step with the other lanes of its kind, so that one statement reads them all:
/// 10,000 of them in one lane are gone through within a second, and a topic reads no more than ten pages of
/// [`LANE_READ_ROWS_MAX`] rows a second for it, some hundredths of a processor of the database, for as long as they are held.
pub const LANE_LATE_PAUSE: Duration = Duration::from_millis(100);
