//! What a failure does to its row: one treatment per class.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::crash_points::crash_point;
use crate::events::log_event;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::{RETRY_AFTER_MAX, TEMPORARY_WAIT_MAX, cut_error_text};
use crate::metrics;
use crate::relay::dead_letter_callbacks::DeadLetterEvent;
use crate::relay::engine::Engine;
use crate::relay::engine::rows::Entry;
use crate::relay::engine::store_call::store_call;
use crate::relay::ledger::entry::Progress;
use crate::repeated::warn_once_a_minute;
use crate::retry::{bounded, retry_wait};
use crate::store::{DeadLetterReason, Failed, Held, NewDeadLetter, Poisoned, RowKey, StoreError};
use crate::topic::Topic;
use crate::transport::{FailureClass, TransportError};

/// A failed row with what is known of it.
pub(crate) struct FailedRow {
    pub(crate) row: RowKey,
    pub(crate) epoch: i32,
    pub(crate) entry: Entry,
    pub(crate) error: TransportError,
}

/// A message to be dead-lettered, and the event for the callbacks once it is.
pub(crate) struct PendingDeadLetter {
    pub(crate) dead: NewDeadLetter,
    pub(crate) letter: DeadLetterEvent,
}

/// What to do about one failed row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// The broker or the topic is at fault: nothing is written, and the lease expires.
    Leave,
    /// Try again after the wait.
    Retry {
        wait: Duration,
        spends_attempt: bool,
    },
    /// Try again at once and alone, to learn whether this row caused the refusal of its batch. The noted error makes
    /// the row a suspect for whoever takes it next.
    RetryAlone,
    DeadLetter {
        reason: DeadLetterReason,
    },
}

/// Whether the broker, the topic or the lane is at fault, so that nothing is written to the row.
pub(crate) fn is_left_unwritten(class: FailureClass) -> bool {
    let is_elsewhere = matches!(class, FailureClass::Topic | FailureClass::Aborted | FailureClass::Fenced);
    (class.is_outage() || is_elsewhere) && !is_injected(InjectedBug::AttemptInOutage)
}

pub(crate) fn treatment(failed: &FailedRow) -> Treatment {
    let class = if is_injected(InjectedBug::AttemptInOutage) { FailureClass::Record } else { failed.error.class() };
    let topic = &failed.entry.topic.config;
    let failures = failed.entry.failures.saturating_add(1);
    let requested = failed.error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
    let limit = failed.error.attempts();
    let attempts_max = limit.map_or(topic.attempts_limit(), |limit| limit.max);
    match class {
        _ if is_left_unwritten(class) => Treatment::Leave,
        FailureClass::RecordRefused if failed.entry.alone => {
            Treatment::DeadLetter { reason: DeadLetterReason::Refused }
        }
        // Whichever attempt it is: the rest of its batch did nothing wrong.
        FailureClass::RecordRefused => Treatment::RetryAlone,
        _ if class.spends_attempt() && failed.entry.attempt >= attempts_max => {
            Treatment::DeadLetter { reason: DeadLetterReason::Attempts }
        }
        FailureClass::Record => {
            let wait = limit.map_or_else(|| wait_of(topic, failures), |limit| bounded(limit.wait));
            Treatment::Retry { wait: wait.max(requested), spends_attempt: true }
        }
        _ => Treatment::Retry {
            wait: wait_of(topic, failures).min(TEMPORARY_WAIT_MAX).max(requested),
            spends_attempt: false,
        },
    }
}

/// How long a message of the topic waits after this many failures.
pub(crate) fn wait_of(topic: &Topic, failures: u32) -> Duration {
    retry_wait(topic.retry_policy(), topic.name(), failures)
}

/// Writes the failures of leased rows. A row whose lease is lost is only removed: another holder has it.
pub(crate) async fn write(engine: &Arc<Engine>, failed: Vec<(RowKey, TransportError)>) {
    let (mut retried, mut dead_letters) = (Vec::new(), Vec::new());
    let mut left = Vec::new();
    for (row, error) in failed {
        // With another progress, the row was abandoned and sent again: this failure does not concern that send.
        let lease = engine.ledger.lease(row).filter(|(_, entry)| entry.progress == Progress::Failed);
        let Some((lease, entry)) = lease else {
            left.push((row, None));
            continue;
        };
        let failed = FailedRow { row, epoch: lease.epoch, entry, error };
        match treatment(&failed) {
            Treatment::Leave => left.push((row, Some(lease.epoch))),
            Treatment::Retry { wait, spends_attempt } => retried.push(failure_record(&failed, wait, spends_attempt)),
            Treatment::RetryAlone => retried.push(failure_record(&failed, Duration::ZERO, false)),
            Treatment::DeadLetter { reason } => dead_letters.push((failed, reason)),
        }
    }
    for (row, epoch) in left {
        engine.ledger.remove_failed(row, epoch);
    }
    write_retries(engine, retried).await;
    write_dead_letters(engine, dead_letters).await;
}

pub(crate) fn failure_record(failed: &FailedRow, wait: Duration, spends_attempt: bool) -> Failed {
    Failed {
        held: Held { key: failed.row, epoch: failed.epoch },
        wait,
        spends_attempt,
        class: failed.error.class().as_str(),
        error: shortened(failed.error.to_string()),
    }
}

