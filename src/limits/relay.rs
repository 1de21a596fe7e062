//! Limits of the relay.

use std::time::Duration;

/// Rows that go to a transport in one call: enough for large requests, few enough that the first is not delayed. The
/// bookkeeping of a hundred rows takes a third of a millisecond.
pub const SEND_BATCH_ROWS_MAX: usize = 100;

/// The longest grace of a shutdown; longer ones are cut to this. A day, because `Duration::MAX` cannot be added to an
/// instant.
pub const SHUTDOWN_GRACE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The grace of [`Relay::run_until`](crate::relay::Relay::run_until), and of a consumer's: below the 30 s that orchestrators give a process, and above the
/// time in which a healthy broker takes all messages that may be in flight.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(20);

/// How often a relay shows that its runtime polls its tasks. Once a second costs nothing and is soon enough.
pub const RELAY_BEAT_INTERVAL: Duration = Duration::from_secs(1);

/// After this long without such a sign a relay counts as stalled. A runtime that is only busy is late by less.
pub const RELAY_STALLED_AFTER: Duration = Duration::from_secs(10);

/// Concurrent polls of due rows. Together with the statements of one transport with default limits, a relay uses up to six
/// connections.
pub const POLLS_AT_ONCE: usize = 1;

/// Concurrent confirms (reads of handed-over rows, which prove their COMMIT) of one transport.
pub const CONFIRMS_AT_ONCE: usize = 1;

/// Concurrent statements of one ordered topic: one reads its lanes, one reads single rows, and one renews the lanes. If there are
/// too few connections, they wait for the other statements.
pub const LANE_CALLS_AT_ONCE: usize = 3;

/// A relay knows the database's clock from its polls. The error of a reading grows by a thousandth of its age: two clocks under NTP
/// drift apart no faster, while both are being corrected. So a poll that waited a second for its
/// connection replaces no good reading, and a clock that is set is followed with the next quick poll.
pub const DATABASE_CLOCK_AGING: u32 = 1_000;

/// A relay counts its backlog no sooner than this many times the duration of the last count: it uses 2 % of a database core at
/// most, also where the count times out.
pub const BACKLOG_PAUSE_FACTOR: u32 = 50;

/// From so many panics in a row on, a task counts as failing: one or two may be about a message that has since moved on.
pub const TASK_PANICS_MAX: u32 = 5;

/// How long a task must run for its earlier panics to count no more.
pub const TASK_RECOVERED_AFTER: Duration = Duration::from_secs(60);

/// How long the poller may take for one turn before it counts as stuck, beyond the poll interval. Its statements time out after
/// five seconds each, or after a minute or two where a store is configured so, and a slow database is no reason for a restart.
pub const POLLER_STUCK_AFTER: Duration = Duration::from_secs(300);

/// How often a failure that repeats is logged as a warning. In between it is logged as DEBUG.
pub const WARNING_REPEAT_INTERVAL: Duration = Duration::from_secs(60);

/// How many different failures of one task are each logged as a warning in that time.
pub const WARNING_TEXTS_MAX: usize = 8;

/// Connections that a relay needs besides those of its claims. A claim keeps its connection until its messages have outcomes; all other
/// statements are short and can share one.
pub const CONNECTIONS_BESIDE_CLAIMS_MIN: usize = 1;

