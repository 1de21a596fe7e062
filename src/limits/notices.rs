//! Of notices, by which relays wake each other.

use std::time::Duration;

/// How long commits to lanes of others are collected for one statement: at most fifty a second of a node, however many
/// transactions commit, and no message waits longer for it than for its broker.
pub const NOTICE_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes of one notice: PostgreSQL refuses 8,000.
pub const NOTICE_BYTES_MAX: usize = 7_999;

/// Lanes on one line of a notice. Of 26 bytes at most each, they fit into it beside the longest name of a topic.
pub const NOTICE_LANES_MAX: usize = 250;

/// The first pause after the connection for notices was lost, doubled each time up to [`NOTICE_RETRY_MAX`]: by the poll,
/// messages go on meanwhile.
pub const NOTICE_RETRY_MIN: Duration = Duration::from_secs(1);

/// The longest pause, for a server that never gives one: what it costs to ask is nothing at this rate.
pub const NOTICE_RETRY_MAX: Duration = Duration::from_secs(60);

/// How often a node listens for itself, to find out that its connection hears nothing: two statements an hour and node
/// would be too few to notice a firewall that forgot it, two a second too many for an idle system.
pub const NOTICE_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// How long it waits for its own notice, which takes a millisecond where anything is heard at all.
pub const NOTICE_ECHO_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a connection of libpq is asked for notices, which cannot say by itself that there are any: a look at its
/// socket, without a round trip.
pub const NOTICE_POLL_INTERVAL: Duration = Duration::from_millis(10);
