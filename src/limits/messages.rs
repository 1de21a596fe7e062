//! Of messages, and of what enqueues them.

use std::time::Duration;

/// Staleness `t` of a topic: how long a new row belongs to the process that wrote it before a sweeper may take it.
///
/// Three seconds cover a commit, the confirm read and a send under load many times over, and bound what a crash delays.
pub const STALENESS: Duration = Duration::from_secs(3);

/// The least staleness: below it a garbage pause or a slow COMMIT makes two holders of one row an everyday event.
pub const STALENESS_MIN: Duration = Duration::from_secs(2);

/// Attempts before a message is dead: with the default back-off these span about half an hour.
pub const ATTEMPTS_MAX: u32 = 12;

/// The first wait after a failure, by default: what is over by itself mostly is within a second. Doubles up to [`BACK_OFF_MAX`].
pub const BACK_OFF_MIN: Duration = Duration::from_secs(1);

/// The longest of those waits, by default: somebody who mends what a message fails at sees it go within ten minutes.
pub const BACK_OFF_MAX: Duration = Duration::from_secs(600);

/// The longest wait that a [`RetryPolicy`](crate::retry::RetryPolicy) may ask for: more counts as this, so that `Duration::MAX` is an
/// instant that every database knows. A year: whoever wants a message to wait for longer wants a dead letter.
pub const RETRY_WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

/// The longest wait after a temporary failure (time-out, leader election, quota), which says nothing about the message.
pub const TEMPORARY_WAIT_MAX: Duration = Duration::from_secs(30);

/// The longest that a receiver's own word (`Retry-After`) puts off a message or a topic. A day's maintenance is not known
/// to the minute, and a receiver that asks for a year by mistake must not silence a topic for one.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// Bytes of payload, key and headers together: 1 MB is what Kafka's brokers take by default (`message.max.bytes`).
pub const MESSAGE_BYTES_MAX: usize = 1_000_000;

/// Characters of a topic: Kafka's own bound, and the width of the column on MySQL.
pub const TOPIC_CHARS_MAX: usize = 249;

/// Characters of a kind; the width of the column on MySQL.
pub const KIND_CHARS_MAX: usize = 255;

/// Bytes of a key: the width of the column on MySQL, and far above any identifier.
pub const KEY_BYTES_MAX: usize = 1_024;

/// Bytes of a header's name: far above any name in use; brokers send names with every record.
pub const HEADER_NAME_BYTES_MAX: usize = 255;

/// Characters of a refused header's name that an error shows: the name may be as long as a message.
pub const HEADER_NAME_SHOWN_CHARS_MAX: usize = 64;

/// Characters of the tables' prefix or schema: with the longest suffix of ours, PostgreSQL's 63 still hold.
pub const IDENTIFIER_CHARS_MAX: usize = 40;

/// The longest delay of a message: a century. Beyond it somebody has mistaken a unit; and the instants of every database
/// reach that far.
pub const DELAY_MAX: Duration = Duration::from_secs(36_525 * 24 * 3_600);

/// By how much the clocks of application and database may differ until a message that is delivered at a moment may find the
/// poller asleep, and wait for the next poll. Clocks that are kept by NTP differ by less.
pub const CLOCK_SLACK: Duration = Duration::from_secs(1);

/// Dead letters moved or purged by one transaction: it is over in tens of milliseconds, and holds nothing up.
pub const REDRIVE_ROWS_MAX: usize = 500;

/// Dead letters that go back in a second, where nothing else is said: what they failed at may not bear more.
pub const REDRIVE_PER_SECOND: u32 = 1_000;

/// Dead letters that wait to be told to the application's listener, some hundred bytes each. A listener that falls behind by more
/// is told of the table, where all of them are.
pub const DEAD_LETTER_CALLBACKS_QUEUE_MAX: usize = 1_024;

/// Dead letters told by one turn of a listener's thread, so that a shutdown waits for no more of them.
pub const DEAD_LETTER_CALLBACKS_BATCH_MAX: usize = 64;

/// Failures kept on a row: enough to see a pattern, few enough that a failing row does not grow.
pub const ERRORS_KEPT_MAX: usize = 10;

/// Bytes of one kept failure's text.
pub const ERROR_TEXT_BYTES_MAX: usize = 1_024;

/// Rows of one multi-row INSERT on MySQL and SQLite; larger calls take several, because both bound the binds of a
/// statement (65,535 and 32,766). PostgreSQL binds arrays and takes any number.
pub const ENQUEUE_ROWS_MAX: usize = 256;

/// Bytes of the messages of one multi-row INSERT, but always one message: half of the packet that MariaDB takes by
/// default (16 MiB).
pub const ENQUEUE_BYTES_MAX: usize = 8 << 20;

/// The largest message that goes to the relay itself where its commit is verified; larger ones are read by confirm like every
/// other, so that a full queue of 16,384 holds at most 64 MiB.
pub const INLINE_BYTES_MAX: usize = 4 << 10;

/// How many messages of a transaction its hook keeps with their payloads, so that an open one holds at most 256 KiB. To read
/// more than that in one statement costs little for each.
pub const INLINE_ROWS_MAX: usize = 64;

/// Refs a connection's hook keeps for one transaction: what is beyond goes to the sweeper. More than the queue takes
/// could not be handed over anyhow.
pub const HOOK_REFS_MAX: usize = 16_384;
