//! The client, as the loop uses it.
//!
//! One queue for all partitions: queues per partition stall (rust-rdkafka#840).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::context::Context;
use super::partitions::{self, KafkaPartition};
use crate::consumer::engine::{Commit, Note};
use crate::consumer::options::StartFrom;
use crate::consumer::record::{PartitionId, Record};
use crate::consumer::source::{Position, RevocationListener, Source, SourceError};
use crate::limits::{
    CONSUMER_BROKER_TIMEOUT, CONSUMER_BUSY_POLL_TIMEOUT, CONSUMER_COMMIT_INTERVAL, CONSUMER_LAG_TIMEOUT,
    CONSUMER_WAKE_TIMEOUT,
};
use crate::transport::{Secrets, offset_at};

pub(super) struct KafkaSource {
    consumer: BaseConsumer<Context>,
    topics: Vec<Arc<str>>,
    start_from: StartFrom,
    /// Records that came while something else was waited for.
    early: VecDeque<Record>,
    is_out_of_range: bool,
}

impl KafkaSource {
    pub(super) fn new(
        config: &ClientConfig,
        secrets: Secrets,
        topics: Vec<Arc<str>>,
        start_from: StartFrom,
        listener: Arc<dyn RevocationListener>,
        logs_statistics: bool,
    ) -> Result<Self, SourceError> {
        let context = Context::new(secrets.clone(), listener, logs_statistics);
        let failed = |error: KafkaError| SourceError(secrets.scrub(&error.to_string()).into_owned());
        let consumer: BaseConsumer<Context> = config.create_with_context(context).map_err(failed)?;
        let names: Vec<&str> = topics.iter().map(|topic| &**topic).collect();
        consumer.subscribe(&names).map_err(failed)?;
        Ok(Self { consumer, topics, start_from, early: VecDeque::new(), is_out_of_range: false })
    }

    fn failed(&self, error: &KafkaError) -> SourceError {
        SourceError(self.consumer.context().secrets.scrub(&error.to_string()).into_owned())
    }

    fn poll_client(&mut self, within: Duration) -> Result<Option<Record>, SourceError> {
        match self.consumer.poll(within) {
            None => Ok(None),
            Some(Err(error)) => {
                self.is_out_of_range |= error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset);
                Err(self.failed(&error))
            }
            Some(Ok(message)) => {
                let known = self.topics.iter().find(|topic| &***topic == rdkafka::Message::topic(&message));
                let topic = known.cloned().unwrap_or_else(|| rdkafka::Message::topic(&message).into());
                Ok(Some(partitions::record(&message, topic)))
            }
        }
    }

    /// Wakes the client's threads of these partitions. One sleeps for up to a second while all its partitions are paused, and a resume does
    /// not wake it. A request does; its answer is of no use.
    fn wake(&self, ids: &[PartitionId]) {
        let until = Instant::now() + CONSUMER_WAKE_TIMEOUT;
        for partition in ids.iter().map(KafkaPartition::from_id) {
            let left = until.saturating_duration_since(Instant::now());
            drop(self.consumer.fetch_watermarks(&partition.topic, partition.number, left));
        }
    }

    fn offset_at(&self, id: &PartitionId, at: Offset, within: Duration) -> Result<i64, SourceError> {
        let KafkaPartition { topic, number } = KafkaPartition::from_id(id);
        offset_at(&self.consumer, &topic, number, at, within).map_err(|error| self.failed(&error))
    }

    /// The committed offset, with its note.
    fn committed(&self, id: &PartitionId) -> Result<Option<(i64, Note)>, KafkaError> {
        let asked = partitions::plain_list(std::slice::from_ref(id));
        let found = self.consumer.committed_offsets(asked, CONSUMER_BROKER_TIMEOUT)?;
        let elements = found.elements();
        let Some(element) = elements.first() else { return Ok(None) };
        element.error()?;
        Ok(match element.offset() {
            Offset::Offset(next) => Some((next, Note::parse(partitions::metadata(element)))),
            _ => None,
        })
    }
}

impl Source for KafkaSource {
    fn poll(&mut self, within: Duration) -> Result<Option<Record>, SourceError> {
        match self.early.pop_front() {
            Some(record) => Ok(Some(record)),
            None => self.poll_client(within),
        }
    }

    fn take_out_of_range(&mut self) -> bool {
        std::mem::take(&mut self.is_out_of_range)
    }

    fn take_assigned(&mut self) -> Vec<PartitionId> {
        std::mem::take(&mut self.consumer.context().state().new).iter().map(KafkaPartition::id).collect()
    }

