//! Metrics and events of a consumer.

use std::time::Duration;

use super::engine::{Group, Job, Note, Outcome, Settled, Step};
use super::options::Options;
use super::record::PartitionId;
use crate::events::log_event;
use crate::metrics;

/// What a metric calls an outcome; `None` for one that leaves the record to be done.
fn name(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Handled => Some("handled"),
        Outcome::Duplicate { .. } => Some("duplicate"),
        Outcome::TooOld => Some("too_old"),
        Outcome::Parked => Some("parked"),
        Outcome::ParkedAlone => Some("parked_alone"),
        Outcome::Replayed { .. } => Some("replayed"),
        Outcome::Failed(_)
        | Outcome::ConnectionLost(_)
        | Outcome::Conflict
        | Outcome::BatchRefused
        | Outcome::BatchFailed
        | Outcome::Postponed(_)
        | Outcome::DatabaseAway(_)
        | Outcome::OffsetMoved => None,
    }
}

pub(crate) fn completed(options: &Options, job: &Job, outcome: &Outcome, settled: &Settled, took: Duration) {
    let labels = || [("consumer", options.consumer.to_string()), ("topic", job.token.partition.topic.to_string())];
    match name(outcome) {
        Some(name) => {
            let [consumer, topic] = labels();
            let labels = [consumer, topic, ("outcome", name.to_owned())];
            let copies_ahead = if let Settled::Copies(ahead) = settled { *ahead as u64 } else { 0 };
            ::metrics::counter!(metrics::CONSUMED, &labels).increment(1 + copies_ahead);
            ::metrics::histogram!(metrics::CONSUME, &labels).record(took.as_secs_f64());
        }
        None if matches!(outcome, Outcome::Failed(_)) => {
            ::metrics::counter!(metrics::CONSUME_FAILED, &labels()).increment(1);
        }
        None => {}
    }
    log(options, job, outcome, settled);
}

pub(crate) fn batch_ended(options: &Options, outcome: &Outcome) {
    let outcome = match outcome {
        Outcome::Handled => "committed",
        Outcome::BatchRefused => "refused",
        _ => "rolled_back",
    };
    let labels = [("consumer", options.consumer.to_string()), ("outcome", outcome.to_owned())];
    ::metrics::counter!(metrics::CONSUMER_BATCHES, &labels).increment(1);
}

pub(crate) fn database_away(options: &Options, error: &str) {
    log_event!(CONSUMER_DATABASE_AWAY, consumer = &*options.consumer, error);
}

pub(crate) fn database_back(options: &Options) {
    log_event!(CONSUMER_DATABASE_BACK, consumer = &*options.consumer);
}

fn log(options: &Options, job: &Job, outcome: &Outcome, settled: &Settled) {
    let (consumer, partition) = (&*options.consumer, &job.token.partition);
    let offset = job.work.offset();
    match (outcome, settled) {
        (Outcome::Failed(error), Settled::Retried { failures, wait }) => {
            tracing::debug!(consumer, %partition, offset, failures, ?wait, %error, "a record failed: trying again");
        }
        (Outcome::Failed(error), Settled::Exhausted { failures }) => {
            log_event!(RECORD_FAILED, consumer, %partition, offset, failures, %error);
        }
        (Outcome::Failed(error), Settled::Blocked { failures, wait }) => {
            log_event!(RECORD_BLOCKS_KEY, consumer, %partition, offset, failures, ?wait, %error);
        }
        (Outcome::Failed(error), Settled::ReplayFailed) => log_event!(REPLAY_FAILED, consumer, %partition, %error),
        (Outcome::Parked | Outcome::ParkedAlone, _) if job.attempt == 1 => {
            // It killed its process: no attempt has failed that would have said so.
            if let Step::GiveUp { reason: error } = &job.step {
                log_event!(RECORD_FAILED, consumer, %partition, offset, failures = 0, %error);
            }
        }
        (Outcome::TooOld, _) => log_event!(RECORD_TOO_OLD, consumer, %partition, offset),
        _ => {}
    }
}

pub(crate) fn opened(options: &Options, id: &PartitionId, start: i64, note: &Note) {
    let consumer = &*options.consumer;
    tracing::debug!(consumer, partition = %id, start, "reading a partition");
    if let Some(Group { first: offset, rows, starts }) = note.running {
        log_event!(RECORDS_SUSPECTED, consumer, partition = %id, offset, rows, starts);
    }
}

/// A kept offset that is not in its partition.
pub(crate) fn gone(id: &PartitionId, offset: i64, first: i64, end: i64) {
    log_event!(RECORDS_GONE, partition = %id, committed = offset, first, end);
}

pub(crate) fn reopening(options: &Options, id: &PartitionId) {
    log_event!(OFFSET_MOVED, consumer = &*options.consumer, partition = %id);
}

pub(crate) fn revoked(options: &Options, ids: &[PartitionId], is_lost: bool, is_quiet: bool) {
    if !ids.is_empty() && (is_lost || !is_quiet) {
        log_event!(PARTITIONS_LOST, consumer = &*options.consumer, partitions = ids.len(), is_lost);
    }
}