/// Bounds and times of one relay. Each field has a method of the same name that sets it.
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::Limits;
/// let limits = Limits::default().poll_interval(Duration::from_millis(500)).claim_workers(4);
/// assert!(limits.lease_duration > limits.claim_window_duration);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How long a leased row belongs to its holder. 30 s outlasts a broker's leader election and the delivery time-out;
    /// a crash in mid-send delays those rows by as much.
    pub lease_duration: Duration,
    /// Safety distance before the end of a lease: round trips and clock reads fit into it many times.
    pub lease_margin_duration: Duration,
    /// How long a claim transaction stays open for outcomes after its rows are read. In the healthy case all outcomes
    /// arrive within milliseconds; more than 250 ms would hold back vacuum and pin a connection during an outage.
    pub claim_window_duration: Duration,
    /// How long after its begin a claim may send the rows it has locked; the database ends an abandoned claim a second
    /// later. Rows read later are given back, and the next claim is half as large. A claim of 2,000 rows takes some 10
    /// ms next to its database, and a hundred times that on busy processors, over a slow line or from another
    /// continent: 2 s. A longer lease would keep a stalled process's rows from the others for longer.
    pub claim_lease_duration: Duration,
    /// Rows of one claim. 2,000 drain a backlog a tenth faster than 1,000, because two workers then wait less for each
    /// other's database and broker; [`claim_bytes_max`](Self::claim_bytes_max) bounds the memory.
    pub claim_rows_max: usize,
    /// Bytes of one claim, so that rows of 50 kB do not take 50 MB a batch.
    pub claim_bytes_max: usize,
    /// Claims open at once, per transport. Two overlap sending with reading (127,000 against 75,000 msg/s); a third
    /// gains nothing. If transports shared workers, each worker would spend a claim window on the slowest transport.
    pub claim_workers: usize,
    /// Committed rows that wait for their confirm, the read that proves their COMMIT, per transport: the id of each, or the row itself if it is inline. A queue of 16,384 that
    /// drains at all is empty within half the staleness.
    pub queue_rows_max: usize,
    /// Rows of one confirm: beyond 500, the cost per row no longer falls.
    pub confirm_rows_max: usize,
    /// How long a confirm lingers for more rows while the processors are the limit, if the relay's own trials show that
    /// it helps. Rows that arrive meanwhile share one read and one request to the broker, which saves
    /// the application more than it costs the row. With 5 ms instead of 10 ms, an application beside a Kafka on the same
    /// processors commits 5 % fewer transactions. Zero: it never lingers.
    pub confirm_linger_max: Duration,
    /// Messages in flight in all: sent, but not settled. 20,000 keep a broker at full speed and bound the memory.
    ///
    /// Several transports have equal shares, so that a slow or silent one takes nothing from the others. A transport
    /// that needs less ([`in_flight_max`](crate::transport::Transport::in_flight_max)) leaves the rest to the others.
    /// The shares are fixed: at full speed a transport holds two claims and a confirm batch, 4,500, which is below its
    /// share with up to four transports. Only a stalled one would fill more.
    pub in_flight_max: usize,
    /// Bytes in flight in all, in equal shares. With rows of 50 kB this bounds the memory, not the count.
    pub in_flight_bytes_max: usize,
    /// Rows of one settle.
    pub settle_rows_max: usize,
    /// How long the settler lingers before it writes a small batch. Each write is a commit, and nobody waits for it; the
    /// price is a few more duplicates after a crash. In 50 ms a batch grows to 400 rows at 8,000 rows a second, where a
    /// row costs a tenth of what it costs alone, and to 60 rows at 1,500.
    pub settle_linger_duration: Duration,
    /// Settles at once: one collects while the other writes.
    pub settle_workers: usize,
    /// The longest sleep of the poller while nothing is due: bounds how late a row of another node is seen. 1.1 s, so
    /// that an idle relay sends at most one statement a second, including its prunes and counts of the backlog, and two more for each
    /// ordered topic.
    pub poll_interval: Duration,
    /// Slack of the watermark. Ordinary polls see a row that commits up to this long after its `due_at` (which is the topic's
    /// staleness after its enqueue). Only the rare full scan finds a later one. 3 s is about how long a claim can keep a row locked
    /// ([`claim_lease_duration`](Self::claim_lease_duration), plus the second after which the database ends it). Not
    /// more: if an old snapshot keeps deleted rows, each poll and the first claim of each traversal walk over the rows of
    /// this time. With 3 s at 8,300 rows a second, that is 0.6 times the pages of the claim itself.
    pub watermark_slack_duration: Duration,
    /// How often leases are checked for those near their end.
    pub extend_interval: Duration,
    /// First wait between probes after the breaker opened; doubles up to
    /// [`probe_interval_max`](Self::probe_interval_max).
    pub probe_interval_min: Duration,
    /// Longest wait between probes: bounds how long after its return a broker is used again.
    pub probe_interval_max: Duration,
    /// How long the relay backs off from a topic that the broker refuses (unknown, not authorized) before it tries once
    /// more.
    pub topic_back_off_duration: Duration,
    /// How long a node owns a lane of an ordered topic without renewing it. Renewed after a third of it. A crash delays
    /// the lane by this and by [`poll_interval`](Self::poll_interval). A lane that is not fenced waits for the delivery
    /// time-out and [`lease_margin_duration`](Self::lease_margin_duration), too.
    pub lane_lease_duration: Duration,
    /// How long a node's broker may be down, or its reads of lanes fail, before it leaves its lanes to the other nodes,
    /// if there are any: longer than an election takes.
    pub lane_yield_duration: Duration,
    /// How long such a node sleeps before it tries again.
    pub lane_sleep_duration: Duration,
    /// How often a relay removes expired rows. Two minutes are often enough, because retentions end with a day. A check that
    /// finds nothing costs a handful of statements, or one without a history.
    pub prune_interval: Duration,
    /// The most live rows, and the most dead letters, that [`Relay::backlog`](crate::relay::Relay::backlog) counts per
    /// topic. Measured: 1 to 2 µs each, so at most 20 ms per topic.
    pub backlog_count_max: usize,
    /// How often a relay counts its backlog for the gauges. Zero: only [`Relay::backlog`](crate::relay::Relay::backlog) counts. 30 s
    /// is in time for an alert on minutes, and keeps an idle relay at one statement a second: with empty tables a count is
    /// one statement (on PostgreSQL, otherwise, one in a transaction with settings of its own). Every relay counts: with
    /// twenty on the same tables the database counts each 1.5 s, which takes 20 ms for each topic that is at its bound. Give
    /// some of them a longer interval, or zero, if that is too much.
    pub backlog_interval: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(30),
            lease_margin_duration: Duration::from_millis(500),
            claim_window_duration: Duration::from_millis(250),
            claim_lease_duration: Duration::from_secs(2),
            claim_rows_max: 2_000,
            claim_bytes_max: 8 << 20,
            claim_workers: 2,
            queue_rows_max: 16_384,
            confirm_rows_max: 500,
            confirm_linger_max: Duration::from_millis(10),
            in_flight_max: 20_000,
            in_flight_bytes_max: 32 << 20,
            settle_rows_max: 1_000,
            settle_linger_duration: Duration::from_millis(50),
            settle_workers: 2,
            poll_interval: Duration::from_millis(1_100),
            watermark_slack_duration: Duration::from_secs(3),
            extend_interval: Duration::from_millis(250),
            probe_interval_min: Duration::from_millis(100),
            probe_interval_max: Duration::from_secs(1),
            topic_back_off_duration: Duration::from_secs(10),
            lane_lease_duration: Duration::from_secs(30),
            lane_yield_duration: Duration::from_secs(10),
            lane_sleep_duration: Duration::from_secs(60),
            prune_interval: Duration::from_secs(120),
            backlog_count_max: 10_000,
            backlog_interval: Duration::from_secs(30),
        }
    }
}

