//! Limits of what people read and do through [`Admin`](crate::admin::Admin).

use std::time::Duration;

/// Rows of the table of live messages that one page reads at most if no index serves its filter: tens of milliseconds, and a small
/// part of the 5 s that a statement may take, also from a disk.
pub const LIVE_ROWS_READ_MAX: usize = 10_000;

/// Rows that one search for a message by its id reads at most, where no index has it: ten statements, and less than somebody waits for.
pub const LIVE_SEARCHED_MAX: usize = 100_000;

/// [`LIVE_ROWS_READ_MAX`] for dead letters.
pub const DEAD_LETTER_ROWS_READ_MAX: usize = 10_000;

/// Where the count of a topic's live messages in one state stops: a person acts no differently on more, and reading so many rows takes
/// tens of milliseconds.
pub const LIVE_COUNT_MAX: usize = 10_000;

/// Index ranges that one page reads at most, each with up to three statements of a millisecond: a topic has up to 1,024 lanes, and
/// each is a range of its own.
pub const LIVE_RANGES_READ_MAX: usize = 64;

/// Blocked keys of one page. Each takes a statement that reads [`BLOCKED_KEY_ROWS_READ_MAX`] rows before and as many behind the
/// message that blocks it, so a page reads 100,000 at most.
pub const BLOCKED_KEYS_MAX: usize = 50;

/// Rows of a lane on either side of a failed message that are read for its key. A relay has no more rows of a key in flight than
/// [`LANE_KEY_IN_FLIGHT_MAX`](super::LANE_KEY_IN_FLIGHT_MAX), so the first that failed is found among them unless ten other keys
/// have as many.
pub const BLOCKED_KEY_ROWS_READ_MAX: usize = 1_000;

/// Positions of dead letters or sent messages that one statement reads at most while they are counted: a few hundred kilobytes.
pub const POSITIONS_READ_MAX: usize = 5_000;

/// How far the time in a message id may be from the time at which the database enqueued it: clocks of hosts differ by seconds at most,
/// and a transaction does not stay open for so long. An hour of other messages more costs a scan little.
pub const MESSAGE_ID_SKEW_MAX: Duration = Duration::from_secs(3_600);

/// Topics that an error names at most: a list that a person still reads, with a statement for each.
pub const LIVE_TOPICS_SHOWN_MAX: usize = 100;

/// Characters of an actor's name that the audit keeps: what fits into an indexed column of MySQL.
pub const AUDIT_ACTOR_CHARS_MAX: usize = 255;

/// The steps of a canary redrive by default, before the rest: one message shows whether anything was mended, ten whether it was more
/// than luck, and a hundred whether the receiver bears it.
pub const CANARY_STEPS: &[usize] = &[1, 10, 100];

/// How long a step of a canary redrive waits by default until each of its messages was sent or dead-lettered again. Longer than a
/// relay of another process takes to find them and a broker to answer; short, because somebody waits for it.
pub const CANARY_OUTCOME_TIMEOUT: Duration = Duration::from_secs(60);

/// How soon a canary redrive looks for the outcome of its messages. The relay of the same process sends them within milliseconds.
pub const CANARY_POLL_INTERVAL_MIN: Duration = Duration::from_millis(20);

/// How rarely it looks in the end: each look reads the rows by their ids.
pub const CANARY_POLL_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Dead letters, and ids of waiting messages, that the report of a canary redrive has at most: people look at the first few, and a
/// payload may have megabytes.
pub const CANARY_REPORTED_MAX: usize = 100;
