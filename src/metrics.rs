//! Every metric: its name, kind, unit, labels, buckets and meaning.
//!
//! An exporter makes a summary of a histogram without buckets, and summaries of several processes cannot be added up. Give it
//! the [`buckets`](Metric::buckets):
//!
//! ```
//! use diesel_outbox::metrics;
//! use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
//!
//! let mut exporter = PrometheusBuilder::new();
//! for histogram in metrics::ALL.iter().filter(|metric| !metric.buckets.is_empty()) {
//!     exporter = exporter.set_buckets_for_metric(Matcher::Full(histogram.name.to_owned()), histogram.buckets)?;
//! }
//! # let _recorder = exporter.build_recorder();
//! # Ok::<_, metrics_exporter_prometheus::BuildError>(())
//! ```

// A test compares this list with `docs/operations.md`.

/// One metric.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Metric {
    /// Its name. One in seconds ends in `_seconds`; all others count things.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// Not public, because `metrics` has no stable version yet.
    unit: metrics::Unit,
    /// Its labels. A gauge of a relay among [several](crate::relay::Relays) also has the label `relay`. Each label has few values: those
    /// that the meaning lists, names that the application configured, or names in this crate. Only a gauge of the backlog also has the
    /// topics that are in the tables.
    pub labels: &'static [&'static str],
    /// The upper bounds of a histogram's buckets, in ascending order; empty for the other kinds.
    pub buckets: &'static [f64],
    /// Its meaning.
    pub help: &'static str,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// Every metric of the crate.
pub const ALL: &[Metric] = EVERY;

/// From a local broker's answer up to beyond every delivery time-out.
const SEND_BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Up to a day, so that an outage is visible.
const ENQUEUE_TO_ACK_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0,
    43_200.0, 86_400.0,
];

/// Of a store call: its time-out is 5 s by default.
const STATEMENT_BUCKETS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Of a handler's transaction: from one statement up to what delays a rebalance.
const CONSUME_BUCKETS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Rows of one statement, up to the largest claim by default.
const ROW_BUCKETS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0];

/// The buckets of a kind that may have none.
macro_rules! buckets {
    () => {
        &[]
    };
    ($buckets:ident) => {
        $buckets
    };
}