/// A short linger, within [`Limits::confirm_linger_max`], if it is measured to help while the processors are busy.
/// Without any, an application that could commit 5,000 messages a second beside Kafka on two slow processors committed
/// 4,500.
pub const CONFIRM_LINGER_SHORT: Duration = Duration::from_millis(2);

/// How often the relay reads how long its thread waits for a processor. A read takes 10 µs.
pub const RUN_QUEUE_INTERVAL: Duration = Duration::from_millis(10);

/// The weight of the last read in the moving average, as 1/n: load that begins is noticed within 100 ms, and a single
/// late thread is not.
pub const RUN_QUEUE_SMOOTHING: u32 = 8;

/// From this wait on, the processors are the limit. Measured on two: 10 to 25 µs at 200 to 2,000 messages a second, 85
/// to 130 at 5,000 and at full load, with 10 to 20 % of the time idle.
pub const RUN_QUEUE_BUSY: Duration = Duration::from_micros(40);

/// Below this wait, the processors are no longer the limit.
pub const RUN_QUEUE_IDLE: Duration = Duration::from_micros(25);

/// How long the processors must be busy before a linger is tried: a pause of the broker is shorter.
pub const LINGER_TRIAL_DELAY: Duration = Duration::from_secs(1);

/// The length of a window with one linger. Only its second half counts: rows that were delayed by the
/// window before arrive in the first.
pub const LINGER_TRIAL_WINDOW: Duration = Duration::from_millis(150);

/// How many windows with a longer linger are compared with as many with a shorter one: 2.4 seconds in all, or half of
/// that if the result is clear.
pub const LINGER_TRIAL_PAIRS: u32 = 8;

/// In how many pairs more rows must arrive with the longer linger: by chance, 6 of 8 happen once in 7 trials. The gain
/// must be met, too.
pub const LINGER_TRIAL_WINS_MIN: u32 = 6;

/// The factor by which more rows must arrive with a short linger than with none. Rows on a schedule of their own differ
/// by less than 2 %.
pub const LINGER_SHORT_GAIN_MIN: f64 = 1.03;

/// The factor by which more rows must arrive with a long linger than with a short one. Beside a Kafka on the same
/// processors it was 1.14. Higher than [`LINGER_SHORT_GAIN_MIN`], because a long linger delays five times as much.
pub const LINGER_LONG_GAIN_MIN: f64 = 1.10;

/// How long a result counts at first.
pub const LINGER_TRIAL_VALID_MIN: Duration = Duration::from_secs(10);

/// How long it counts after repeated equal results: a trial then takes 2 to 4 % of the time.
pub const LINGER_TRIAL_VALID_MAX: Duration = Duration::from_secs(60);

/// How long rows are counted to see whether the load that gained from lingers is over: longer than a pause of the
/// broker.
pub const LINGER_LOAD_WINDOW: Duration = Duration::from_secs(1);

