//! What a failure does to its row: one treatment for each class.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::engine::Engine;
use super::entry::{Entry, Progress};
use super::store_call::store_call;
use super::teller::GivenUp;
use crate::crash_points::crash_point;
use crate::limits::{ERROR_TEXT_BYTES_MAX, RETRY_AFTER_MAX, TEMPORARY_WAIT_MAX};
use crate::metrics;
use crate::planted::{Mistake, planted};
use crate::retry::{bounded, wait_by};
use crate::store::{Dead, Failed, Held, RowKey, StoreError};
use crate::topic::Topic;
use crate::transport::{FailureClass, TransportError};

/// A failed row with what is known of it.
pub(crate) struct FailedRow {
    pub(crate) row: RowKey,
    pub(crate) epoch: i32,
    pub(crate) entry: Entry,
    pub(crate) error: Arc<TransportError>,
}

/// A message on its way to the dead letters, and what is told of it when it is there.
pub(crate) struct Burial {
    pub(crate) dead: Dead,
    pub(crate) letter: GivenUp,
}

/// What to do about one failed row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// The broker or the topic is at fault: nothing is written, and the lease ends by itself.
    Leave,
    /// Try again after the wait.
    Retry {
        wait: Duration,
        spends_attempt: bool,
    },
    /// Try again at once with nothing beside it, to learn whether it was this row that spoiled its batch. Its note makes it a
    /// suspect to whoever takes it next.
    RetryAlone,
    GiveUp {
        reason: &'static str,
    },
}

/// Whether a failure is the broker's, the topic's or the lane's, so that nothing is written about the row.
pub(crate) fn is_left_alone(class: FailureClass) -> bool {
    let is_elsewhere = matches!(class, FailureClass::Topic | FailureClass::Aborted | FailureClass::Fenced);
    (class.is_outage() || is_elsewhere) && !planted(Mistake::AttemptInOutage)
}

pub(crate) fn treatment(failed: &FailedRow) -> Treatment {
    let class = if planted(Mistake::AttemptInOutage) { FailureClass::Record } else { failed.error.class() };
    let topic = &failed.entry.topic.topic;
    let failures = failed.entry.failures.saturating_add(1);
    let asked = failed.error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
    let own = failed.error.attempts();
    let attempts_max = own.map_or(topic.attempts_limit(), |own| own.max);
    match class {
        _ if is_left_alone(class) => Treatment::Leave,
        FailureClass::RecordRefused if failed.entry.alone => Treatment::GiveUp { reason: "refused" },
        // Whichever attempt it is: the others of its batch have done nothing.
        FailureClass::RecordRefused => Treatment::RetryAlone,
        _ if class.spends_attempt() && failed.entry.attempt >= attempts_max => Treatment::GiveUp { reason: "attempts" },
        FailureClass::Record => {
            let wait = own.map_or_else(|| wait_of(topic, failures), |own| bounded(own.wait));
            Treatment::Retry { wait: wait.max(asked), spends_attempt: true }
        }
        _ => Treatment::Retry {
            wait: wait_of(topic, failures).min(TEMPORARY_WAIT_MAX).max(asked),
            spends_attempt: false,
        },
    }
}

/// How long a message of the topic waits after so many failures.
pub(crate) fn wait_of(topic: &Topic, failures: u32) -> Duration {
    wait_by(topic.retry_policy(), topic.name(), failures)
}

/// Writes the failures of leased rows. A row whose lease is lost is only struck out: it is another holder's.
pub(crate) async fn write(engine: &Arc<Engine>, failed: Vec<(RowKey, Arc<TransportError>)>) {
    let (mut retried, mut given_up) = (Vec::new(), Vec::new());
    let mut left = Vec::new();
    for (row, error) in failed {
        // Under another progress it was given up meanwhile, and is sent anew: that is none of this failure's.
        let lease = engine.ledger.lease(row).filter(|(_, entry)| entry.progress == Progress::Failed);
        let Some((lease, entry)) = lease else {
            left.push((row, None));
            continue;
        };
        let failed = FailedRow { row, epoch: lease.epoch, entry, error };
        match treatment(&failed) {
            Treatment::Leave => left.push((row, Some(lease.epoch))),
            Treatment::Retry { wait, spends_attempt } => retried.push(note(&failed, wait, spends_attempt)),
            Treatment::RetryAlone => retried.push(note(&failed, Duration::ZERO, false)),
            Treatment::GiveUp { reason } => given_up.push((failed, reason)),
        }
    }
    for (row, epoch) in left {
        engine.ledger.strike_failed(row, epoch);
    }
    write_retries(engine, retried).await;
    write_given_up(engine, given_up).await;
}

