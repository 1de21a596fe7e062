//! The brokers, as the loop uses them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::calls::Member;
use super::commits::Commits;
use super::members::{self, Share};
use super::queues::Queue;
use super::reader::{Event, Reader};
use crate::consumer::engine::{Commit, Note};
use crate::consumer::options::StartFrom;
use crate::consumer::record::{PartitionId, Record};
use crate::consumer::source::{Position, RevocationListener, Source, SourceError};
use crate::limits::{
    CONSUMER_BROKER_TIMEOUT, CONSUMER_LAG_TIMEOUT, ROCKETMQ_END_TIMEOUT, ROCKETMQ_QUEUE_NAME_BYTES_MAX,
};
use crate::transport::Line;

pub(super) struct RocketMqSource {
    member: Arc<Member>,
    listener: Arc<dyn RevocationListener>,
    start_from: StartFrom,
    line: Line,
    commits: Commits,
    share: Arc<Share>,
    watch: JoinHandle<()>,
    events: UnboundedReceiver<Event>,
    sender: UnboundedSender<Event>,
    assigned: BTreeSet<PartitionId>,
    /// What of it is not told to the loop yet.
    new: Vec<PartitionId>,
    /// What of it is read.
    readers: BTreeMap<PartitionId, Reader>,
    generations: u64,
    /// The queue whose record came last.
    last: Option<PartitionId>,
    is_out_of_range: bool,
}

impl RocketMqSource {
    pub(super) fn new(member: Arc<Member>, start_from: StartFrom, listener: Arc<dyn RevocationListener>) -> Self {
        let (sender, events) = unbounded_channel();
        let share = Arc::new(Share::default());
        let watching = members::watch(Arc::clone(&member), Arc::clone(&share), sender.clone());
        let watch = member.requests.runtime().spawn(watching);
        Self {
            line: member.requests.line(),
            commits: Commits::new(&member),
            member,
            listener,
            start_from,
            share,
            watch,
            events,
            sender,
            assigned: BTreeSet::new(),
            new: Vec::new(),
            readers: BTreeMap::new(),
            generations: 0,
            last: None,
            is_out_of_range: false,
        }
    }

    /// Gives queues back that are another member's now, and takes those that are this one's.
    fn rebalance(&mut self) -> Result<(), SourceError> {
        let Some(share) = self.share.take() else { return Ok(()) };
        let share: BTreeSet<PartitionId> = share.iter().map(Queue::id).collect();
        let revoked: Vec<PartitionId> = self.assigned.difference(&share).cloned().collect();
        for id in &revoked {
            self.readers.remove(id);
        }
        self.new.retain(|id| share.contains(id));
        self.new.extend(share.difference(&self.assigned).cloned());
        self.assigned = share;
        if revoked.is_empty() {
            return Ok(());
        }
        let commits = self.listener.revoke(&revoked, false);
        self.commit_and_wait(&commits)
    }

    /// The next record that is here, of each queue in turn.
    fn next(&mut self) -> Option<Record> {
        let last = self.last.take();
        let begin = last.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.readers.range_mut((begin, Bound::Unbounded)).find_map(|(_, reader)| reader.next());
        let found = behind.or_else(|| self.readers.values_mut().find_map(Reader::next));
        self.last = found.as_ref().map(|record| record.partition.clone()).or(last);
        found
    }

    /// The reader of a queue, unless it has ended since.
    fn reader(&mut self, id: &PartitionId, generation: u64) -> Option<&mut Reader> {
        self.readers.get_mut(id).filter(|reader| reader.generation == generation)
    }

    fn take(&mut self, event: Event) -> Result<(), SourceError> {
        match event {
            Event::Records { id, generation, records } => {
                if let Some(reader) = self.reader(&id, generation) {
                    reader.add(records);
                }
            }
            Event::OutOfRange { id, generation } => self.is_out_of_range |= self.reader(&id, generation).is_some(),
            Event::Trouble(trouble) => return Err(SourceError(trouble)),
        }
        Ok(())
    }

