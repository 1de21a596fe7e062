//! Offsets on their way to the brokers, in their order: one that arrived late must not take back a later one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::calls::Member;
use super::queues::Queue;
use crate::consumer::engine::Commit;
use crate::transport::Line;

pub(super) struct Commits {
    member: Arc<Member>,
    line: Arc<Line>,
    waiting: BTreeMap<Queue, i64>,
    sending: Option<JoinHandle<Result<(), String>>>,
}

impl Commits {
    pub(super) fn new(member: &Arc<Member>) -> Self {
        let line = Arc::new(member.requests.line());
        Self { member: Arc::clone(member), line, waiting: BTreeMap::new(), sending: None }
    }

    pub(super) fn add(&mut self, commits: &[Commit]) {
        self.waiting.extend(commits.iter().map(|commit| (Queue::from_id(&commit.partition), commit.next)));
    }

    /// Sends what waits, once what was sent before is answered. Returns what became of that.
    pub(super) fn go_on(&mut self) -> Result<(), String> {
        if self.sending.as_ref().is_some_and(|sending| !sending.is_finished()) {
            return Ok(());
        }
        let ended = self.sending.take().map_or(Ok(()), |sending| {
            let ended = self.member.requests.runtime().block_on(sending);
            ended.unwrap_or_else(|error| Err(error.to_string()))
        });
        if !self.waiting.is_empty() {
            let sent = send(Arc::clone(&self.member), Arc::clone(&self.line), std::mem::take(&mut self.waiting));
            self.sending = Some(self.member.requests.runtime().spawn(sent));
        }
        ended
    }

    /// Sends everything, and waits for the answers.
    pub(super) fn finish(&mut self, within: Duration) -> Result<(), String> {
        let deadline = Instant::now() + within;
        let late = || format!("the broker did not take offsets within {within:?}");
        // What was sent before these is committed again now and then.
        if let Err(error) = self.settle(deadline).ok_or_else(late)? {
            tracing::debug!(error, "offsets were not committed");
        }
        self.go_on()?;
        self.settle(deadline).ok_or_else(late)?
    }

    /// Waits for what is on its way; `None` if that takes too long.
    fn settle(&mut self, deadline: Instant) -> Option<Result<(), String>> {
        let Some(sending) = &mut self.sending else { return Some(Ok(())) };
        let left = deadline.saturating_duration_since(Instant::now());
        let ended = self.member.requests.runtime().block_on(async { timeout(left, sending).await }).ok()?;
        self.sending = None;
        Some(ended.unwrap_or_else(|error| Err(error.to_string())))
    }
}

/// Returns the last error. A broker that did not take one offset is not asked to take others: each would cost its time-out.
async fn send(member: Arc<Member>, line: Arc<Line>, offsets: BTreeMap<Queue, i64>) -> Result<(), String> {
    let (mut refused, mut result) = (BTreeSet::new(), Ok(()));
    for (queue, offset) in offsets {
        if refused.contains(&queue.broker) {
            continue;
        }
        if let Err(error) = member.commit(&line, &queue, offset).await {
            refused.insert(queue.broker);
            result = Err(error);
        }
    }
    result
}
