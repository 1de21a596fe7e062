use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::fence::Fence;
use super::script::{Script, ScriptedResponse};
use crate::limits::MEMORY_DELIVERY_TIMEOUT;
use crate::message::Envelope;
use crate::transport::{
    DeliveredRows, FailureClass, KeySequence, LaneName, OutboxRow, Outcome, OutcomeSender, TransportError,
};

#[derive(Debug)]
pub(super) struct Sent {
    pub(super) envelope: Envelope,
    pub(super) sender: OutcomeSender,
    /// For a fenced topic.
    pub(super) lane: Option<SentInLane>,
}

#[derive(Debug, Clone)]
pub(super) struct SentInLane {
    pub(super) fence: Fence,
    pub(super) sequence: KeySequence,
    /// On an exactly-once lane.
    pub(super) row: Option<OutboxRow>,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    state: Mutex<State>,
    changed: Notify,
    changed_blocking: Condvar,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) stored: Vec<Envelope>,
    pub(super) sends: usize,
    pub(super) script: Script,
    pub(super) down: Option<FailureClass>,
    pub(super) latency: Duration,
    pub(super) queue_max: usize,
    pub(super) delivery_timeout: Duration,
    pub(super) holding: bool,
    /// Held back until released.
    pub(super) held: VecDeque<Sent>,
    /// In transit for the latency.
    travelling: VecDeque<Sent>,
    /// Never answered. Kept, because dropping an outcome sender would answer.
    never_answered: Vec<Sent>,
    /// How often each lane was fenced.
    pub(super) fences: HashMap<LaneName, u64>,
    /// What exactly-once lanes have delivered, and may not have settled.
    pub(super) once: HashMap<LaneName, DeliveredRows>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            stored: Vec::new(),
            sends: 0,
            script: Script::default(),
            down: None,
            latency: Duration::ZERO,
            queue_max: usize::MAX,
            delivery_timeout: MEMORY_DELIVERY_TIMEOUT,
            holding: false,
            held: VecDeque::new(),
            travelling: VecDeque::new(),
            never_answered: Vec::new(),
            fences: HashMap::new(),
            once: HashMap::new(),
        }
    }
}

impl State {
    pub(super) fn in_flight(&self) -> usize {
        self.held.len() + self.travelling.len() + self.never_answered.len()
    }

    fn arrive(&mut self, sent: Sent) -> Option<(OutcomeSender, Outcome)> {
        if self.holding {
            self.held.push_back(sent);
            None
        } else {
            self.decide(sent)
        }
    }

    /// Decides a message's outcome; `None` means that it is never answered.
    fn decide(&mut self, sent: Sent) -> Option<(OutcomeSender, Outcome)> {
        let lane = sent.lane.clone();
        let refused = lane.as_ref().and_then(|lane| lane.fence.refuses(&lane.sequence, &self.fences));
        let answered = match refused {
            Some(error) => Some((sent.sender, Outcome::Failed(error))),
            None if lane.as_ref().is_some_and(|lane| self.has_delivered(lane)) => {
                Some((sent.sender, Outcome::Delivered))
            }
            None => self.respond(sent),
        };
        let outcome = answered.as_ref().map(|(_, outcome)| outcome);
        if let Some(lane) = lane.filter(|_| !matches!(outcome, Some(Outcome::Delivered))) {
            lane.sequence.fail();
            outcome.into_iter().for_each(|outcome| lane.fence.observe(outcome));
        }
        answered
    }

    fn has_delivered(&mut self, lane: &SentInLane) -> bool {
        let delivered = self.once.get_mut(lane.fence.lane());
        lane.row.as_ref().zip(delivered).is_some_and(|(row, delivered)| delivered.has(row))
    }

    fn store(&mut self, envelope: Envelope, lane: Option<SentInLane>) {
        self.stored.push(envelope);
        if let Some(SentInLane { fence, row: Some(row), .. }) = lane {
            self.once.entry(fence.lane().clone()).or_default().add(row);
        }
    }