    fn set_paused(&mut self, ids: &[PartitionId], is_paused: bool) {
        for id in ids {
            if let Some(reader) = self.readers.get_mut(id) {
                reader.is_paused = is_paused;
            }
        }
    }
}

impl Source for RocketMqSource {
    fn poll(&mut self, within: Duration) -> Result<Option<Record>, SourceError> {
        self.rebalance()?;
        self.commits.go_on().map_err(SourceError)?;
        while let Ok(event) = self.events.try_recv() {
            self.take(event)?;
        }
        if let Some(record) = self.next() {
            return Ok(Some(record));
        }
        if within.is_zero() {
            return Ok(None);
        }
        let events = &mut self.events;
        let received = self.member.requests.runtime().block_on(async { timeout(within, events.recv()).await });
        if let Ok(Some(event)) = received {
            self.take(event)?;
        }
        Ok(self.next())
    }

    fn take_out_of_range(&mut self) -> bool {
        std::mem::take(&mut self.is_out_of_range)
    }

    fn take_assigned(&mut self) -> Vec<PartitionId> {
        std::mem::take(&mut self.new)
    }

    fn is_assigned(&self, id: &PartitionId) -> bool {
        self.assigned.contains(id)
    }

    fn position(&mut self, id: &PartitionId) -> Result<Position, SourceError> {
        if id.name.len() > ROCKETMQ_QUEUE_NAME_BYTES_MAX {
            let most = ROCKETMQ_QUEUE_NAME_BYTES_MAX;
            return Err(SourceError(format!("the queue's name has more than {most} bytes: shorten the broker's name")));
        }
        let (member, line, queue) = (&self.member, &self.line, Queue::from_id(id));
        let asked = async {
            let (committed, first) = (member.committed(line, &queue).await?, member.first(line, &queue).await?);
            Ok::<_, String>((committed, first, member.end(line, &queue, member.requests.timeout()).await?))
        };
        let (committed, first, end) = member.requests.runtime().block_on(asked).map_err(SourceError)?;
        // A group's offsets hold no notes.
        let committed = committed.map(|next| (next, Note::default()));
        Ok(Position::new(committed, self.start_from, first, end))
    }

    fn start(&mut self, id: &PartitionId, offset: i64) -> Result<(), SourceError> {
        self.generations += 1;
        let reader = Reader::start(&self.member, Queue::from_id(id), offset, self.generations, self.sender.clone());
        // An earlier one ends.
        self.readers.insert(id.clone(), reader);
        Ok(())
    }

    fn stop(&mut self, id: &PartitionId) -> Result<(), SourceError> {
        self.readers.remove(id);
        Ok(())
    }

    fn pause(&mut self, ids: &[PartitionId]) -> Result<(), SourceError> {
        self.set_paused(ids, true);
        Ok(())
    }

    fn resume(&mut self, ids: &[PartitionId]) -> Result<(), SourceError> {
        self.set_paused(ids, false);
        Ok(())
    }

    fn commit(&mut self, commits: &[Commit]) -> Result<(), SourceError> {
        self.commits.add(commits);
        self.commits.go_on().map_err(SourceError)
    }

    fn commit_and_wait(&mut self, commits: &[Commit]) -> Result<(), SourceError> {
        if commits.is_empty() {
            return Ok(());
        }
        self.commits.add(commits);
        self.commits.finish(CONSUMER_BROKER_TIMEOUT).map_err(SourceError)
    }

    fn end(&mut self, id: &PartitionId) -> Result<i64, SourceError> {
        let (member, line, queue) = (&self.member, &self.line, Queue::from_id(id));
        let asked = member.end(line, &queue, CONSUMER_LAG_TIMEOUT);
        member.requests.runtime().block_on(asked).map_err(SourceError)
    }
}

impl Drop for RocketMqSource {
    /// Leaves the group.
    fn drop(&mut self) {
        self.watch.abort();
        self.readers.clear();
        let (member, line) = (&self.member, &self.line);
        let left = async { timeout(ROCKETMQ_END_TIMEOUT, member.leave(line)).await };
        if member.requests.runtime().block_on(left).is_err() {
            tracing::debug!("no broker was told in time that a consumer has left");
        }
    }
}
