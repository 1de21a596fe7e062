//! Of RocketMQ's transport and of half messages, and what its client is held to.

use std::time::Duration;

/// Half messages whose transactions are over and whose broker is not told yet. What is more the broker asks about.
pub const HALF_ENDED_MAX: usize = 20_000;

/// Ended half messages that are looked up, and whose marks are removed, in one statement.
pub const HALF_BATCH_MAX: usize = 500;

/// Half messages that brokers are told the end of at once.
pub const HALF_ENDS_AT_ONCE_MAX: usize = 64;

/// For how long the mark of a half message is kept where the broker was not heard to have ended it. Above the 72 hours after
/// which a broker forgets the message itself (`fileReservedTime`), and so asks no more.
pub const HALF_MARK_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How often old marks of half messages are looked for: there are none but those of crashes.
pub const HALF_PRUNE_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Old marks of half messages that one statement removes.
pub const HALF_PRUNE_ROWS_MAX: usize = 1_000;

/// The longest that a RocketMQ broker may take for one request, by default: its clients' own.
pub const ROCKETMQ_REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// The least that it may be set to: below, a flush to a slow disk is an outage.
pub const ROCKETMQ_REQUEST_TIMEOUT_MIN: Duration = Duration::from_millis(100);

/// For how long messages without key avoid a RocketMQ broker that did not answer: as long as one request to it may hang, and
/// what failed by then waits for its back-off.
pub const ROCKETMQ_BROKER_BACK_OFF: Duration = Duration::from_secs(5);

/// From hand-over to outcome at most, by default: four steps of a request's length that may follow each other, and eight
/// seconds of waiting for a turn. With the term's margin below the lease.
pub const ROCKETMQ_DELIVERY_TIMEOUT: Duration = Duration::from_secs(20);

/// The largest payload for RocketMQ, by default: what its brokers take by default.
pub const ROCKETMQ_MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Characters of a RocketMQ topic, its namespace included, as its brokers have it.
pub const ROCKETMQ_TOPIC_CHARS_MAX: usize = 127;

/// Characters of a RocketMQ producer group or namespace, as its brokers have it.
pub const ROCKETMQ_GROUP_CHARS_MAX: usize = 120;

/// The shortest time that a RocketMQ broker holds a message, and the step in which it counts.
pub const ROCKETMQ_DELAY_MIN: Duration = Duration::from_secs(1);

/// The longest, by its brokers' default (`timerMaxDelaySec`): they refuse what is above.
pub const ROCKETMQ_DELAY_MAX: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// Messages that the RocketMQ transport holds, by default: as many as a relay has in flight.
pub const ROCKETMQ_IN_FLIGHT_MAX: usize = 20_000;

/// Messages of one RocketMQ request. Measured: 100 in one request are 40 times as many a second as 100 requests, 1,000 are
/// hardly more than 500.
pub const ROCKETMQ_BATCH_MESSAGES_MAX: usize = 1_000;

/// Bytes of one RocketMQ request of several messages: a quarter of what brokers take, so that no batch is refused for its size.
pub const ROCKETMQ_BATCH_BYTES_MAX: usize = 1 << 20;

/// Bytes of a RocketMQ message's properties: a broker stores 32,767 and adds a few of its own.
pub const ROCKETMQ_PROPERTIES_BYTES_MAX: usize = 32_000;

/// Bytes of a RocketMQ message's properties without its headers, and of what frames it in a batch, at most about.
pub const ROCKETMQ_FRAME_BYTES_MAX: usize = 512;

/// From which size RocketMQ's client would compress a payload: above any. Consumers in other languages then read what was
/// written whatever they can decompress.
pub const ROCKETMQ_COMPRESS_BYTES_MIN: u32 = 64 << 20;

/// What RocketMQ's client may take beyond its own time-out until it is given up.
pub const ROCKETMQ_CALL_SLACK: Duration = Duration::from_millis(500);

/// How often the queues of a RocketMQ topic in use are read again: as often as its other clients do it.
pub const ROCKETMQ_ROUTE_INTERVAL: Duration = Duration::from_secs(30);

/// The least time between two readings of a RocketMQ topic's queues after failures.
pub const ROCKETMQ_ROUTE_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// How often whoever answers for half messages greets the RocketMQ brokers, and looks for new ones: a broker that began again
/// has nobody to ask until then. The least that its client library takes; producers that nobody asks take 30 seconds.
pub const ROCKETMQ_HEARTBEAT: Duration = Duration::from_secs(10);

/// Half messages that are looked up at once for a RocketMQ broker that asks: each takes a connection of the store's.
pub const ROCKETMQ_CHECKS_AT_ONCE_MAX: u32 = 4;

/// Questions about half messages that wait; what is more is dropped, and asked again.
pub const ROCKETMQ_CHECKS_QUEUED_MAX: u32 = 2_000;

/// How long a RocketMQ cluster that is away is left alone until whoever answers for half messages tries it again.
pub const ROCKETMQ_LISTEN_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How long that may take to begin, besides what its topics take. Far above what a cluster that is away costs: what ends this way
/// is a library that hangs.
pub const ROCKETMQ_LISTEN_TIMEOUT: Duration = Duration::from_secs(60);

/// For how long probes may fail until RocketMQ's client is replaced, in case that it is what does not find back.
pub const ROCKETMQ_REPLACE_AFTER: Duration = Duration::from_secs(10);

/// How long the tasks of RocketMQ's client library may take to end, once nobody needs them.
pub const ROCKETMQ_END_TIMEOUT: Duration = Duration::from_secs(2);
