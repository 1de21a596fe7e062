//! Reads a queue ahead of the loop.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::calls::{Member, Pulled};
use super::queues::Queue;
use crate::consumer::record::{PartitionId, Record};
use crate::limits::{CONSUMER_OUTAGE_WAIT_MAX, CONSUMER_OUTAGE_WAIT_MIN, ROCKETMQ_PULLS_AHEAD};

/// What the loop is told.
pub(super) enum Event {
    Records {
        id: PartitionId,
        generation: u64,
        records: Vec<Record>,
    },
    /// The queue does not have the offset that was to be read.
    OutOfRange {
        id: PartitionId,
        generation: u64,
    },
    Trouble(String),
}

/// A queue that is read. Dropping it ends that.
pub(super) struct Reader {
    /// Tells its events from those of an earlier reader of the queue.
    pub(super) generation: u64,
    pub(super) is_paused: bool,
    answers: VecDeque<VecDeque<Record>>,
    /// Answers that it may still fetch.
    room: Arc<Semaphore>,
    task: JoinHandle<()>,
}

impl Reader {
    pub(super) fn start(
        member: &Arc<Member>,
        queue: Queue,
        offset: i64,
        generation: u64,
        events: UnboundedSender<Event>,
    ) -> Self {
        let room = Arc::new(Semaphore::new(ROCKETMQ_PULLS_AHEAD));
        let reading = read(Arc::clone(member), queue, offset, generation, Arc::clone(&room), events);
        let task = member.requests.runtime().spawn(reading);
        Self { generation, is_paused: false, answers: VecDeque::new(), room, task }
    }

    pub(super) fn add(&mut self, records: Vec<Record>) {
        self.answers.push_back(records.into());
    }

    /// The next record, unless the queue is paused. Once an answer is used up, the next one is fetched.
    pub(super) fn next(&mut self) -> Option<Record> {
        if self.is_paused {
            return None;
        }
        let answer = self.answers.front_mut()?;
        let record = answer.pop_front();
        if answer.is_empty() {
            self.answers.pop_front();
            self.room.add_permits(1);
        }
        record
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(
    member: Arc<Member>,
    queue: Queue,
    mut offset: i64,
    generation: u64,
    room: Arc<Semaphore>,
    events: UnboundedSender<Event>,
) {
    let (line, id) = (member.requests.line(), queue.id());
    let mut wait = CONSUMER_OUTAGE_WAIT_MIN;
    loop {
        let Ok(place) = room.acquire().await else { return };
        let pulled = member.pull(&line, &queue, offset).await;
        let event = match pulled {
            Ok(Pulled::Records(records)) => {
                offset = records.last().map_or(offset, |last| last.offset + 1);
                // Given back once the loop has taken them.
                place.forget();
                Some(Event::Records { id: id.clone(), generation, records })
            }
            Ok(Pulled::Nothing) => None,
            Ok(Pulled::NothingYet) => {
                sleep(wait).await;
                wait = (wait * 2).min(CONSUMER_OUTAGE_WAIT_MAX);
                continue;
            }
            Ok(Pulled::Gone(next)) => {
                offset = next;
                None
            }
            Ok(Pulled::OutOfRange) => {
                // The loop starts another reader, or has ended.
                drop(events.send(Event::OutOfRange { id, generation }));
                return;
            }
            Err(trouble) => {
                let Ok(()) = events.send(Event::Trouble(trouble)) else { return };
                sleep(wait).await;
                wait = (wait * 2).min(CONSUMER_OUTAGE_WAIT_MAX);
                continue;
            }
        };
        wait = CONSUMER_OUTAGE_WAIT_MIN;
        if let Some(event) = event {
            let Ok(()) = events.send(event) else { return };
        }
    }
}
