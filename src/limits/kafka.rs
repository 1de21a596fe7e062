//! Limits of the Kafka transport, and settings of its client.

use std::time::Duration;

/// What Kafka's client may take beyond `message.timeout.ms` to report a time-out: it checks once a second, and takes
/// back a request in flight before it checks the request's messages.
pub const KAFKA_TIMEOUT_SLACK: Duration = Duration::from_secs(2);

/// The longest that a probe waits for a Kafka broker. Bounded, because a running probe delays the relay's shutdown.
pub const KAFKA_PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// One turn of such a probe. The client cannot be interrupted while it waits for a broker, so the turns are short.
pub const KAFKA_PROBE_POLL_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest that one request to create, describe or look up topics waits for Kafka.
pub const KAFKA_ADMIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How often to check for a Kafka topic that was just created, until the brokers know it: they take some hundredths of
/// a second.
pub const KAFKA_ADMIN_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// For how long a Kafka broker may not yet know an existing topic: as long as the client itself waits for it
/// (`topic.metadata.propagation.max.ms`). It is also how long a start takes to report a missing topic.
pub const KAFKA_TOPIC_PROPAGATION_MAX: Duration = Duration::from_secs(5);

/// How often the partition counts of known Kafka topics are read again: an added partition is used within this time.
pub const KAFKA_PARTITION_COUNT_INTERVAL: Duration = Duration::from_secs(60);

/// The shortest time between two look-ups of one Kafka topic, so that messages for a missing topic do not each become a
/// request.
pub const KAFKA_LOOKUP_INTERVAL_MIN: Duration = Duration::from_millis(250);

/// For how long Kafka's client may have no connection before messages are refused, if no attempt to connect has failed:
/// brokers close idle connections, and opening one takes some tenths of a second at most.
pub const KAFKA_RECONNECT_GRACE: Duration = Duration::from_secs(1);

/// The longest that a background look-up waits for Kafka. Short, because it keeps a dropped transport alive, and the
/// next message asks again.
pub const KAFKA_LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a Kafka partition may accept nothing while others do, before the client gets no more messages for it.
/// Observed: in a burst of 20,000 messages on an overloaded machine, one of three partitions waits a second for its turn.
pub const KAFKA_PARTITION_STALL: Duration = Duration::from_secs(3);

/// The same if a connection broke recently, or the partition has no leader. Above a round trip to another continent. At
/// a full drain of 75,000 messages a second with a third of the partitions gone, 12,500 messages go there in this time,
/// of 20,000 that may be in flight. In a second, all of them would.
pub const KAFKA_PARTITION_STALL_SUSPECT: Duration = Duration::from_millis(500);

/// How long a broken Kafka connection makes stalled partitions suspect: an election takes less.
pub const KAFKA_SUSPICION_DURATION: Duration = Duration::from_secs(30);

/// Messages that a stalled Kafka partition may hold: enough that it continues by itself once it can.
pub const KAFKA_PARTITION_STALLED_MAX: u32 = 64;

/// The prefix of Kafka's transactional ids by default.
pub const KAFKA_FENCE_PREFIX: &str = "diesel-outbox";

/// The longest that fencing a lane waits for Kafka: for the election of a coordinator, and for the end of a transaction
/// that another producer left open.
pub const KAFKA_FENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest wait for the end of a Kafka transaction, once all of its messages are with the brokers.
pub const KAFKA_COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Messages of one Kafka transaction. Its end costs three round trips and a record in each partition it wrote to: with a millisecond
/// for each, 3 µs for each of a thousand messages.
pub const KAFKA_TRANSACTION_MESSAGES_MAX: usize = 1_000;

/// Bytes of one Kafka transaction: what is sent again if one of its messages is refused.
pub const KAFKA_TRANSACTION_BYTES_MAX: usize = 4 << 20;

/// librdkafka's default of `message.max.bytes`.
pub const KAFKA_RECORD_BYTES_MAX: usize = 1_000_000;

/// The prefix of the topics in which exactly-once lanes note what they delivered.
pub const KAFKA_PROGRESS_PREFIX: &str = "outbox-progress.";

/// Rows that an exactly-once lane has delivered and not yet settled. Each transaction carries their ids, 24 bytes each: half of
/// what a broker takes in one record by default. A lane with more waits for the database.
pub const KAFKA_PROGRESS_ROWS_MAX: usize = 20_000;

/// Records before the end of a lane's progress that are read first. The last one is enough; each transaction, even an aborted
/// one, takes two.
pub const KAFKA_PROGRESS_READ: i64 = 16;

/// How often a lane without room looks whether rows have been settled: it goes through all of them.
pub const KAFKA_PROGRESS_POLL: Duration = Duration::from_millis(20);

/// The longest that an exactly-once lane takes to read what was delivered.
pub const KAFKA_PROGRESS_TIMEOUT: Duration = Duration::from_secs(10);

/// The size of a file of a progress topic. Only closed files are compacted, so a new owner may have to read this much.
pub const KAFKA_PROGRESS_SEGMENT_BYTES: usize = 16 << 20;

/// How long a Kafka lane waits before it checks for answers. An answer does not end the client's wait, so each
/// transaction loses this much. The client sleeps for whole milliseconds only and spins for the rest, so this is just
/// above one millisecond.
pub const KAFKA_LANE_POLL: Duration = Duration::from_micros(1_100);

/// How long a Kafka lane reads its client's events before it reports why it ended: the cause may follow log lines.
pub const KAFKA_LANE_DRAIN: Duration = Duration::from_millis(10);

/// The longest that a Kafka lane takes to read all client events about the end of a transaction; normally some
/// microseconds. Beyond, it assumes that the client's connections broke.
pub const KAFKA_LANE_EVENTS_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a Kafka lane with nothing to send reads its client's events.
pub const KAFKA_LANE_IDLE: Duration = Duration::from_secs(1);