    fn is_assigned(&self, id: &PartitionId) -> bool {
        self.consumer.context().state().assigned.contains(&KafkaPartition::from_id(id))
    }

    fn position(&mut self, id: &PartitionId) -> Result<Position, SourceError> {
        let committed = self.committed(id).map_err(|error| self.failed(&error))?;
        let first = self.offset_at(id, Offset::Beginning, CONSUMER_BROKER_TIMEOUT)?;
        let end = self.offset_at(id, Offset::End, CONSUMER_BROKER_TIMEOUT)?;
        Ok(Position::new(committed, self.start_from, first, end))
    }

    fn start(&mut self, id: &PartitionId, offset: i64) -> Result<(), SourceError> {
        let partition = KafkaPartition::from_id(id);
        // What an earlier assignment still reads.
        self.stop(id)?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&partition.topic, partition.number, Offset::Offset(offset))
            .and_then(|()| self.consumer.incremental_assign(&list))
            .map_err(|error| self.failed(&error))?;
        self.consumer.context().state().read.insert(partition);
        // It may have been paused when it was read before.
        self.resume(std::slice::from_ref(id))
    }

    fn stop(&mut self, id: &PartitionId) -> Result<(), SourceError> {
        let partition = KafkaPartition::from_id(id);
        self.early.retain(|record| record.partition != *id);
        let mut state = self.consumer.context().state();
        state.fetched.remove(&partition);
        if !state.read.remove(&partition) {
            return Ok(());
        }
        drop(state);
        let list = partitions::plain_list(std::slice::from_ref(id));
        self.consumer.incremental_unassign(&list).map_err(|error| self.failed(&error))
    }

    fn pause(&mut self, ids: &[PartitionId]) -> Result<(), SourceError> {
        self.consumer.pause(&partitions::plain_list(ids)).map_err(|error| self.failed(&error))
    }

    fn resume(&mut self, ids: &[PartitionId]) -> Result<(), SourceError> {
        self.consumer.resume(&partitions::plain_list(ids)).map_err(|error| self.failed(&error))?;
        self.wake(ids);
        Ok(())
    }

    fn commit(&mut self, commits: &[Commit]) -> Result<(), SourceError> {
        let list = partitions::list(commits).map_err(|error| self.failed(&error))?;
        self.consumer.commit(&list, CommitMode::Async).map_err(|error| self.failed(&error))
    }

    /// Reads back what the broker has. The client's own way of waiting has no bound, and it calls no callback (rdkafka 0.39).
    fn commit_and_wait(&mut self, commits: &[Commit]) -> Result<(), SourceError> {
        if commits.is_empty() {
            return Ok(());
        }
        self.commit(commits)?;
        let mut committed_at = Instant::now();
        let ids: Vec<PartitionId> = commits.iter().map(|commit| commit.partition.clone()).collect();
        let deadline = Instant::now() + CONSUMER_BROKER_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(SourceError(format!("the broker did not take offsets within {CONSUMER_BROKER_TIMEOUT:?}")));
            }
            let found = self.consumer.committed_offsets(partitions::plain_list(&ids), left);
            if partitions::has_all(&found.map_err(|error| self.failed(&error))?, commits) {
                return Ok(());
            }
            if let Some(record) = self.poll_client(CONSUMER_BUSY_POLL_TIMEOUT)? {
                self.early.push_back(record);
            }
            // The broker refuses a commit in a rebalance, and the client tells nobody: commit again. Leave out partitions that went away. The
            // broker takes an offset from any member, so it would go back behind what the new owner has done.
            if committed_at.elapsed() >= CONSUMER_COMMIT_INTERVAL {
                let owned = commits.iter().filter(|commit| self.is_assigned(&commit.partition));
                let owned: Vec<Commit> = owned.cloned().collect();
                if owned.is_empty() {
                    return Err(SourceError(
                        "its partitions went to another owner before it took their offsets".to_owned(),
                    ));
                }
                self.commit(&owned)?;
                committed_at = Instant::now();
            }
        }
    }

    fn end(&mut self, id: &PartitionId) -> Result<i64, SourceError> {
        self.offset_at(id, Offset::End, CONSUMER_LAG_TIMEOUT)
    }

    fn fetched(&self, id: &PartitionId) -> Option<i64> {
        let is_taken = self.early.iter().all(|record| record.partition != *id);
        let next = self.consumer.context().state().fetched.get(&KafkaPartition::from_id(id)).copied();
        next.filter(|_| is_taken)
    }
}
