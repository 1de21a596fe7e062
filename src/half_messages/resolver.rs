//! Reports and cleans up half messages in the background.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::crash_points::crash_point;
use crate::events::log_event;
use crate::limits::{
    HALF_BATCH_MAX, HALF_ENDED_MAX, HALF_ENDS_AT_ONCE_MAX, HALF_MARK_AGE_MAX, HALF_PRUNE_INTERVAL, HALF_PRUNE_ROWS_MAX,
};
use crate::message::MessageId;
use crate::metrics;
use crate::repeated::{Repeated, warn_once_a_minute};
use crate::store::{Decision, Store, StoreError};
use crate::transport::{CheckRequest, CheckResponse, HalfProducer, HalfSent, InFlightGuard, TransportError};

/// A half message whose transaction is over, as far as its process knows. It is counted when it is dropped, so that
/// every way without a report is counted too.
pub(super) struct EndedHalf {
    message_id: MessageId,
    topic: Arc<str>,
    sent: HalfSent,
    outcome: &'static str,
    /// Kept until its mark is gone, too: a flush waits for that.
    _counted: InFlightGuard,
}

impl EndedHalf {
    pub(super) fn new(message_id: MessageId, topic: Arc<str>, sent: HalfSent, counted: InFlightGuard) -> Self {
        Self { message_id, topic, sent, outcome: "unreported", _counted: counted }
    }

    /// Never waits.
    pub(super) fn hand_over(self, jobs: &mpsc::Sender<Self>) {
        // If the queue is full or the worker has ended, the broker will ask.
        let _ = jobs.try_send(self);
    }
}

impl Drop for EndedHalf {
    fn drop(&mut self) {
        count(metrics::HALF_MESSAGES, &self.topic, "outcome", self.outcome);
    }
}

/// The queue to the worker.
pub(super) fn channel() -> (mpsc::Sender<EndedHalf>, mpsc::Receiver<EndedHalf>) {
    mpsc::channel(HALF_ENDED_MAX)
}

/// Receives the outcome of a half message.
#[async_trait]
pub(super) trait Broker: Send + Sync {
    async fn end(&self, half: &HalfSent, commits: bool) -> Result<(), TransportError>;
}

#[async_trait]
impl Broker for HalfProducer {
    async fn end(&self, half: &HalfSent, commits: bool) -> Result<(), TransportError> {
        HalfProducer::end(self, half, commits).await
    }
}

/// Reports the outcomes of half messages to their brokers.
pub(super) struct Worker {
    pub(super) store: Arc<dyn Store>,
    pub(super) broker: Weak<dyn Broker>,
    pub(super) failures: Failures,
}

/// Repeated failures, by what could not be done.
#[derive(Default)]
pub(super) struct Failures {
    read: Repeated,
    report: Repeated,
    remove: Repeated,
}

impl Worker {
    pub(super) async fn run(self, mut jobs: mpsc::Receiver<EndedHalf>) {
        let mut group = Vec::new();
        while jobs.recv_many(&mut group, HALF_BATCH_MAX).await > 0 {
            let Some(broker) = self.broker.upgrade() else { return };
            let ended = std::mem::take(&mut group);
            if let Err(error) = self.end(&*broker, ended).await {
                warn_once_a_minute!(HALF_OUTCOMES_UNREAD, self.failures.read, error);
            }
        }
    }

    async fn end(&self, broker: &dyn Broker, ended: Vec<EndedHalf>) -> Result<(), StoreError> {
        let Some(marks) = self.store.halves() else { return Ok(()) };
        let ids: Vec<MessageId> = ended.iter().map(|half| half.message_id).collect();
        // Not by the client's result of COMMIT: PostgreSQL answers "ok" for an aborted transaction, too.
        let marked: HashSet<MessageId> = marks.marked(&ids).await?.into_iter().collect();
        let reported = stream::iter(ended).map(|mut half| {
            let is_marked = marked.contains(&half.message_id);
            async move {
                let decision =
                    if is_marked { Ok(Decision::Committed) } else { marks.decide(half.message_id, &half.topic).await };
                let is_reported = match decision {
                    Ok(decision) => Ok(report_decision(broker, &mut half, decision, &self.failures.report).await),
                    Err(error) => Err(error),
                };
                (half, is_reported)
            }
        });
        let reported: Vec<(EndedHalf, Result<bool, StoreError>)> =
            reported.buffer_unordered(HALF_ENDS_AT_ONCE_MAX).collect().await;
        let is_reported = |(_, reported): &&(EndedHalf, Result<bool, StoreError>)| matches!(reported, Ok(true));
        let done: Vec<MessageId> = reported.iter().filter(is_reported).map(|(half, _)| half.message_id).collect();
        crash_point!(HALF_FORGETTING);
        if let Err(error) = marks.remove_marks(&done).await {
            warn_once_a_minute!(HALF_MARKS_NOT_REMOVED, self.failures.remove, error);
        }
        reported.into_iter().find_map(|(_, reported)| reported.err()).map_or(Ok(()), Err)
    }
}

/// Reports to the broker. Returns whether the broker has acted on it and will not ask again.
async fn report_decision(broker: &dyn Broker, half: &mut EndedHalf, decision: Decision, failures: &Repeated) -> bool {
    let (commits, outcome) = match decision {
        Decision::Committed => (true, "committed"),
        Decision::RolledBack => (false, "rolled_back"),
        Decision::Open => {
            half.outcome = "open";
            return false;
        }
    };
    crash_point!(HALF_DECIDED);
    match broker.end(&half.sent, commits).await {
        Ok(()) => {
            half.outcome = outcome;
            true
        }
        Err(error) => {
            let (topic, message_id) = (&half.topic, half.message_id);
            warn_once_a_minute!(HALF_OUTCOME_UNREPORTED, failures, error, %topic, %message_id);
            false
        }
    }
}

/// Decides the outcome that a broker checks.
pub(super) async fn check(store: &dyn Store, request: CheckRequest, failures: &Repeated) -> CheckResponse {
    let decided = match store.halves() {
        Some(marks) => marks.decide(request.message_id, &request.topic).await,
        None => Ok(Decision::Open),
    };
    let (response, name) = match decided {
        Ok(Decision::Committed) => (Some(true), "commit"),
        Ok(Decision::RolledBack) => (Some(false), "rollback"),
        Ok(Decision::Open) => (None, "unknown"),
        Err(error) => {
            let CheckRequest { topic, message_id } = &request;
            warn_once_a_minute!(HALF_CHECK_UNANSWERED, failures, error, %topic, %message_id);
            (None, "unknown")
        }
    };
    count(metrics::HALF_CHECKS, &request.topic, "answer", name);
    response
}

/// Removes old marks as long as the handle lives.
pub(super) async fn prune(store: Arc<dyn Store>, lives: mpsc::WeakSender<EndedHalf>) {
    while lives.upgrade().is_some() {
        let Some(marks) = store.halves() else { return };
        match marks.prune_marks(HALF_MARK_AGE_MAX, HALF_PRUNE_ROWS_MAX).await {
            Ok(HALF_PRUNE_ROWS_MAX) => continue,
            Ok(_fewer) => {}
            Err(error) => log_event!(HALF_MARKS_NOT_PRUNED, %error),
        }
        sleep(HALF_PRUNE_INTERVAL).await;
    }
}

fn count(metric: &'static str, topic: &str, label: &'static str, value: &'static str) {
    ::metrics::counter!(metric, "topic" => topic.to_owned(), label => value).increment(1);
}

#[cfg(test)]
mod tests;
