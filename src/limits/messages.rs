//! Limits of messages, and of enqueueing them.

use std::time::Duration;

/// Bytes of payload, key and headers together: Kafka's brokers take 1 MB by default (`message.max.bytes`).
pub const MESSAGE_BYTES_MAX: usize = 1_000_000;

/// Characters of a topic: Kafka's own bound, and the width of the column on MySQL.
pub const TOPIC_CHARS_MAX: usize = 249;

/// Characters of a kind; the width of the column on MySQL.
pub const KIND_CHARS_MAX: usize = 255;

/// Bytes of a key: the width of the column on MySQL, and far above any identifier.
pub const KEY_BYTES_MAX: usize = 1_024;

/// Bytes of a header's name: far above any name in use. Brokers send the names with every record.
pub const HEADER_NAME_BYTES_MAX: usize = 255;

/// Fingerprints that a relay reports as unknown, one log event each: more than an application has versions at once.
pub const UNKNOWN_FINGERPRINTS_MAX: usize = 100;

/// Characters of an unknown fingerprint that a relay shows: the derive's have 16.
pub const FINGERPRINT_SHOWN_CHARS_MAX: usize = 64;

/// Characters of a refused header's name that an error shows: the name may be as long as a message.
pub const HEADER_NAME_SHOWN_CHARS_MAX: usize = 64;

/// Characters of the tables' prefix or schema: together with our longest suffix this stays within PostgreSQL's 63.
pub const IDENTIFIER_CHARS_MAX: usize = 40;

/// The longest delay of a message: a century. A longer one is a mistaken unit, and every database can store instants
/// that far ahead.
pub const DELAY_MAX: Duration = Duration::from_secs(36_525 * 24 * 3_600);

/// How far the clocks of application and database may differ. Beyond, the poller may sleep past a message with a
/// delivery time, which then waits for the next poll. Clocks under NTP differ by less.
pub const CLOCK_SLACK: Duration = Duration::from_secs(1);

/// Dead letters that one transaction moves or purges: it takes tens of milliseconds and blocks nothing for longer.
pub const REDRIVE_ROWS_MAX: usize = 500;

/// Dead letters redriven per second by default: the receiver that refused them may not bear more.
pub const REDRIVE_PER_SECOND: u32 = 1_000;

/// Dead letters that wait for the application's callbacks, some hundred bytes each. Further ones are only in the table.
pub const DEAD_LETTER_CALLBACKS_QUEUE_MAX: usize = 1_024;

/// Dead letters that a callback thread handles in one turn. A shutdown waits for one turn at most.
pub const DEAD_LETTER_CALLBACKS_BATCH_MAX: usize = 64;

/// Errors kept on a row: enough to see a pattern, few enough that a failing row does not grow.
pub const ERRORS_KEPT_MAX: usize = 10;

/// Bytes of one kept error's text.
pub const ERROR_TEXT_BYTES_MAX: usize = 1_024;

/// As much of a text as [`ERROR_TEXT_BYTES_MAX`] allows, in whole characters.
pub(crate) fn cut_error_text(text: &str) -> &str {
    let fits = (0..=ERROR_TEXT_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..fits.unwrap_or(0)]
}

/// Rows of one multi-row INSERT on MySQL and SQLite. Larger calls take several, because both limit the binds of a
/// statement (65,535 and 32,766). So do calls of other sizes than 1, 4, 16, 64 and 256: connections prepare each text,
/// and servers limit how many there are. PostgreSQL binds arrays and takes any number.
pub const ENQUEUE_ROWS_MAX: usize = 256;

/// Bytes of the messages of one multi-row INSERT, but always one message: half of MariaDB's default packet size (16
/// MiB).
pub const ENQUEUE_BYTES_MAX: usize = 8 << 20;

/// The largest inline message. Larger ones are read by confirm like every other, so a full queue of 16,384 holds at
/// most 64 MiB.
pub const INLINE_BYTES_MAX: usize = 4 << 10;

/// How many messages of a transaction the hook keeps inline, so that an open transaction holds at most 256 KiB. Reading
/// more in one statement costs little per row.
pub const INLINE_ROWS_MAX: usize = 64;

/// Refs that a connection's hook keeps for one transaction; the rest is left to the sweeper. The queue could not take
/// more anyway.
pub const HOOK_REFS_MAX: usize = 16_384;

/// How long a message of a process without a relay may stay in the table before the process logs a warning. A relay elsewhere takes it
/// within its poll interval, or a little later if it is just being deployed.
pub const UNSENT_AFTER: Duration = Duration::from_secs(10);

/// The shortest time between two such checks: a statement a minute costs nothing.
pub const UNSENT_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// The last second with a year of four digits, counted from 1970: RFC 3339 has no others.
pub const RFC_3339_AGE_MAX: Duration = Duration::from_secs(253_402_300_799);

/// Receipts that wait at a time. Each takes some hundred bytes. Beyond, a receipt is answered with `Later` at once.
pub const RECEIPTS_MAX: usize = 100_000;
