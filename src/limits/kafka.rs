//! Of Kafka's transport, and what its client is held to.

use std::time::Duration;

/// What Kafka's client may take beyond `message.timeout.ms` until it says so: it looks for timed-out messages once a
/// second, and a request in flight is taken back before its messages are looked at.
pub const KAFKA_TIMEOUT_SLACK: Duration = Duration::from_secs(2);

/// The longest a probe waits for a Kafka broker. Waiting longer finds a broker that comes back sooner than asking
/// again would; this bounds how long the relay's end can be delayed by a probe.
pub const KAFKA_PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// One turn of such a probe: the client says nothing while it waits for a broker, so it is asked in short ones.
pub const KAFKA_PROBE_POLL_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest one request for creating, describing or looking up topics waits for Kafka.
pub const KAFKA_ADMIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a Kafka topic that was just made is looked for, until the brokers know it: some hundredths of a second.
pub const KAFKA_ADMIN_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// For how long a Kafka broker may not have heard of a topic that is there: as the client itself waits for that
/// (`topic.metadata.propagation.max.ms`). Also what a start with a topic that is missing takes to say so.
pub const KAFKA_TOPIC_PROPAGATION_MAX: Duration = Duration::from_secs(5);

/// How often the partition counts of known Kafka topics are read again: a partition that was added is used within it.
pub const KAFKA_PARTITION_COUNT_INTERVAL: Duration = Duration::from_secs(60);

/// The least time between two look-ups of one Kafka topic, so that messages for a topic that is not there do not
/// become requests.
pub const KAFKA_LOOKUP_INTERVAL_MIN: Duration = Duration::from_millis(250);

/// For how long Kafka's client may be without any connection before messages are refused, where no attempt to connect
/// has failed: a broker closes idle connections, and opening one takes some tenths of a second at most.
pub const KAFKA_RECONNECT_GRACE: Duration = Duration::from_secs(1);

/// The longest a look-up in the background waits for Kafka. Short, because it keeps a dropped transport alive, and the
/// next message asks again.
pub const KAFKA_LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

/// For how long a Kafka partition may take nothing, while others do, before no more is handed to the client for it.
/// Observed: in a burst of 20,000 on an overloaded machine one of three partitions waits a second for its turn.
pub const KAFKA_PARTITION_STALL: Duration = Duration::from_secs(3);

/// The same where a connection broke of late, or the partition has no leader. Above a round trip to another continent;
/// and at a full drain of 75,000 messages a second with a third of the partitions gone, 12,500 messages go there in it,
/// where 20,000 may be in flight. In a second all of them would.
pub const KAFKA_PARTITION_STALL_SUSPECT: Duration = Duration::from_millis(500);

/// For how long a broken Kafka connection makes partitions suspect that stand still: an election takes less.
pub const KAFKA_SUSPICION_DURATION: Duration = Duration::from_secs(30);

/// Messages that a stalled Kafka partition may hold: enough that it goes on by itself once it can.
pub const KAFKA_PARTITION_STALLED_MAX: u32 = 64;

/// What Kafka's transactional ids begin with, where nothing else is given.
pub const KAFKA_FENCE_PREFIX: &str = "diesel-outbox";

/// The longest that fencing a lane waits for Kafka: for a coordinator that is elected anew, and the end of what another left open.
pub const KAFKA_FENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest that the end of a Kafka transaction is waited for, once all of it is with the brokers.
pub const KAFKA_COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Messages of one Kafka transaction. Its end costs three round trips and a record in each partition it wrote to, so that
/// more than some hundreds gain little.
pub const KAFKA_TRANSACTION_MESSAGES_MAX: usize = 1_000;

/// Bytes of one Kafka transaction: what goes again where one of its messages is refused.
pub const KAFKA_TRANSACTION_BYTES_MAX: usize = 4 << 20;

/// How long a Kafka lane waits before it looks whether it was answered. The client's wait does not end with an answer, so that this
/// is what each transaction waits too long. It counts whole milliseconds and spins through what is left of one: a tenth above one,
/// it sleeps for that one.
pub const KAFKA_LANE_POLL: Duration = Duration::from_micros(1_100);

/// How long a Kafka lane listens to its client before it says why it ended: the cause may be behind log lines.
pub const KAFKA_LANE_DRAIN: Duration = Duration::from_millis(10);

/// The longest a Kafka lane takes to hear all that its client has to say about the end of a transaction: some microseconds. One
/// that is not done by then is taken for a client whose connections broke.
pub const KAFKA_LANE_EVENTS_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a Kafka lane with nothing to send looks at what its client has to say.
pub const KAFKA_LANE_IDLE: Duration = Duration::from_secs(1);
