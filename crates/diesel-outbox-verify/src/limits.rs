//! Every bound and default, and why it has its value.
//!
//! **Memory.** A run holds at most one page of rows, one batch of records, [`SORTED_ENTRIES_MAX`] entries of each of two sorts, and the
//! read buffers of [`RUNS_MAX`] files: about 70 MB, however many messages there are. **Disk.** An entry has 86 bytes, and there is one for
//! each row and each record: 10 million messages with a record each take 1.7 GB in the folder of temporary files, and half a gigabyte
//! more for the order of keys. The files have no names, so nothing of them is left, however the process ends.

use std::time::Duration;

/// Entries that are sorted in memory before they go to a file: 96 bytes each, so 38 MB. 10 million messages with a record each then make
/// 50 files.
pub(crate) const SORTED_ENTRIES_MAX: usize = 400_000;

/// What an entry takes in memory, rounded up.
pub(crate) const ENTRY_BYTES_IN_MEMORY: usize = 96;

/// The least memory that entries are sorted in: with less, 10 million messages would make so many files that most of the time went into
/// merging them.
pub(crate) const MEMORY_BYTES_MIN: usize = 8 << 20;

/// Files that are read at once. Each has a buffer of [`RUN_BUFFER_BYTES`], and a process may have no more than 256 open files by default
/// on macOS. With more files, these become one first.
pub(crate) const RUNS_MAX: usize = 64;

/// What is read from a file at once: large enough for a disk that seeks, and 4 MiB for all of them.
pub(crate) const RUN_BUFFER_BYTES: usize = 64 * 1024;

/// Bytes of rows that a page has, as far as the largest row of the page before tells.
pub(crate) const PAGE_BYTES: usize = 4 << 20;

/// Rows of a page. More save no round trips worth the name.
pub(crate) const PAGE_ROWS_MAX: usize = 1_000;

/// Rows of a page whatever their size: a payload has a megabyte at most unless a topic is configured otherwise.
pub(crate) const PAGE_ROWS_MIN: usize = 8;

/// Findings of each verdict that are looked up again and reported, by default: people look at the first few, and each takes up to three
/// statements.
pub(crate) const FINDINGS_MAX: usize = 100;

/// How far the clocks of database, relays and brokers may differ before a finding is wrong. Hosts with NTP differ by milliseconds; one
/// that has lost it for a while, by seconds.
pub(crate) const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);

/// How much before its delivery time a message counts as early. The database's clock releases it, and the relay's or the broker's tells
/// when it was sent.
pub(crate) const EARLY_MIN: Duration = Duration::from_secs(1);

/// How much before the period a topic is read: the time of a record is of another clock than that of a row, and a producer may buffer.
pub(crate) const TOPIC_LEAD: Duration = Duration::from_secs(3_600);

/// Records that a source returns at once.
#[cfg(any(feature = "kafka", feature = "rocketmq"))]
pub(crate) const RECORDS_PER_BATCH: usize = 1_000;

/// How long one request to a broker may take.
#[cfg(any(feature = "kafka", feature = "rocketmq"))]
pub(crate) const BROKER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a reader waits for transactions that are open when it takes the end of a partition. A relay's transactions take
/// milliseconds; one that hangs is ended by the broker after a minute by default, and is reported.
#[cfg(feature = "kafka")]
pub(crate) const OPEN_TRANSACTION_WAIT: Duration = Duration::from_secs(10);

/// How soon it looks again.
#[cfg(feature = "kafka")]
pub(crate) const OPEN_TRANSACTION_POLL: Duration = Duration::from_millis(100);

/// Kilobytes that the client reads ahead; several requests of a megabyte. By default they are 64 MB, which memory shows; 16 MB were
/// no faster.
#[cfg(feature = "kafka")]
pub(crate) const KAFKA_READ_AHEAD_KB: u32 = 4 * 1024;

/// Messages of one request to a RocketMQ broker, which has a limit of its own (32 by default, and 256 KiB).
#[cfg(feature = "rocketmq")]
pub(crate) const ROCKETMQ_PULLED_MAX: i32 = 64;

/// How long the client library may take to end.
#[cfg(feature = "rocketmq")]
pub(crate) const ROCKETMQ_END_TIMEOUT: Duration = Duration::from_secs(5);
