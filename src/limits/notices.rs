//! Limits of notices, by which relays wake each other.

use std::time::Duration;

/// How long commits to other nodes' lanes are collected for one statement: at most fifty statements a second per node,
/// however many transactions commit, and no message waits longer for its notice than for its broker.
pub const NOTICE_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes of one notice: PostgreSQL refuses 8,000.
pub const NOTICE_BYTES_MAX: usize = 7_999;

/// Lanes on one line of a notice. At 26 bytes each at most, they fit beside the longest name of a topic.
pub const NOTICE_LANES_MAX: usize = 250;

/// The first pause after the notice connection was lost; doubles up to [`NOTICE_RETRY_MAX`]. Meanwhile the poll finds
/// the rows.
pub const NOTICE_RETRY_MIN: Duration = Duration::from_secs(1);

/// The longest pause, for a server that never accepts one: at this rate, trying costs nothing.
pub const NOTICE_RETRY_MAX: Duration = Duration::from_secs(60);

/// How often a node sends itself a notice to test its connection: rarely enough for an idle system, and often enough to
/// notice a connection that a firewall dropped.
pub const NOTICE_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// How long it waits for its own notice, which takes a millisecond on a working connection.
pub const NOTICE_ECHO_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a libpq connection is polled for notices, because it cannot report them by itself: a check of its socket,
/// without a round trip.
pub const NOTICE_POLL_INTERVAL: Duration = Duration::from_millis(10);