/// Below this share of those rows it is over: processors that were filled by them have room for so few.
pub const LINGER_LOAD_SHARE_MIN: f64 = 0.5;

/// How often a relay that found no table of paused topics checks for it again: a statement a minute costs nothing, and
/// no restart is needed after the migration.
pub const PAUSE_TABLE_RECHECK: Duration = Duration::from_secs(60);

/// Calls that a blocking relay runs concurrently, and as many that may queue. Each call occupies a thread that waits.
pub const BLOCKING_CALLS_MAX: usize = 64;

/// How often a caller that waits for a blocking relay's response checks whether the relay's thread still runs. A request
/// that is sent while the thread ends can stay in the channel, neither taken nor dropped, without a response.
pub const BLOCKING_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// How long the thread of a blocking relay waits at its end for running statements, which take milliseconds. It does not
/// wait longer for a dead-letter callback.
pub const THREAD_END_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest that a relay's start waits for a transport to create or check its topics: creation in a slow cluster and
/// a few look-ups. A slower transport counts as down, and the others do not wait for it. Probes have the same bound.
pub const PREPARE_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest time from hand-over to outcome in a memory transport, by default: below the lease, like the time-out of
/// Kafka's client.
pub const MEMORY_DELIVERY_TIMEOUT: Duration = Duration::from_secs(25);

/// How often a settle is retried for delivered rows that somebody has locked, or that the database refuses to remove.
/// Meanwhile they only count as messages in flight.
pub const SETTLE_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The first wait before a failed write is retried: a deadlock is over at once. Doubles up to
/// [`WRITE_RETRY_MAX`].
pub const WRITE_RETRY_MIN: Duration = Duration::from_millis(50);

/// The longest of those waits: a database that is down is not tried more often.
pub const WRITE_RETRY_MAX: Duration = Duration::from_secs(5);

/// The longest wait before a failed poll or claim is repeated, however far apart polls are: if it was a deadlock, it is over, and nobody
/// else looks at the rows before the next poll.
pub const READ_RETRY_MAX: Duration = Duration::from_secs(5);

/// The shortest sleep between two polls, so that rows that become due one after the other do not cost a statement each:
/// one poll finds all that become due in between.
pub const POLL_INTERVAL_MIN: Duration = Duration::from_millis(5);

/// How long a transport gets messages one by one after it panicked: twice [`TEMPORARY_WAIT_MAX`](super::TEMPORARY_WAIT_MAX),
/// within which the message that caused the panic is retried. In a batch it would fail its neighbours again. Sending one by one only costs the client some of its batching.
pub const SEND_ONE_BY_ONE_DURATION: Duration = Duration::from_secs(60);

/// How much longer than [`delivery_timeout`](crate::transport::Transport::delivery_timeout) a message may be without an
/// outcome before the relay assumes that none will come, and stops extending its lease. Five minutes: a transport that
/// is only slower than it states, or whose process was suspended, must not cause a second send.
pub const OUTCOME_GRACE: Duration = Duration::from_secs(300);

/// A full scan pauses for this many times its duration: it uses 2 % of a database core at most. It finds rows that were
/// committed late, or before a clock went back, and walks over every dead index entry. A scan of 0.3 ms replaces each
/// poll; with 3 million such entries it takes 0.4 s and runs every 20 s.
pub const FULL_SCAN_PAUSE_FACTOR: u32 = 50;

/// How long the poller waits for a full scan before it polls from the watermark at the same time. Usually the scan takes
/// less than a millisecond and is the only statement.
pub const FULL_SCAN_WAIT_MAX: Duration = Duration::from_millis(100);

/// How far back a full scan goes after one timed out. Each further time-out divides it by four, down to
/// [`FULL_SCAN_DEPTH_MIN`]. So the scan still finds the late commits of an hour.
pub const FULL_SCAN_DEPTH: Duration = Duration::from_secs(3_600);

/// The shortest depth, and how far back a relay polls at its start until it knows a watermark: 300,000 messages at
/// 5,000 a second, which take 50 ms.
pub const FULL_SCAN_DEPTH_MIN: Duration = Duration::from_secs(60);

/// How long after such a time-out the relay tries again from the beginning.
pub const FULL_SCAN_RETRY_INTERVAL: Duration = Duration::from_secs(900);

/// The furthest that a poll looks ahead or back; rows due later are not reported. A thousand years, which every
/// database can add to its clock.
pub const POLL_AHEAD_MAX: Duration = Duration::from_secs(1_000 * 365 * 24 * 3_600);

/// How long a task that panicked waits before it restarts, because it may meet the same cause again.
pub const TASK_RESTART_DELAY: Duration = Duration::from_secs(1);