macro_rules! metrics {
    ($($constant:ident = $name:literal, $kind:ident $(($buckets:ident))?, $unit:ident, [$($label:ident),*], $help:literal;)+) => {
        /// The names. Users write them as texts, in dashboards and alerts.
        #[cfg_attr(not(feature = "_internals"), allow(unreachable_pub, dead_code))]
        pub(crate) mod names {
            $(#[doc = $help] pub const $constant: &str = $name;)+
        }
        pub(crate) use self::names::*;

        const EVERY: &[Metric] = &[
            $(Metric {
                name: $name,
                kind: MetricKind::$kind,
                unit: metrics::Unit::$unit,
                labels: &[$(stringify!($label)),*],
                buckets: buckets!($($buckets)?),
                help: $help,
            },)+
        ];
    };
}

metrics! {
    ENQUEUED = "outbox_enqueued_total", Counter, Count, [topic], "Rows that enqueue wrote, by `topic`; includes those rolled back later.";
    HANDED_OVER = "outbox_handed_over_total", Counter, Count, [topic], "Rows that the commit hook handed to the relay, by `topic`.";
    LEFT_TO_SWEEPER = "outbox_left_to_sweeper_total", Counter, Count, [reason], "Committed rows that no relay of this process took at once; a sweeper takes them. By `reason`: queue_full, stale, too_many, no_hook, no_relay, outage, confirm_failed, topic_waits, paused, unknown_topic.";
    CONFIRM_MISSED = "outbox_confirm_missed_total", Counter, Count, [], "Rows handed over and not found by their confirm, the read that proves their COMMIT: rolled back, not visible yet, or already claimed.";
    SENT = "outbox_sent_total", Counter, Count, [topic, transport, path], "Messages handed to the transport, by `topic` and `path`: inline, confirmed, swept or lane.";
    DELIVERED = "outbox_delivered_total", Counter, Count, [topic, transport, path], "Messages that the broker acknowledged, by `topic` and by the `path` of the acknowledged copy. The share sent directly: inline and confirmed, divided by all but lane.";
    FAILED = "outbox_failed_total", Counter, Count, [topic, transport, class], "Failed sends, by `topic` and `class`.";
    DEAD_LETTERED = "outbox_dead_lettered_total", Counter, Count, [topic, transport, reason], "Messages moved to the dead letters, by `topic` and `reason`: refused, attempts, poisoned.";
    RETRIED = "outbox_retried_total", Counter, Count, [topic, transport], "Messages sent again after a failure or under a later lease, by `topic`: the broker may have an earlier copy.";
    FINGERPRINT_UNKNOWN = "outbox_fingerprint_unknown_total", Counter, Count, [topic, transport], "Messages sent whose fingerprint none of the outbox's registered types of that kind has, by `topic`; the log names each fingerprint once.";
    LEASE_EXPIRED = "outbox_lease_expired_total", Counter, Count, [path], "Rows not sent because their lease was over, by `path`: another holder may have them.";
    LEASE_LOST = "outbox_lease_lost_total", Counter, Count, [], "Leased rows whose lease could not be extended, or whose outcome could not be written: a duplicate may follow.";
    HALF_MESSAGES = "outbox_half_messages_total", Counter, Count, [topic, outcome], "Half messages whose transaction ended in this process, by `topic` and `outcome`: committed, rolled_back, open, unreported. The broker asks about the last two.";
    HALF_CHECKS = "outbox_half_checks_total", Counter, Count, [topic, answer], "Check-backs of brokers about half messages, by `topic` and `answer`: commit, rollback, unknown.";
    CLAIM_FAILED = "outbox_claim_failed_total", Counter, Count, [], "Claims that did not commit.";
    SETTLE_MISSED = "outbox_settle_missed_total", Counter, Count, [found], "Delivered rows that were already gone when they were settled, by where they were `found`: dead_letter or nowhere.";
    SETTLE_RETRIED = "outbox_settle_retried_total", Counter, Count, [], "Settles that failed and were retried.";
    KEPT = "outbox_history_kept_total", Counter, Count, [topic, transport], "Sent messages that entered the history, by `topic`.";
    PRUNED = "outbox_pruned_total", Counter, Count, [what], "Expired rows that were removed, by `what`: history, dead_letters, processed_reports, audit.";
    PRUNE_FAILED = "outbox_prune_failed_total", Counter, Count, [], "Failed removals of expired rows and failed creations of partitions; both are retried.";
    PROCESSED = "outbox_processed_total", Counter, Count, [outcome], "Messages that consumers reported as processed through `Admin` in this process, by `outcome`: processed, already, ahead.";
    HISTORY_RESENT = "outbox_history_resent_total", Counter, Count, [], "Messages that `Admin` took from the history to be sent again, in this process.";
    CANCELLED = "outbox_cancelled_total", Counter, Count, [topic], "Messages that `Admin` cancelled before they were sent, in this process, by `topic`.";
    REDRIVEN = "outbox_redriven_total", Counter, Count, [], "Dead letters that `Admin` redrove, in this process.";
    PURGED = "outbox_purged_total", Counter, Count, [], "Dead letters that `Admin` purged, in this process.";
    DEAD_LETTER_CALLBACKS_LOST = "outbox_dead_letter_callbacks_lost_total", Counter, Count, [reason], "Dead-letter callbacks that were lost, by `reason`: queue_full, panicked, shutdown.";
    DEAD_LETTER_ALERTS = "outbox_dead_letter_alerts_total", Counter, Count, [], "Times that a relay of this process dead-lettered more messages within a window than its alert allows.";
    TASK_PANICKED = "outbox_task_panicked_total", Counter, Count, [task], "Tasks of the relay that panicked and were restarted, by `task`; the log has the panic.";
    CALL_PANICKED = "outbox_call_panicked_total", Counter, Count, [call], "Panics in code that the relay calls but does not own, by `call`: retry_policy, partition, transport, outage, store, outcome, settler, consumer_handler, consumer_loop, consumer_worker, inbox_key, on_error, on_span. The relay continued without the result; the log has the panic.";
    BREAKER_OPEN = "outbox_breaker_open", Gauge, Count, [transport], "1 while the transport counts as down, else 0, by `transport`.";
    TOPIC_BACKED_OFF = "outbox_topic_backed_off", Gauge, Count, [topic, transport], "1 while the broker refuses the topic, else 0, by `topic`.";
    TOPIC_PAUSED = "outbox_topic_paused", Gauge, Count, [topic, transport], "1 while the topic is paused, else 0, by `topic`.";
    LANES = "outbox_lanes", Gauge, Count, [topic, transport], "Lanes that an ordered topic has, by `topic`.";
    LANES_OWNED = "outbox_lanes_owned", Gauge, Count, [topic, transport], "Lanes of an ordered topic that this node owns, by `topic`.";
    LANES_ASLEEP = "outbox_lanes_asleep", Gauge, Count, [topic, transport], "1 while this node leaves the topic's lanes to others because its broker or database fails, else 0, by `topic`.";
    LANE_LOST = "outbox_lane_lost_total", Counter, Count, [topic, transport], "Lanes whose lease expired, by `topic`: a duplicate may follow.";
    LANE_FENCE_ACQUIRED = "outbox_lane_fence_acquired_total", Counter, Count, [topic, transport], "Lanes of a fenced topic that this node fenced, by `topic`.";
    LANE_FENCE_FAILED = "outbox_lane_fence_failed_total", Counter, Count, [topic, transport], "Failed attempts to fence a lane of a fenced topic, by `topic`.";
    LANE_FENCE_LOST = "outbox_lane_fence_lost_total", Counter, Count, [topic, transport], "Lanes that somebody else fenced while this node sent from them, by `topic`.";
    LANE_LATE = "outbox_lane_late_total", Counter, Count, [topic, transport], "Rows of an ordered topic that became visible after a later row of their key was sent, by `topic`.";
    LANE_READ_FAILED = "outbox_lane_read_failed_total", Counter, Count, [], "Failed reads of lanes.";
    LANE_BALANCE_FAILED = "outbox_lane_balance_failed_total", Counter, Count, [], "Failed attempts to read, renew or take lanes.";
    NOTICES = "outbox_notices_total", Counter, Count, [outcome], "Statements that notify other relays of commits to their lanes, by `outcome`: sent, failed.";
    NOTICES_RECEIVED = "outbox_notices_received_total", Counter, Count, [], "Notices received, from other relays and from this one.";
    NOTICES_LISTENING = "outbox_notices_listening", Gauge, Count, [], "1 while the relay listens for notices, 0 while it relies on its poll.";
    NOTICES_LOST = "outbox_notices_lost_total", Counter, Count, [], "Times that the notice connection could not be opened, broke, or received nothing.";
    BLOCKED_KEYS = "outbox_blocked_keys", Gauge, Count, [topic, transport], "Keys in this node's lanes that wait behind a failed message, by `topic`.";
    QUEUE_DEPTH = "outbox_queue_depth", Gauge, Count, [transport], "Rows handed over and not yet confirmed, by `transport`.";
    IN_FLIGHT = "outbox_in_flight", Gauge, Count, [transport], "Messages sent and not yet settled, by `transport`.";
    OLDEST_IN_FLIGHT = "outbox_oldest_in_flight_seconds", Gauge, Seconds, [transport], "How long the oldest message has been in flight, by `transport`. In a healthy system no longer than its delivery time-out and a settle.";
    OLDEST_DUE = "outbox_oldest_due_seconds", Gauge, Seconds, [topic, transport], "How long the oldest due row has been due, by `topic`. For an ordered topic: how long ago the oldest row in this node's lanes was enqueued, not counting rows behind a failed one of their key.";
    LIVE_ROWS = "outbox_live_rows", Gauge, Count, [topic, transport], "Rows not settled yet, by `topic`.";
    DUE_ROWS = "outbox_due_rows", Gauge, Count, [topic, transport], "Rows that are due, by `topic`.";
    DEAD_LETTERS = "outbox_dead_letters", Gauge, Count, [topic, transport], "Dead letters, by `topic`.";
    BACKLOG_COUNTED = "outbox_backlog_counted_timestamp_seconds", Gauge, Seconds, [], "When `outbox_live_rows`, `outbox_due_rows` and `outbox_dead_letters` were last set.";
    COMMIT_TO_ACK = "outbox_commit_to_ack_seconds", Histogram(SEND_BUCKETS), Seconds, [topic, transport], "From the end of COMMIT to the broker's acknowledgement, by `topic`: of messages that the hook handed over, and of ordered messages committed in the process that owns their lane.";
    ENQUEUE_TO_ACK = "outbox_enqueue_to_ack_seconds", Histogram(ENQUEUE_TO_ACK_BUCKETS), Seconds, [topic, transport, path], "From enqueue, or from when a delayed message was due, to the broker's acknowledgement, by `topic` and `path`.";
    SEND = "outbox_send_seconds", Histogram(SEND_BUCKETS), Seconds, [topic, transport, outcome], "From the hand-over to the transport to its answer, by `topic` and `outcome`: delivered, or the class of the failure.";
    STATEMENT = "outbox_statement_seconds", Histogram(STATEMENT_BUCKETS), Seconds, [store, statement], "Duration of a relay's calls of its database, with the wait for a connection, by `store` and `statement`.";
    STATEMENT_ERRORS = "outbox_statement_errors_total", Counter, Count, [store, statement], "Calls of `outbox_statement_seconds` that failed, by `store` and `statement`.";
    CONFIRM_ROWS = "outbox_confirm_rows", Histogram(ROW_BUCKETS), Count, [], "Rows read by one confirm.";
    SETTLE_ROWS = "outbox_settle_rows", Histogram(ROW_BUCKETS), Count, [], "Rows removed by one settle.";
    CONSUMED = "outbox_consumed_total", Counter, Count, [consumer, topic, outcome], "Records that a consumer is done with, by `consumer`, `topic` and `outcome`: handled, duplicate, too_old, parked, parked_alone, replayed.";
    CONSUME_FAILED = "outbox_consume_failed_total", Counter, Count, [consumer, topic], "Failed attempts at a record, by `consumer` and `topic`.";
    CONSUME = "outbox_consume_seconds", Histogram(CONSUME_BUCKETS), Seconds, [consumer, topic, outcome], "Duration of the transactions that processed records, or a record's share of its batch, by `consumer`, `topic` and `outcome`.";
    CONSUMER_BATCHES = "outbox_consumer_batches_total", Counter, Count, [consumer, outcome], "Batches of records, by `consumer` and `outcome`: committed, refused, rolled_back.";
    CONSUMER_LAG = "outbox_consumer_lag_records", Gauge, Count, [consumer, topic], "Records between what this process has processed without a gap and the ends of its partitions, by `consumer` and `topic`.";
    CONSUMER_UNPROCESSED = "outbox_consumer_unprocessed_records", Gauge, Count, [consumer, topic], "Records in memory that are not processed, by `consumer` and `topic`.";
    CONSUMER_PARTITIONS = "outbox_consumer_partitions", Gauge, Count, [consumer, topic], "Partitions that this process reads, by `consumer` and `topic`.";
    CONSUMER_DATABASE_AWAY = "outbox_consumer_database_away", Gauge, Count, [consumer], "1 while a consumer waits for its database, else 0, by `consumer`.";
    BUILD_INFO = "outbox_build_info", Gauge, Count, [version], "1, with the `version` of this library.";
}

/// Describes every metric to the installed recorder, and sets `outbox_build_info`. The relay calls it at start; repeating it does no
/// harm.
pub fn describe() {
    for metric in ALL {
        let Metric { name, unit, help, .. } = *metric;
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(name, unit, help),
            MetricKind::Gauge => metrics::describe_gauge!(name, unit, help),
            MetricKind::Histogram => metrics::describe_histogram!(name, unit, help),
        }
    }
    metrics::gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_ascending_buckets_and_nothing_else_has_any() {
        for metric in ALL {
            assert_eq!(metric.buckets.is_empty(), metric.kind != MetricKind::Histogram, "{}", metric.name);
            assert!(metric.buckets.is_sorted_by(|lower, upper| lower < upper), "{}", metric.name);
        }
    }

    /// The transport goes with the topic, and is not named each time.
    #[test]
    fn the_meaning_names_every_label() {
        for metric in ALL {
            let goes_with_topic = |label: &str| label == "transport" && metric.labels.contains(&"topic");
            for label in metric.labels.iter().filter(|label| !goes_with_topic(label)) {
                assert!(metric.help.contains(&format!("`{label}`")), "{} has {label}", metric.name);
            }
        }
    }
}