    fn respond(&mut self, sent: Sent) -> Option<(OutcomeSender, Outcome)> {
        if let Some(class) = self.down {
            return Some((sent.sender, down(class)));
        }
        let Sent { envelope, sender, lane } = sent;
        let outcome = match self.script.response(&envelope) {
            ScriptedResponse::Deliver => {
                self.store(envelope, lane);
                Outcome::Delivered
            }
            ScriptedResponse::Busy => Outcome::Busy,
            ScriptedResponse::Fail(class) => scripted(class),
            ScriptedResponse::StoreThenFail(class) => {
                self.store(envelope, lane);
                scripted(class)
            }
            ScriptedResponse::Silence => {
                self.never_answered.push(Sent { envelope, sender, lane });
                return None;
            }
        };
        Some((sender, outcome))
    }
}

impl Inner {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_up(&self) -> Result<(), TransportError> {
        self.state().down.map_or(Ok(()), |class| Err(TransportError::new(class, Down)))
    }

    pub(super) fn take(this: &Arc<Self>, sent: Sent) {
        let latency = {
            let mut state = this.state();
            state.sends += 1;
            if state.in_flight() >= state.queue_max {
                drop(state);
                this.notify();
                if let Some(lane) = &sent.lane {
                    lane.sequence.fail();
                }
                return sent.sender.complete(Outcome::Busy);
            }
            if state.latency.is_zero() {
                drop(state);
                return this.arrive(sent);
            }
            state.travelling.push_back(sent);
            state.latency
        };
        this.notify();
        let this = Arc::clone(this);
        // One task for each message, each answering the oldest: tasks may wake in any order, but messages arrive in
        // theirs.
        tokio::spawn(async move {
            tokio::time::sleep(latency).await;
            let oldest = this.state().travelling.pop_front();
            oldest.into_iter().for_each(|sent| this.arrive(sent));
        });
    }

    // Decided under the lock, reported outside it: the sink may call back.
    fn arrive(&self, sent: Sent) {
        let answered = self.state().arrive(sent);
        self.report(answered);
    }

    /// Releases the `count` oldest held messages. `holding` says whether later ones are held.
    pub(super) fn release(&self, count: usize, holding: bool) {
        let answered: Vec<_> = {
            let mut state = self.state();
            state.holding = holding;
            let count = count.min(state.held.len());
            let released: Vec<Sent> = state.held.drain(..count).collect();
            released.into_iter().filter_map(|sent| state.decide(sent)).collect()
        };
        self.report(answered);
    }

    fn report(&self, answered: impl IntoIterator<Item = (OutcomeSender, Outcome)>) {
        answered.into_iter().for_each(|(sender, outcome)| sender.complete(outcome));
        self.notify();
    }

    fn notify(&self) {
        self.changed.notify_waiters();
        self.changed_blocking.notify_all();
    }

    pub(super) async fn wait_until(&self, mut reached: impl FnMut(&State) -> bool, within: Duration) -> bool {
        let waiting = async {
            loop {
                let mut changed = pin!(self.changed.notified());
                changed.as_mut().enable();
                if reached(&self.state()) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(within, waiting).await.is_ok()
    }

    pub(super) fn wait_until_blocking(&self, mut reached: impl FnMut(&State) -> bool, within: Duration) -> bool {
        let waited = self.changed_blocking.wait_timeout_while(self.state(), within, |state| !reached(state));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

fn down(class: FailureClass) -> Outcome {
    Outcome::Failed(TransportError::new(class, Down))
}

fn scripted(class: FailureClass) -> Outcome {
    Outcome::Failed(TransportError::new(class, Scripted))
}

#[derive(Debug, thiserror::Error)]
#[error("the memory broker is down")]
struct Down;

#[derive(Debug, thiserror::Error)]
#[error("a scripted failure")]
struct Scripted;
