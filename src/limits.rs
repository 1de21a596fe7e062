//! Every bound and default, each with its argument.
//!
//! The values are defaults of [`Limits`] and can be changed per relay; the constants bound what is fixed.

use std::time::Duration;

/// Staleness `t` of a topic: how long a new row belongs to the process that wrote it before a sweeper may take it.
///
/// Three seconds cover a commit, the confirm read and a send under load many times over, and bound what a crash delays.
pub const STALENESS: Duration = Duration::from_secs(3);

/// The least staleness: below it a garbage pause or a slow COMMIT makes two holders of one row an everyday event.
pub const STALENESS_MIN: Duration = Duration::from_secs(2);

/// Attempts before a message is dead: with the default back-off these span about an hour.
pub const ATTEMPTS_MAX: u32 = 12;

/// The longest wait after a temporary failure (time-out, leader election, quota), which says nothing about the message.
pub const TEMPORARY_WAIT_MAX: Duration = Duration::from_secs(30);

/// The longest that a receiver's own word (`Retry-After`) puts off a message or a topic. A day's maintenance is not known
/// to the minute, and a receiver that asks for a year by mistake must not silence a topic for one.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// Bytes of payload, key and headers together: 1 MB is what Kafka's brokers take by default (`message.max.bytes`).
pub const MESSAGE_BYTES_MAX: usize = 1_000_000;

/// Characters of a topic: Kafka's own bound, and the width of the column on MySQL.
pub const TOPIC_CHARS_MAX: usize = 249;

/// Characters of a kind; the width of the column on MySQL.
pub const KIND_CHARS_MAX: usize = 255;

/// Bytes of a key: the width of the column on MySQL, and far above any identifier.
pub const KEY_BYTES_MAX: usize = 1_024;

/// Bytes of a header's name: far above any name in use; brokers send names with every record.
pub const HEADER_NAME_BYTES_MAX: usize = 255;

/// The longest delay of a message: a century. Beyond it somebody has mistaken a unit; and the instants of every database
/// reach that far.
pub const DELAY_MAX: Duration = Duration::from_secs(36_525 * 24 * 3_600);

/// By how much the clocks of application and database may differ until a message that is delivered at a moment may find the
/// scout asleep, and wait for the next poll. Clocks that are kept by NTP differ by less.
pub const CLOCK_SLACK: Duration = Duration::from_secs(1);

/// Failures kept on a row: enough to see a pattern, few enough that a failing row does not grow.
pub const ERRORS_KEPT_MAX: usize = 10;

/// Bytes of one kept failure's text.
pub const ERROR_TEXT_BYTES_MAX: usize = 1_024;

/// Rows of one multi-row INSERT on MySQL and SQLite; larger calls take several, because both bound the binds of a
/// statement (65,535 and 32,766). PostgreSQL binds arrays and takes any number.
pub const ENQUEUE_ROWS_MAX: usize = 256;

/// Bytes of the messages of one multi-row INSERT, but always one message: half of the packet that MariaDB takes by
/// default (16 MiB).
pub const ENQUEUE_BYTES_MAX: usize = 8 << 20;

/// The largest message that `outbox.transaction` hands to the relay itself; larger ones are read by confirm like every
/// other, so that a full queue of 16,384 holds at most 64 MiB.
pub const CARRIED_BYTES_MAX: usize = 4 << 10;

/// Rows that go to a transport in one call. So many that a client can make large requests of them, so few that the first
/// is not long kept back: the books of a hundred rows take a third of a millisecond.
pub const SEND_GROUP_ROWS_MAX: usize = 100;

/// Refs a connection's hook keeps for one transaction: what is beyond goes to the sweeper. More than the queue takes
/// could not be handed over anyhow.
pub const HOOK_REFS_MAX: usize = 16_384;

/// Rows that the locks of keys take at most on MySQL: two keys in one bucket wait for each other, which at 100 open
/// transactions happens to every eightieth of them.
pub const KEY_LOCK_BUCKETS: i64 = 8_192;

/// Lanes of an ordered topic, where none are given: enough for sixteen nodes, few enough that looking at all costs nothing.
pub const LANES: u16 = 16;

/// The most lanes of an ordered topic: a read of all of them stays one statement of a millisecond or two.
pub const LANES_MAX: u16 = 1_024;

/// Rows of one page of a lane, read without what they carry.
pub const LANE_PAGE_ROWS_MAX: usize = 1_000;

/// Rows of one read of several lanes, of which each gets its part.
pub const LANE_READ_ROWS_MAX: usize = 4_000;

