//! Offsets on their way to the brokers, in their order: one that arrived late must not take back a later one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{sleep, timeout};

use super::calls::Member;
use super::queues::Queue;
use crate::consumer::engine::Commit;
use crate::limits::CONSUMER_OUTAGE_WAIT_MIN;
use crate::transport::Line;

pub(super) struct Commits {
    runtime: Handle,
    group: Arc<dyn GroupOffsets>,
    waiting: BTreeMap<Queue, i64>,
    sending: Option<JoinHandle<Result<(), NotTaken>>>,
    /// Nobody asks any more what becomes of `sending`.
    is_left: bool,
}

/// Where the offsets of a group are kept. Tests have one that refuses them.
trait GroupOffsets: Send + Sync {
    fn commit<'a>(&'a self, queue: &'a Queue, offset: i64) -> BoxFuture<'a, Result<(), String>>;
}

/// On the brokers, as a member of the group.
struct OnBrokers {
    member: Arc<Member>,
    line: Line,
}

impl GroupOffsets for OnBrokers {
    fn commit<'a>(&'a self, queue: &'a Queue, offset: i64) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.member.commit(&self.line, queue, offset))
    }
}

/// Offsets that brokers did not take, and the last error.
struct NotTaken {
    offsets: BTreeMap<Queue, i64>,
    error: String,
}

impl From<JoinError> for NotTaken {
    fn from(error: JoinError) -> Self {
        Self { offsets: BTreeMap::new(), error: error.to_string() }
    }
}

impl Commits {
    pub(super) fn new(member: &Arc<Member>) -> Self {
        let on_brokers = OnBrokers { member: Arc::clone(member), line: member.requests.line() };
        Self::of(member.requests.runtime().clone(), Arc::new(on_brokers))
    }

    fn of(runtime: Handle, group: Arc<dyn GroupOffsets>) -> Self {
        Self { runtime, group, waiting: BTreeMap::new(), sending: None, is_left: false }
    }

    pub(super) fn add(&mut self, commits: &[Commit]) {
        self.waiting.extend(commits.iter().map(|commit| (Queue::from_id(&commit.partition), commit.next)));
    }

    /// Sends what waits, once what was sent before is answered. Returns what became of that.
    pub(super) fn go_on(&mut self) -> Result<(), String> {
        if self.sending.as_ref().is_some_and(|sending| !sending.is_finished()) {
            return Ok(());
        }
        let ended = self.settle(Instant::now()).unwrap_or(Ok(()));
        self.send_waiting();
        ended.map_err(|not_taken| not_taken.error)
    }

    /// Nothing may be on its way.
    fn send_waiting(&mut self) {
        if !self.waiting.is_empty() {
            let sent = send(Arc::clone(&self.group), std::mem::take(&mut self.waiting));
            self.sending = Some(self.runtime.spawn(sent));
        }
    }

    /// Sends everything, and waits for the answers. What a broker does not take goes again, until the time is over: it may be back in a
    /// moment. Then the rest is left: what is still ours is committed again now and then, and another owner's offset stays.
    pub(super) fn finish(&mut self, within: Duration) -> Result<(), String> {
        let finished = self.send_until(Instant::now() + within);
        self.waiting.clear();
        self.is_left = finished.is_err() && self.sending.is_some();
        finished.map_err(|error| error.unwrap_or_else(|| format!("the broker did not take offsets within {within:?}")))
    }

    /// Returns the last error, if there was one.
    fn send_until(&mut self, deadline: Instant) -> Result<(), Option<String>> {
        let mut last = None;
        loop {
            match self.settle(deadline) {
                None => return Err(last),
                Some(Ok(())) if self.waiting.is_empty() => return Ok(()),
                Some(Ok(())) => {}
                Some(Err(NotTaken { offsets, error })) => {
                    last = Some(error);
                    let is_over = Instant::now() + CONSUMER_OUTAGE_WAIT_MIN >= deadline;
                    // None are known after a panic.
                    if is_over || offsets.is_empty() {
                        return Err(last);
                    }
                    for (queue, offset) in offsets {
                        // One that waits is later.
                        self.waiting.entry(queue).or_insert(offset);
                    }
                    self.runtime.block_on(async { sleep(CONSUMER_OUTAGE_WAIT_MIN).await });
                }
            }
            self.send_waiting();
        }
    }

    /// Waits for what is on its way; `None` if that takes too long.
    fn settle(&mut self, deadline: Instant) -> Option<Result<(), NotTaken>> {
        let Some(sending) = &mut self.sending else { return Some(Ok(())) };
        let left = deadline.saturating_duration_since(Instant::now());
        let ended = self.runtime.block_on(async { timeout(left, sending).await }).ok()?;
        self.sending = None;
        let ended = ended.unwrap_or_else(|error| Err(error.into()));
        Some(if std::mem::take(&mut self.is_left) { Ok(()) } else { ended })
    }
}

/// A broker that did not take one offset is not asked to take others: each would cost its time-out.
async fn send(group: Arc<dyn GroupOffsets>, offsets: BTreeMap<Queue, i64>) -> Result<(), NotTaken> {
    let (mut refused, mut not_taken) = (BTreeSet::new(), NotTaken { offsets: BTreeMap::new(), error: String::new() });
    for (queue, offset) in offsets {
        if !refused.contains(&queue.broker) {
            match group.commit(&queue, offset).await {
                Ok(()) => continue,
                Err(error) => not_taken.error = error,
            }
            refused.insert(queue.broker.clone());
        }
        not_taken.offsets.insert(queue, offset);
    }
    if not_taken.offsets.is_empty() { Ok(()) } else { Err(not_taken) }
}

#[cfg(test)]
mod tests;
