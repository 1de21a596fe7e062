use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::time::Instant;

use super::config::RocketMqConfig;
use super::health::Health;
use super::queues::{self, Queue};
use super::send_queue::{QueuedMessage, SendQueue};
use crate::limits::{ROCKETMQ_ROUTE_INTERVAL, ROCKETMQ_ROUTE_INTERVAL_MIN, ROCKETMQ_TOPIC_CHARS_MAX};

/// The topics of the messages handed over so far.
#[derive(Default)]
pub(super) struct Topics(RwLock<HashMap<Arc<str>, Arc<Topic>>>);

/// The state of one topic, and its messages.
pub(super) struct Topic {
    pub(super) name: Arc<str>,
    pub(super) wire_name: String,
    /// Whether brokers accept a topic of this name. Dots, which the outbox allows, are refused.
    pub(super) is_legal: bool,
    /// Whether its messages may be sent in batches.
    pub(super) batches: bool,
    turn: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// One for each queue; empty while the queues are unknown.
    send_queues: Vec<Arc<SendQueue>>,
    /// Send queues of unused queues that still hold something. A queue that comes back keeps its send queue: otherwise
    /// it could have two requests in flight.
    left: Vec<Arc<SendQueue>>,
    /// Messages that arrived while the queues were unknown, in order.
    waiting: Vec<QueuedMessage>,
    read_at: Option<Instant>,
    is_read: bool,
}

/// What a caller has to do after messages were handed over.
pub(super) struct Next {
    /// The send queues without a worker.
    pub(super) starts: Vec<Arc<SendQueue>>,
    /// Whether to read the topic's queues.
    pub(super) reads: bool,
}

impl Topics {
    pub(super) fn of(&self, name: &Arc<str>, config: &RocketMqConfig) -> Arc<Topic> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).map(Arc::clone);
        known.unwrap_or_else(|| {
            let mut topics = self.0.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(topics.entry(Arc::clone(name)).or_insert_with(|| Arc::new(Topic::new(name, config))))
        })
    }

    pub(super) fn all(&self) -> Vec<Arc<Topic>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().map(Arc::clone).collect()
    }
}

impl Topic {
    fn new(name: &Arc<str>, config: &RocketMqConfig) -> Self {
        let wire_name = config.wire_name(name);
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '%' | '|');
        Self {
            is_legal: (1..=ROCKETMQ_TOPIC_CHARS_MAX).contains(&wire_name.len()) && wire_name.chars().all(legal),
            name: Arc::clone(name),
            wire_name,
            batches: !config.broker_delays.contains_key(name),
            turn: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    /// Appends messages to their send queues. One lock covers all, so that they stay in the order of the calls.
    pub(super) fn hand_over(&self, entries: Vec<QueuedMessage>, health: &Health) -> Next {
        let mut state = self.state();
        if state.send_queues.is_empty() {
            state.waiting.extend(entries);
            return Next { starts: Vec::new(), reads: !std::mem::replace(&mut state.is_read, true) };
        }
        let starts = self.enqueue(&state.send_queues, entries, health);
        let is_old = state.read_at.is_none_or(|at| at.elapsed() >= ROCKETMQ_ROUTE_INTERVAL);
        let reads = is_old && !std::mem::replace(&mut state.is_read, true);
        Next { starts, reads }
    }

    /// Appends messages to these send queues. Returns those without a worker.
    fn enqueue(
        &self,
        send_queues: &[Arc<SendQueue>],
        entries: Vec<QueuedMessage>,
        health: &Health,
    ) -> Vec<Arc<SendQueue>> {
        let mut starts = Vec::new();
        for entry in entries {
            if let Some(send_queue) = self.choose(send_queues, &entry, health)
                && send_queue.push(entry)
            {
                starts.push(send_queue);
            }
        }
        starts
    }

    /// Requests the queues to be read again soon, because one of them failed. Returns whether to begin.
    pub(super) fn request_refresh(&self) -> bool {
        let mut state = self.state();
        let is_old = state.read_at.is_none_or(|at| at.elapsed() >= ROCKETMQ_ROUTE_INTERVAL_MIN);
        is_old && !std::mem::replace(&mut state.is_read, true)
    }

    /// Takes the queues that the name servers report, and queues the waiting messages. Returns the send queues without
    /// a worker. A known queue keeps its send queue. What waits for a removed queue is still sent.
    pub(super) fn found(&self, queues: Vec<Queue>, health: &Health) -> Vec<Arc<SendQueue>> {
        let mut state = self.state();
        let mut known = std::mem::take(&mut state.send_queues);
        known.append(&mut state.left);
        let send_queue = |queue: Queue| {
            known.iter().find(|send_queue| send_queue.queue == queue).map_or_else(|| SendQueue::new(queue), Arc::clone)
        };
        let send_queues: Vec<_> = queues.into_iter().map(send_queue).collect();
        known.retain(|send_queue| {
            !send_queue.is_idle() && !send_queues.iter().any(|used| Arc::ptr_eq(used, send_queue))
        });
        state.left = known;
        let starts = self.enqueue(&send_queues, std::mem::take(&mut state.waiting), health);
        state.send_queues = send_queues;
        state.read_at = Some(Instant::now());
        state.is_read = false;
        starts
    }

    /// The look-up gave no usable answer: known queues stay. Returns the messages that waited for it.
    pub(super) fn not_found(&self) -> Vec<QueuedMessage> {
        let mut state = self.state();
        state.is_read = false;
        state.read_at = Some(Instant::now());
        std::mem::take(&mut state.waiting)
    }

    /// A broker does not know the topic: its queues are read before the next message.
    pub(super) fn forget(&self) {
        let mut state = self.state();
        // What waits in the send queues stays there: the worker that got the answer goes on with them.
        let send_queues = std::mem::take(&mut state.send_queues);
        state.left.extend(send_queues);
        state.read_at = None;
    }

    /// Removes everything that waits, to be dropped.
    pub(super) fn take(&self) -> Vec<QueuedMessage> {
        let mut state = self.state();
        let mut entries = std::mem::take(&mut state.waiting);
        entries.extend(state.send_queues.iter().chain(&state.left).flat_map(|send_queue| send_queue.take()));
        entries
    }

    /// The send queue of a message: by its key. Without a key, the next one whose broker answers and that holds the
    /// least.
    fn choose(&self, send_queues: &[Arc<SendQueue>], entry: &QueuedMessage, health: &Health) -> Option<Arc<SendQueue>> {
        if let Some(key) = &entry.envelope.key {
            return send_queues.get(queues::index_of(key, send_queues.len())).map(Arc::clone);
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let turned = send_queues.iter().cycle().skip(turn % send_queues.len().max(1)).take(send_queues.len());
        turned.min_by_key(|send_queue| (health.is_down(&send_queue.queue.broker), send_queue.len())).map(Arc::clone)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
