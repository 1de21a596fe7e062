//! Of transports: what their clients are held to.

use std::time::Duration;

/// What Kafka's client may take beyond `message.timeout.ms` until it says so: it looks for timed-out messages once a
/// second, and a request in flight is taken back before its messages are looked at.
pub const KAFKA_TIMEOUT_SLACK: Duration = Duration::from_secs(2);

/// The longest a probe waits for a Kafka broker. Waiting longer finds a broker that comes back sooner than asking
/// again would; this bounds how long the relay's end can be delayed by a probe.
pub const KAFKA_PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The longest one request for creating, describing or looking up topics waits for Kafka.
pub const KAFKA_ADMIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the partition counts of known Kafka topics are read again: a partition that was added is used within it.
pub const KAFKA_COUNTS_INTERVAL: Duration = Duration::from_secs(60);

/// The least time between two look-ups of one Kafka topic, so that messages for a topic that is not there do not
/// become requests.
pub const KAFKA_LOOK_UP_INTERVAL_MIN: Duration = Duration::from_millis(250);

/// For how long Kafka's client may be without any connection before messages are refused, where no attempt to connect
/// has failed: a broker closes idle connections, and opening one takes some tenths of a second at most.
pub const KAFKA_RECONNECT_GRACE: Duration = Duration::from_secs(1);

/// The longest a look-up in the background waits for Kafka. Short, because it keeps a dropped transport alive, and the
/// next message asks again.
pub const KAFKA_LOOK_UP_TIMEOUT: Duration = Duration::from_secs(1);

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

/// How often a Kafka lane with nothing to send looks at what its client has to say.
pub const KAFKA_LANE_IDLE: Duration = Duration::from_secs(1);

/// Half messages whose transactions are over and whose broker is not told yet. What is more the broker asks about.
pub const HALF_ENDED_MAX: usize = 20_000;

/// Ended half messages that are looked up, and whose marks are removed, in one statement.
pub const HALF_GROUP_MAX: usize = 500;

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

/// For how long messages without key avoid a RocketMQ broker that did not answer: as long as one request to it may hang, and
/// what failed by then waits for its back-off.
pub const ROCKETMQ_BROKER_REST: Duration = Duration::from_secs(5);

/// From hand-over to outcome at most, by default: four steps of a request's length that may follow each other, and eight
/// seconds of waiting for a turn. With the term's margin below the lease.
pub const ROCKETMQ_DELIVERY_TIMEOUT: Duration = Duration::from_secs(20);

/// The largest payload for RocketMQ, by default: what its brokers take by default.
pub const ROCKETMQ_MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Messages that the RocketMQ transport holds, by default: as many as a relay has in flight.
pub const ROCKETMQ_IN_FLIGHT_MAX: usize = 20_000;

/// Messages of one RocketMQ request. Measured: 100 in one request are 40 times as many a second as 100 requests, 1,000 are
/// hardly more than 500.
pub const ROCKETMQ_BATCH_MESSAGES_MAX: usize = 1_000;

/// Bytes of one RocketMQ request of several messages: a quarter of what brokers take, so that no batch is refused for its size.
pub const ROCKETMQ_BATCH_BYTES_MAX: usize = 1 << 20;

/// Bytes of a RocketMQ message's properties: a broker stores 32,767 and adds a few of its own.
pub const ROCKETMQ_PROPERTIES_BYTES_MAX: usize = 32_000;

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
pub const ROCKETMQ_CHECKS_HELD_MAX: u32 = 2_000;

/// For how long probes may fail until RocketMQ's client is replaced, in case that it is what does not find back.
pub const ROCKETMQ_REPLACE_AFTER: Duration = Duration::from_secs(10);

/// Requests under way to one host at once. Beyond 64 a receiver on the same network takes no more a second; one that takes
/// fewer at once makes the others wait there in place of here.
pub const HTTP_IN_FLIGHT_PER_HOST_MAX: usize = 64;

/// Messages that an HTTP transport asks the relay for, for each request under way: so many wait that no request is missing
/// while the next claim is read, and so few that they have their turn long before they time out.
pub const HTTP_WAITING_PER_REQUEST: usize = 8;

/// Messages in an HTTP transport at most; more are busy. What a relay has in flight at most by default.
pub const HTTP_QUEUE_MAX: usize = 20_000;

/// The longest a request and the part of its answer that counts may take. Receivers are told to answer at once and to work
/// later; those that do not mostly do within ten seconds.
pub const HTTP_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest a message waits for its turn at a host; then it goes back to where it came from, unsent and unwritten. With
/// the time-out it stays below the lease.
pub const HTTP_WAIT_MAX: Duration = Duration::from_secs(10);

/// How often an HTTP transport looks for messages that waited too long, and for hosts whose pause is over.
pub const HTTP_LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// What an HTTP transport may take beyond its times until it says so: two looks.
pub const HTTP_TIMEOUT_SLACK: Duration = Duration::from_millis(500);

/// The longest that connecting to a host may take, its name's resolution and TLS included: a second's loss and
/// repetition on a slow way fit in.
pub const HTTP_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Bytes of an answer that are read: more than any receiver has to say. Beyond, its connection is closed.
pub const HTTP_ANSWER_BYTES_MAX: usize = 64 << 10;

/// For how long the rest of an answer is read once it is known to be good or bad. That keeps the connection for the next
/// message, and is not worth waiting for.
pub const HTTP_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Requests to one host that may go without an answer, one after the other, before it is taken to be down. One or two are
/// lost by any restart.
pub const HTTP_HOST_FAILURES_MAX: u32 = 8;

/// How long a host that is down is left alone at first, where its transport has others; doubles up to
/// [`HTTP_HOST_PAUSE_MAX`].
pub const HTTP_HOST_PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest that a host that is down is left alone: bounds how long it is back before it is used again.
pub const HTTP_HOST_PAUSE_MAX: Duration = Duration::from_secs(30);

/// The longest a probe waits for an answer.
pub const HTTP_PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Hosts that are remembered, beside those that messages wait for or are under way to; beyond, the oldest are forgotten, those
/// that are down or asked for a pause included. Bounds the memory where each message has a URL of its own.
pub const HTTP_HOSTS_MAX: usize = 10_000;

/// Among how many of the oldest hosts one is sought to be forgotten, so that a new host costs microseconds. Where all of them
/// are in use, the next new host looks at others.
pub const HTTP_FORGET_LOOKS_MAX: usize = 32;
