//! Of the relay.

use std::time::Duration;

/// Rows that go to a transport in one call. So many that a client can make large requests of them, so few that the first
/// is not long kept back: the books of a hundred rows take a third of a millisecond.
pub const SEND_BATCH_ROWS_MAX: usize = 100;

/// The longest grace of a shutdown: more counts as this. A day, so that `Duration::MAX` is an instant of this century.
pub const SHUTDOWN_GRACE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

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
    /// How long a claim transaction stays open for outcomes once its rows are read. 250 ms: in the healthy case all outcomes are there after
    /// milliseconds; a longer one would hold back vacuum and pin a connection during an outage.
    pub claim_window_duration: Duration,
    /// For how long from its begin a claim may send what it has locked; the database ends it a second later where nobody does.
    /// What is read later is given back, and the next claim is half as large. 2 s: a claim of 2,000 rows takes some 10 ms beside its
    /// database, and on processors that are busy, over a slow line or from another continent a hundred times that. A longer one would
    /// keep rows of a process that stands still from the others for longer.
    pub claim_term_duration: Duration,
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
    /// How long a confirm waits for company where the processors are the limit and that is seen to help ([`LINGER_TRIAL_PAIRS`]): 10 ms. Rows
    /// that come meanwhile share one read and one request to the broker, which saves the business more than it costs the row. At 5 ms the
    /// business keeps 0.05 less of its transactions beside a Kafka on the same processors. Zero: it never waits.
    pub confirm_linger_max: Duration,
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
    /// The longest sleep of the sweeper while nothing is due: bounds how late a row written by another node is seen. 1.1 s: an idle
    /// relay then sends less than one statement a second, with what it removes and renews each minute.
    pub poll_interval: Duration,
    /// Slack of the watermark: a row whose `due_at` was set this long before its COMMIT is still seen at once. Later is a row
    /// that commits that long after it was due, which is t behind its enqueue, and is found by a look from the beginning
    /// ([`FULL_SCAN_PAUSE_FACTOR`]). 3 s, which is about how long a claim can keep a row locked at most
    /// ([`claim_term_duration`](Self::claim_term_duration) and the second after which the database ends it). Not more, because each look, and
    /// the first claim of each pass, goes over the rows of this time where somebody's old snapshot keeps what was deleted: of 3 s at 8,300 a
    /// second, 0.6 times the pages of the claim itself.
    pub watermark_slack_duration: Duration,
    /// How often held rows are looked through for leases near their end.
    pub extend_interval: Duration,
    /// First wait of a probe after the breaker opened; doubles up to [`probe_interval_max`](Self::probe_interval_max).
    pub probe_interval_min: Duration,
    /// Longest wait between probes: bounds how long a broker is back before it is used again.
    pub probe_interval_max: Duration,
    /// How long a topic that the broker refuses (unknown, not authorized) is left alone before one more try.
    pub topic_back_off_duration: Duration,
    /// How long a node owns a lane of an ordered topic without a sign of life: what a crash delays the lane, besides
    /// [`poll_interval`](Self::poll_interval) and, on one that is not fenced, the delivery time-out and
    /// [`term_margin_duration`](Self::term_margin_duration). Renewed after a third of it.
    pub lane_lease_duration: Duration,
    /// For how long a node's broker may be down, or its reads of lanes fail, before it leaves its lanes to the other nodes,
    /// if there are any: longer than an election takes.
    pub lane_yield_duration: Duration,
    /// How long such a node sleeps before it tries again.
    pub lane_sleep_duration: Duration,
    /// How often a relay looks for what is kept no longer. A minute: retentions end with a day, and a look costs a handful of
    /// statements that find nothing; one, where there is no history.
    pub prune_interval: Duration,
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
            claim_term_duration: Duration::from_secs(2),
            claim_rows_max: 2_000,
            claim_bytes_max: 8 << 20,
            claim_workers: 2,
            queue_refs_max: 16_384,
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
            prune_interval: Duration::from_secs(60),
            backlog_count_max: 10_000,
        }
    }
}

/// How long a batch lingers where the processors are busy, within [`Limits::confirm_linger_max`]. Without it an application that could
/// commit 5,000 messages a second beside Kafka on two processors committed 4,500.
pub const CONFIRM_LINGER_SHORT: Duration = Duration::from_millis(2);

/// How often the relay asks how long its thread waits for a processor. To ask takes 10 µs.
pub const RUN_QUEUE_INTERVAL: Duration = Duration::from_millis(10);

/// What it was told last counts for this part of what it goes by: a load that begins is seen within 100 ms, and a single thread that was
/// late is not.
pub const RUN_QUEUE_SMOOTHING: u32 = 8;

/// From such a wait on the processors are the limit. Measured on two: 10 to 25 µs at 200 to 2,000 messages a second, 85 to 130 at 5,000 and
/// at full load, with 10 to 20 % of the time idle.
pub const RUN_QUEUE_BUSY: Duration = Duration::from_micros(40);

/// Below such a wait they no longer are.
pub const RUN_QUEUE_IDLE: Duration = Duration::from_micros(25);

/// How long the processors must be busy before the long linger is tried: a pause of the broker is shorter.
pub const LINGER_TRIAL_DELAY: Duration = Duration::from_secs(1);

/// How long batches linger long, or short, before the other is tried. Only its second half counts: whoever was held up in the window before is late
/// in the first.
pub const LINGER_TRIAL_WINDOW: Duration = Duration::from_millis(150);