/// The least part, so that a read of very many lanes still gets on.
pub const LANE_PAGE_ROWS_MIN: usize = 50;

/// Rows that wait in a lane's memory, below which more are read: a page takes a millisecond, half of one lasts ten.
pub const LANE_WAITING_LOW: usize = 500;

/// Rows of one key that wait in memory, 24 bytes each, sent one after the other; the others are read again after these.
pub const LANE_KEY_WAITING_MAX: usize = 100;

/// Keys of one lane with something to send or blocked, 200 bytes each: 20 MB. Beyond, nothing new is read until some are done.
pub const LANE_KEYS_MAX: usize = 100_000;

/// Keys of a lane whose last message is remembered, to tell rows that became visible too late. Only counted by it.
pub const LANE_RECENT_KEYS_MAX: usize = 4_096;

/// How far a lane is read again where a database does not tell the id of a new row (MySQL), which may be a late one.
pub const LANE_WAKE_SLACK_IDS: i64 = 1_000;

/// How long a transaction may be open behind its enqueue to an ordered topic and keep the order of its keys, whichever
/// process it is of: so far back each page of a lane is read, at no cost where rows are settled. docs/ordering.md has more.
pub const LANE_OPEN_DURATION: Duration = Duration::from_secs(2);

/// Rows that one page of a lane reads again, 100 bytes each. Where more are that young, new ones wait until they are older.
pub const LANE_AGAIN_ROWS_MAX: usize = 10_000;

/// Steps in which that follows the clock: of a sixteenth of it.
pub const LANE_FLOORS_MAX: usize = 16;

/// How soon a row in hand from an earlier time is looked at again, and a lane of which much is read again.
pub const LANE_RECHECK: Duration = Duration::from_millis(100);