pub(crate) fn note(failed: &FailedRow, wait: Duration, spends_attempt: bool) -> Failed {
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
    let loss = "failures could not be noted: the rows come back when their leases end";
    let written = write_in_parts("fail", &failed, loss, |part| engine.store.fail(part)).await;
    finish(engine, &held, written);
    // A retry may be due before the scout looks again by itself.
    engine.wakes.scout.notify_one();
}

async fn write_given_up(engine: &Arc<Engine>, given_up: Vec<(FailedRow, &'static str)>) {
    if given_up.is_empty() {
        return;
    }
    bury(engine, given_up.iter().map(|(failed, reason)| give_up(failed, reason)).collect()).await;
}

/// Gives a message up.
pub(crate) fn give_up(failed: &FailedRow, reason: &'static str) -> Burial {
    let topic = failed.entry.topic.topic.name();
    tracing::error!(message_id = %failed.row.message_id, topic, reason, error = %failed.error, "a message is given up");
    let reason = shortened(format!("{reason}: {}", failed.error));
    let letter = GivenUp {
        topic: failed.entry.topic.name(),
        message_id: failed.row.message_id,
        kind: failed.entry.kind.as_deref().unwrap_or_default().to_owned(),
        reason: reason.clone(),
        attempts: failed.entry.attempt,
    };
    Burial { dead: Dead { held: Held { key: failed.row, epoch: failed.epoch }, reason }, letter }
}

/// Moves rows to the dead letters.
pub(crate) async fn bury(engine: &Arc<Engine>, burials: Vec<Burial>) {
    if burials.is_empty() {
        return;
    }
    crash_point!(DYING);
    let (dead, letters): (Vec<Dead>, Vec<GivenUp>) = burials.into_iter().map(|of| (of.dead, of.letter)).unzip();
    let held: Vec<Held> = dead.iter().map(|dead| dead.held).collect();
    let loss = "messages could not be given up: they come back when their leases end";
    let written = write_in_parts("dead", &dead, loss, |part| engine.store.dead(part)).await;
    let buried = finish(engine, &held, written);
    let told = held.iter().zip(letters).filter(|(held, _)| buried.contains(&held.key));
    engine.teller.tell(told.map(|(_, letter)| letter));
}

/// Writes a group, and halves one that fails for good, down to the rows that are the reason: no row keeps the outcomes of its
/// neighbours from being written. Returns what was written.
pub(crate) async fn write_in_parts<'a, T>(
    call: &'static str,
    group: &'a [T],
    loss: &'static str,
    write: impl Fn(&'a [T]) -> BoxFuture<'a, Result<Vec<RowKey>, StoreError>>,
) -> HashSet<RowKey> {
    let (mut parts, mut written) = (vec![group], HashSet::new());
    while let Some(part) = parts.pop() {
        match store_call(call, write(part)).await {
            Ok(rows) => written.extend(rows),
            Err(error) if !error.is_retriable() && part.len() > 1 => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
            Err(error) => tracing::warn!(%error, rows = part.len(), "{loss}"),
        }
    }
    written
}

/// Strikes the rows out, written or not: what could not be written comes back by itself when the lease ends. Returns what was.
fn finish(engine: &Engine, held: &[Held], written: HashSet<RowKey>) -> HashSet<RowKey> {
    let lost = held.iter().filter(|held| !written.contains(&held.key)).count();
    ::metrics::counter!(metrics::LEASE_LOST).increment(lost as u64);
    for held in held {
        engine.ledger.strike_failed(held.key, Some(held.epoch));
    }
    written
}

pub(crate) fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(ERROR_TEXT_BYTES_MAX));
    text
}