/// How many windows with a long linger are compared with as many with short ones: 2.4 seconds in all, or half of that where it is plain.
pub const LINGER_TRIAL_PAIRS: u32 = 8;

/// How many of them must have brought more rows: by chance 6 of 8 do once in 7 times. [`LINGER_TRIAL_GAIN_MIN`] has to be met, too.
pub const LINGER_TRIAL_WINS_MIN: u32 = 6;

/// How many times as many rows must arrive with a long linger. They brought 14 % beside a Kafka on the same processors; rows on a schedule of
/// their own differ by less than 2 %.
pub const LINGER_TRIAL_GAIN_MIN: f64 = 1.10;

/// How long a finding counts at first, ..
pub const LINGER_TRIAL_VALID_MIN: Duration = Duration::from_secs(10);

/// .. and in the end, when it has been the same each time: a trial then takes 2 to 4 % of the time.
pub const LINGER_TRIAL_VALID_MAX: Duration = Duration::from_secs(60);

/// How often a relay that found no table of paused topics looks for it again: a statement a minute is nothing, and whoever has
/// just run the migration need not restart anything.
pub const PAUSE_TABLE_RECHECK: Duration = Duration::from_secs(60);

/// Calls of a blocking relay that are answered side by side, and as many that wait for that: each has a thread that waits for
/// its answer, and more are no help to anybody.
pub const BLOCKING_CALLS_MAX: usize = 64;

/// How often a caller who waits for a blocking relay's answer looks whether its thread still runs. A request that is sent while the
/// thread ends can stay in the channel, neither taken nor dropped, and its answer would be waited for in vain.
pub const BLOCKING_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// How long the thread of a blocking relay waits at its end for statements under way, which take milliseconds. A listener to dead
/// letters that takes longer is left behind.
pub const THREAD_END_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest that a relay's start waits for a transport to make or check its topics: creation in a slow cluster and a few
/// look-ups. One that takes longer counts as away, and the others do not wait for it.
pub const PREPARE_TIMEOUT: Duration = Duration::from_secs(20);

/// From hand-over to outcome at most of a transport into memory, by default: as this library sets Kafka's client, below the lease.
pub const MEMORY_DELIVERY_TIMEOUT: Duration = Duration::from_secs(25);

/// How often delivered rows are tried again that somebody holds locked, or that the database refuses to remove. Nothing waits
/// for them but their place among those in flight.
pub const SETTLE_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The first wait before a write is tried again that the database could not do: a deadlock is over at once. Doubles up to
/// [`WRITE_RETRY_MAX`].
pub const WRITE_RETRY_MIN: Duration = Duration::from_millis(50);

/// The longest of those waits: a database that is away is looked for no more often.
pub const WRITE_RETRY_MAX: Duration = Duration::from_secs(5);

/// The shortest sleep between two looks for what is due, so that rows due one after the other cost no statement each: what falls
/// due within it is found by one look.
pub const POLL_INTERVAL_MIN: Duration = Duration::from_millis(5);

/// How long messages go to a transport one by one after a call of it that panicked: what it panicked at is tried again within
/// [`TEMPORARY_WAIT_MAX`](super::TEMPORARY_WAIT_MAX) and a half, and in a group it would fail its neighbours once more. One by one they
/// cost a client some of its batches, and nothing else.
pub const SEND_ONE_BY_ONE_DURATION: Duration = Duration::from_secs(60);

/// For how much longer than [`delivery_timeout`](crate::transport::Transport::delivery_timeout) a message may be without an answer until
/// the relay goes by that there will be none, and extends its lease no more: the transport has forgotten it. Five minutes, because one that is
/// only slower than it says, or whose process stood still, would have it sent twice.
pub const ANSWER_GRACE: Duration = Duration::from_secs(300);

/// How many times as long as a look from the beginning took, the relay leaves it at looks from the watermark: 2 % of a core of the
/// database at most. Such a look finds what was committed late, or before a clock that went back, and walks over every index entry
/// that vacuum was kept from. One that takes 0.3 ms is each look; with 3 million such entries it takes 0.4 s, and is one in 20 s.
pub const FULL_SCAN_PAUSE_FACTOR: u32 = 50;

/// How long the relay waits for a look from the beginning before it looks from the watermark beside it. Where there is nothing in its
/// way it takes below a millisecond, and is the only statement.
pub const FULL_SCAN_WAIT_MAX: Duration = Duration::from_millis(100);

/// How far back the relay looks once a look from the beginning came to its deadline; a quarter of it each time that does, too, down to
/// [`FULL_SCAN_DEPTH_MIN`]. An hour of what was committed late, in place of none.
pub const FULL_SCAN_DEPTH: Duration = Duration::from_secs(3_600);

/// The least of that, and how far back a relay looks at its start until it knows a watermark: 300,000 messages at 5,000 a second, which
/// is 50 ms.
pub const FULL_SCAN_DEPTH_MIN: Duration = Duration::from_secs(60);

/// How long after such a deadline the relay tries again from the beginning.
pub const FULL_SCAN_RETRY_INTERVAL: Duration = Duration::from_secs(900);

/// The furthest that a look looks ahead or back: what is due later is told by none. A thousand years, which every database can add to
/// its clock.
pub const POLL_AHEAD_MAX: Duration = Duration::from_secs(1_000 * 365 * 24 * 3_600);

/// How long a task that panicked waits: what it panicked at may be the next thing it meets.
pub const TASK_RESTART_DELAY: Duration = Duration::from_secs(1);
