//! The client's callbacks. They run in `poll`, on the loop's thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, Statistics, TopicPartitionList};

use super::partitions::{self, KafkaPartition};
use crate::consumer::record::PartitionId;
use crate::consumer::source::RevocationListener;
use crate::transport::{Secrets, log_line, log_statistics};

pub(super) struct Context {
    pub(super) secrets: Secrets,
    pub(super) listener: Arc<dyn RevocationListener>,
    /// The user asked for statistics, not only the loop.
    logs_statistics: bool,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// What the group assigned.
    pub(super) assigned: BTreeSet<KafkaPartition>,
    /// What of it is not told to the loop yet.
    pub(super) new: Vec<KafkaPartition>,
    /// What of it the client reads.
    pub(super) read: BTreeSet<KafkaPartition>,
    /// The next offset to fetch, where all that was fetched has been taken. It is beyond the last record if a transaction ends there.
    pub(super) fetched: BTreeMap<KafkaPartition, i64>,
}

impl Context {
    pub(super) fn new(secrets: Secrets, listener: Arc<dyn RevocationListener>, logs_statistics: bool) -> Self {
        Self { secrets, listener, logs_statistics, state: Mutex::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes partitions without reading them: the loop looks first where to begin, which may take a while, and nothing may block here.
    fn assign(&self, consumer: &BaseConsumer<Self>, assigned: Vec<KafkaPartition>) -> KafkaResult<()> {
        let mut state = self.state();
        state.new.extend(assigned.iter().cloned());
        state.assigned.extend(assigned);
        drop(state);
        consumer.incremental_assign(&TopicPartitionList::new())
    }

    /// Ends the work on partitions, commits, and gives them back.
    fn revoke(&self, consumer: &BaseConsumer<Self>, revoked: &[KafkaPartition]) -> KafkaResult<()> {
        let ids: Vec<PartitionId> = revoked.iter().map(KafkaPartition::id).collect();
        let commits = self.listener.revoke(&ids, consumer.assignment_lost());
        let mut unassigned = TopicPartitionList::new();
        let mut state = self.state();
        for partition in revoked {
            state.assigned.remove(partition);
            state.new.retain(|new| new != partition);
            state.fetched.remove(partition);
            if state.read.remove(partition) {
                unassigned.add_partition(&partition.topic, partition.number);
            }
        }
        drop(state);
        if !commits.is_empty() {
            // Not waited for: the broker takes it before this member's next request, on the same connection.
            let list = partitions::list(&commits);
            if let Err(error) = list.and_then(|list| consumer.commit(&list, CommitMode::Async)) {
                tracing::debug!(%error, "offsets of revoked partitions were not committed");
            }
        }
        consumer.incremental_unassign(&unassigned)
    }
}

impl ConsumerContext for Context {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, code: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let affected = partitions::of(list);
        let result = match code {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => self.assign(consumer, affected),
            _ => self.revoke(consumer, &affected),
        };
        if let Err(error) = result {
            tracing::debug!(%error, "the client refused a change of its partitions");
        }
    }
}

impl ClientContext for Context {
    fn error(&self, error: KafkaError, reason: &str) {
        // Not logged louder: the client logs the same text.
        tracing::debug!(%error, "kafka client: {}", self.secrets.scrub(reason));
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        log_line(level_of(level, facility), facility, &self.secrets.scrub(text));
    }

    fn stats_raw(&self, statistics: &[u8]) {
        if self.logs_statistics {
            log_statistics(statistics);
        }
        match serde_json::from_slice(statistics) {
            Ok(statistics) => self.state().fetched = fetched(&statistics),
            Err(error) => tracing::debug!(%error, "the client's statistics cannot be read"),
        }
    }
}

/// The loop wakes the client by requests that have no time to be answered. A broker that is away shows in other lines.
fn level_of(level: RDKafkaLogLevel, facility: &str) -> RDKafkaLogLevel {
    if facility == "REQTMOUT" { RDKafkaLogLevel::Info } else { level }
}

/// The queue of what was fetched is one for all partitions, so its length is that of each.
fn fetched(statistics: &Statistics) -> BTreeMap<KafkaPartition, i64> {
    let topics = statistics.topics.values().flat_map(|topic| topic.partitions.values().map(move |of| (topic, of)));
    let taken = topics.filter(|(_, of)| of.fetchq_cnt == 0 && of.next_offset >= 0);
    taken
        .map(|(topic, of)| {
            (KafkaPartition { topic: topic.topic.as_str().into(), number: of.partition }, of.next_offset)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_an_answer_is_no_warning() {
        let warns = |facility| matches!(level_of(RDKafkaLogLevel::Warning, facility), RDKafkaLogLevel::Warning);
        assert!(!warns("REQTMOUT") && warns("FAIL"));
    }
}