/// Bounds and times of one relay.
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::Limits;
/// let limits = Limits { poll_interval: Duration::from_millis(500), ..Limits::default() };
/// assert!(limits.lease_duration > limits.claim_window_duration);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How long a held row belongs to its holder. 30 s outlasts a broker's leader election and the delivery time-out;
    /// it is also what a crash in mid-send delays those rows.
    pub lease_duration: Duration,
    /// Safety distance kept from the end of a term: round trips and clock reads fit into it many times.
    pub term_margin_duration: Duration,
    /// How long a claim transaction stays open for outcomes. 250 ms: in the healthy case all outcomes are there after
    /// milliseconds; a longer one would hold back vacuum and pin a connection during an outage.
    pub claim_window_duration: Duration,
    /// Rows of one claim. 2,000 drain a backlog a tenth faster than 1,000, because two workers then wait less for each
    /// other's database and broker; [`claim_bytes_max`](Self::claim_bytes_max) bounds the memory.
    pub claim_rows_max: usize,
    /// Bytes of one claim, so that rows of 50 kB do not take 50 MB a batch.
    pub claim_bytes_max: usize,
    /// Claims open at once, for each transport. Two overlap sending with reading (75,000 against 127,000 msg/s); a third
    /// gains nothing. Workers shared by transports would spend a claim window each on the slowest of them.
    pub claim_workers: usize,
    /// Refs waiting for confirm, for each transport. At 16,384 a queue that drains at all drains within t/2.
    pub queue_refs_max: usize,
    /// Rows of one confirm: beyond 500 the cost per row no longer falls.
    pub confirm_rows_max: usize,
    /// The longest that a confirm waits until everything handed over before is answered: 5 ms. Rows that come meanwhile share one read
    /// and one request to the broker, which saves both more than it costs the row. A row that comes alone waits for
    /// nothing, and neither does a full group.
    pub confirm_interval_max: Duration,
    /// How many rows make an interval worth waiting for, answered or not. Below 20 in 5 ms, 4,000 a second, each is
    /// confirmed and sent as it comes; above, and from then on down to half of that, it would take the processors from the
    /// business.
    pub confirm_group_rows_min: usize,
    /// Messages in flight in all, sent but not settled. 20,000 keep a broker at full speed and bound the memory.
    ///
    /// Several transports have equal shares of it, so that one that answers slowly or not at all takes nothing from the
    /// others; what a transport has no use for ([`in_flight_max`](crate::transport::Transport::in_flight_max)) goes to
    /// the rest. Fixed shares and no common pool: at full speed a transport holds two claims and a confirm group, 4,500,
    /// which is below its share for up to four of them, and what lies beyond is only ever filled by one that stands still.
    pub in_flight_max: usize,
    /// Bytes in flight in all, in equal shares; with rows of 50 kB this bounds the memory, not the count.
    pub in_flight_bytes_max: usize,
    /// Rows of one settle.
    pub settle_rows_max: usize,
    /// How long the settler waits for company before it writes a small group. Nobody waits for the row to go, while each
    /// write is a commit; the price is a few more duplicates after a crash. 50 ms make groups of 400 at 8,000 rows a
    /// second, where a row costs a tenth of what it costs alone, and of 60 at 1,500.
    pub settle_linger_duration: Duration,
    /// Settles at once: one that groups while the other writes.
    pub settle_workers: usize,
    /// The longest sleep of the sweeper while nothing is due: bounds how late a row written by another node is seen.
    pub poll_interval: Duration,
    /// Slack of the watermark: a row whose `due_at` was set this long before its COMMIT is still seen at once.
    pub watermark_slack_duration: Duration,
    /// How often the sweeper forgets its watermark and reads from the beginning, for what the slack did not cover.
    pub full_sweep_interval: Duration,
    /// Client-side deadline of each statement; then its connection is discarded.
    pub statement_timeout: Duration,
    /// How often held rows are looked through for leases near their end.
    pub extend_interval: Duration,
    /// First wait of a probe after the breaker opened; doubles up to [`probe_interval_max`](Self::probe_interval_max).
    pub probe_interval_min: Duration,
    /// Longest wait between probes: bounds how long a broker is back before it is used again.
    pub probe_interval_max: Duration,
    /// How long a topic that the broker refuses (unknown, not authorized) is left alone before one more try.
    pub topic_park_duration: Duration,
    /// How long a node owns a lane of an ordered topic without a sign of life: what a crash delays the lane, besides the
    /// delivery time-out. Renewed after a third of it.
    pub lane_lease_duration: Duration,
    /// For how long a node's broker may be down, or its reads of lanes fail, before it leaves its lanes to the other nodes,
    /// if there are any: longer than an election takes.
    pub lane_yield_duration: Duration,
    /// How long such a node sleeps before it tries again.
    pub lane_sleep_duration: Duration,
    /// Rows that [`Relay::backlog`](crate::relay::Relay::backlog) counts of a topic, and dead letters of it. Measured:
    /// 1 to 2 µs each, so 20 ms for a topic that has as many, and only then.
    pub backlog_count_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(30),
            term_margin_duration: Duration::from_millis(500),
            claim_window_duration: Duration::from_millis(250),
            claim_rows_max: 2_000,
            claim_bytes_max: 8 << 20,
            claim_workers: 2,
            queue_refs_max: 16_384,
            confirm_rows_max: 500,
            confirm_interval_max: Duration::from_millis(5),
            confirm_group_rows_min: 20,
            in_flight_max: 20_000,
            in_flight_bytes_max: 32 << 20,
            settle_rows_max: 1_000,
            settle_linger_duration: Duration::from_millis(50),
            settle_workers: 2,
            poll_interval: Duration::from_secs(1),
            watermark_slack_duration: Duration::from_secs(10),
            full_sweep_interval: Duration::from_secs(60),
            statement_timeout: Duration::from_secs(5),
            extend_interval: Duration::from_millis(250),
            probe_interval_min: Duration::from_millis(100),
            probe_interval_max: Duration::from_secs(1),
            topic_park_duration: Duration::from_secs(10),
            lane_lease_duration: Duration::from_secs(30),
            lane_yield_duration: Duration::from_secs(10),
            lane_sleep_duration: Duration::from_secs(60),
            backlog_count_max: 10_000,
        }
    }
}

/// How many times as long as a read of committed rows took the relay rests before the next, within
/// [`Limits::confirm_interval_max`]: reading then takes at most a quarter of one connection's time, wherever the database is.
/// At 1 ms that makes groups of 7 at 1,400 rows a second in place of 3; beside the database the rest is below the
/// resolution of a timer.
pub const CONFIRM_REST: u32 = 3;

/// What Kafka's client may take beyond `message.timeout.ms` until it says so: it looks for timed-out messages once a
/// second, and a request in flight is taken back before its messages are looked at.
pub const KAFKA_TIMEOUT_SLACK: Duration = Duration::from_secs(2);

/// The longest that a relay's start waits for a transport to make or check its topics: creation in a slow cluster and a few
/// look-ups. One that takes longer counts as away, and the others do not wait for it.
pub const PREPARE_TIMEOUT: Duration = Duration::from_secs(20);

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

/// Hosts that are remembered; beyond, those of which nothing is known are forgotten. Bounds the memory where each message
/// has a URL of its own.
pub const HTTP_HOSTS_MAX: usize = 10_000;
