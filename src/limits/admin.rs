//! Limits of what people read through [`Admin`](crate::admin::Admin).

/// Rows of the table of live messages that one page reads at most if no index serves its filter: tens of milliseconds, and a small
/// part of the 5 s that a statement may take, also from a disk.
pub const LIVE_ROWS_READ_MAX: usize = 10_000;

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

/// Topics that an error names at most: a list that a person still reads, with a statement for each.
pub const LIVE_TOPICS_SHOWN_MAX: usize = 100;