async fn write_retries(engine: &Arc<Engine>, failed: Vec<Failed>) {
    if failed.is_empty() {
        return;
    }
    crash_point!(FAILING);
    let held: Vec<Held> = failed.iter().map(|failed| failed.held).collect();
    let loss = "failures are lost, and the rows are due again when their leases end";
    let written = write_in_parts(engine, "fail", &failed, loss, |part| engine.store.fail(part)).await;
    finish(engine, &held, written);
    // A retry may be due before the poller's next poll.
    engine.wakeups.poller.notify_one();
}

async fn write_dead_letters(engine: &Arc<Engine>, dead_letters: Vec<(FailedRow, DeadLetterReason)>) {
    if dead_letters.is_empty() {
        return;
    }
    let pending = dead_letters.iter().map(|(failed, reason)| failed_dead_letter(failed, reason));
    dead_letter(engine, pending.collect()).await;
}

/// Prepares the dead letter of a failed row.
pub(crate) fn failed_dead_letter(failed: &FailedRow, reason: &DeadLetterReason) -> PendingDeadLetter {
    let topic = failed.entry.topic.config.name();
    log_event!(DEAD_LETTERED, message_id = %failed.row.message_id, topic, %reason, error = %failed.error);
    let reason = shortened(format!("{reason}: {}", failed.error));
    let letter = DeadLetterEvent {
        topic: failed.entry.topic.name(),
        message_id: failed.row.message_id,
        kind: failed.entry.kind.as_deref().unwrap_or_default().to_owned(),
        reason: reason.clone(),
        attempts: failed.entry.attempt,
    };
    PendingDeadLetter { dead: NewDeadLetter { held: Held { key: failed.row, epoch: failed.epoch }, reason }, letter }
}

/// Dead-letters an undecodable row, under the epoch with which it was read.
pub(crate) fn poisoned_dead_letter(row: &Poisoned) -> PendingDeadLetter {
    log_event!(ROW_DEAD_LETTERED, message_id = %row.key.message_id, topic = %row.topic, error = %row.error);
    let reason = format!("{}: {}", DeadLetterReason::Poisoned, row.error);
    let (topic, message_id) = (Arc::clone(&row.topic), row.key.message_id);
    let letter = DeadLetterEvent { topic, message_id, kind: String::new(), reason: reason.clone(), attempts: 0 };
    PendingDeadLetter { dead: NewDeadLetter { held: Held { key: row.key, epoch: row.epoch }, reason }, letter }
}

/// Moves rows to the dead letters.
pub(crate) async fn dead_letter(engine: &Arc<Engine>, pending: Vec<PendingDeadLetter>) {
    if pending.is_empty() {
        return;
    }
    crash_point!(DEAD_LETTERING);
    let (dead, letters): (Vec<NewDeadLetter>, Vec<DeadLetterEvent>) =
        pending.into_iter().map(|of| (of.dead, of.letter)).unzip();
    let held: Vec<Held> = dead.iter().map(|dead| dead.held).collect();
    let loss = "messages are not dead-lettered, and are due again when their leases end";
    let written = write_in_parts(engine, "dead_letter", &dead, loss, |part| engine.store.dead_letter(part)).await;
    let moved = finish(engine, &held, written);
    let events = held.iter().zip(letters).filter(|(held, _)| moved.contains(&held.key));
    engine.dead_letter_callbacks.notify(&engine.name, events.map(|(_, letter)| letter));
}

/// Writes a batch. Halves one that fails permanently, down to the rows that cause it, so that no row keeps its
/// neighbours' outcomes from being written. Returns what was written.
pub(crate) async fn write_in_parts<'a, T>(
    engine: &Engine,
    call: &'static str,
    batch: &'a [T],
    loss: &'static str,
    write: impl Fn(&'a [T]) -> BoxFuture<'a, Result<Vec<RowKey>, StoreError>>,
) -> HashSet<RowKey> {
    let (mut parts, mut written) = (vec![batch], HashSet::new());
    while let Some(part) = parts.pop() {
        match store_call(call, write(part)).await {
            Ok(rows) => written.extend(rows),
            Err(error) if !error.is_retriable() && part.len() > 1 => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
            Err(error) => {
                // The same error costs leased rows and rows in lanes something else.
                let failure = format!("{loss}: {error}");
                warn_once_a_minute!(OUTCOMES_NOT_WRITTEN, engine.failure_log.write, failure, rows = part.len());
            }
        }
    }
    written
}

/// Removes the rows from the ledger, written or not: an unwritten one is due again when its lease ends. Returns what
/// was written.
fn finish(engine: &Engine, held: &[Held], written: HashSet<RowKey>) -> HashSet<RowKey> {
    let lost = held.iter().filter(|held| !written.contains(&held.key)).count();
    ::metrics::counter!(metrics::LEASE_LOST).increment(lost as u64);
    for held in held {
        engine.ledger.remove_failed(held.key, Some(held.epoch));
    }
    written
}

pub(crate) fn shortened(mut text: String) -> String {
    text.truncate(cut_error_text(&text).len());
    text
}
