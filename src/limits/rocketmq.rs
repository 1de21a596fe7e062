//! Limits of the RocketMQ transport and of half messages, and settings of its client.

use std::time::Duration;

/// Half messages whose transactions are over and whose broker is not told yet. The broker asks about any beyond that.
pub const HALF_ENDED_MAX: usize = 20_000;

/// Ended half messages that are looked up, and whose marks are removed, in one statement.
pub const HALF_BATCH_MAX: usize = 500;

/// Brokers are told the end of this many half messages at once.
pub const HALF_ENDS_AT_ONCE_MAX: usize = 64;

/// How long the mark of a half message is kept if the broker is not known to have ended it. Above the 72 hours after
/// which a broker forgets the message itself (`fileReservedTime`), and so no longer asks.
pub const HALF_MARK_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How often old marks of half messages are removed: only crashes leave any.
pub const HALF_PRUNE_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Old marks of half messages that one statement removes.
pub const HALF_PRUNE_ROWS_MAX: usize = 1_000;

/// The longest that a RocketMQ broker may take for one request, by default: as in its own clients.
pub const ROCKETMQ_REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// The shortest time that it may be set to: below, a flush to a slow disk would count as an outage.
pub const ROCKETMQ_REQUEST_TIMEOUT_MIN: Duration = Duration::from_millis(100);

/// How long messages without a key avoid a RocketMQ broker that did not answer: as long as one request to it may hang.
/// Messages that failed meanwhile wait for their back-off.
pub const ROCKETMQ_BROKER_BACK_OFF: Duration = Duration::from_secs(5);

/// The longest time from hand-over to outcome, by default: four consecutive steps of a request's time-out each, and
/// eight seconds of waiting for a turn. With `lease_margin_duration`, this is below the lease.
pub const ROCKETMQ_DELIVERY_TIMEOUT: Duration = Duration::from_secs(20);

/// The largest payload for RocketMQ, by default: its brokers' own default.
pub const ROCKETMQ_MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Characters of a RocketMQ topic, including its namespace: its brokers' own bound.
pub const ROCKETMQ_TOPIC_CHARS_MAX: usize = 127;

/// Characters of a RocketMQ producer group or namespace: its brokers' own bound.
pub const ROCKETMQ_GROUP_CHARS_MAX: usize = 120;

/// The shortest delay of a RocketMQ broker, and its step.
pub const ROCKETMQ_DELAY_MIN: Duration = Duration::from_secs(1);

/// The longest delay, by its brokers' default (`timerMaxDelaySec`): they refuse longer ones.
pub const ROCKETMQ_DELAY_MAX: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// Messages that the RocketMQ transport holds, by default: as many as a relay has in flight.
pub const ROCKETMQ_IN_FLIGHT_MAX: usize = 20_000;

/// Messages of one RocketMQ request. Measured: 100 in one request reach 40 times the rate of 100 requests; 1,000 hardly
/// more than 500.
pub const ROCKETMQ_BATCH_MESSAGES_MAX: usize = 1_000;

/// Bytes of one RocketMQ request of several messages: a quarter of what brokers take, so that no batch is refused for its size.
pub const ROCKETMQ_BATCH_BYTES_MAX: usize = 1 << 20;

/// Bytes of a RocketMQ message's properties: a broker stores 32,767 and adds a few of its own.
pub const ROCKETMQ_PROPERTIES_BYTES_MAX: usize = 32_000;

/// Bytes of a RocketMQ message's properties without its headers, and of its frame in a batch, at most about.
pub const ROCKETMQ_FRAME_BYTES_MAX: usize = 512;

/// From which size RocketMQ's client compresses a payload: above any payload, so that consumers in all languages read
/// exactly what was written, whatever they can decompress.
pub const ROCKETMQ_COMPRESS_BYTES_MIN: u32 = 64 << 20;

/// What RocketMQ's client may take beyond its own time-out before the call is abandoned.
pub const ROCKETMQ_CALL_SLACK: Duration = Duration::from_millis(500);

/// How often the queues of a RocketMQ topic in use are read again: as often as its other clients read them.
pub const ROCKETMQ_ROUTE_INTERVAL: Duration = Duration::from_secs(30);

/// The least time between two readings of a RocketMQ topic's queues after failures.
pub const ROCKETMQ_ROUTE_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// How often the transaction listener sends heartbeats to the RocketMQ brokers, and checks for new ones: until then, a
/// restarted broker has nobody to ask. The shortest interval of its client library; producers that nobody asks take 30
/// seconds.
pub const ROCKETMQ_HEARTBEAT: Duration = Duration::from_secs(10);

/// Half messages that are looked up at once for a RocketMQ broker that asks: each takes a connection of the store.
pub const ROCKETMQ_CHECKS_AT_ONCE_MAX: u32 = 4;

/// Questions about half messages that may queue; beyond, they are dropped, and the broker asks again.
pub const ROCKETMQ_CHECKS_QUEUED_MAX: u32 = 2_000;

/// How long the transaction listener waits before it tries a RocketMQ cluster that is down again.
pub const ROCKETMQ_LISTEN_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How long its start may take, besides what its topics take. Far above what a cluster that is down costs: beyond it,
/// the library hangs.
pub const ROCKETMQ_LISTEN_TIMEOUT: Duration = Duration::from_secs(60);

/// How long probes may fail before RocketMQ's client is replaced, in case the client itself cannot reconnect.
pub const ROCKETMQ_REPLACE_AFTER: Duration = Duration::from_secs(10);

/// How long the tasks of RocketMQ's client library may take to end once nobody needs them.
pub const ROCKETMQ_END_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a broker holds a consumer's request for messages while its queue has none. A queue that goes to another member leaves one such
/// request behind.
pub const ROCKETMQ_PULL_WAIT: Duration = Duration::from_secs(5);

/// Messages of one answer: brokers give no more, and no more than 256 KiB unless a single message is larger.
pub const ROCKETMQ_PULL_MESSAGES_MAX: usize = 32;

/// Answers of a queue that wait in a consumer, so that it asks for the next ones meanwhile.
pub const ROCKETMQ_PULLS_AHEAD: usize = 2;

/// How often a member of a group asks a broker who the others are. Each change is looked at twice before it counts.
pub const ROCKETMQ_MEMBERS_INTERVAL: Duration = Duration::from_secs(1);

/// How often a member of a group asks the name servers for the queues of its topics.
pub const ROCKETMQ_QUEUES_INTERVAL: Duration = Duration::from_secs(5);

/// The bytes of a queue's name, which is its broker's with its number: as many as the column `partition_name` holds on MySQL.
pub const ROCKETMQ_QUEUE_NAME_BYTES_MAX: usize = 64;
