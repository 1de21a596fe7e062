use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::limits::KAFKA_LOOK_UP_INTERVAL_MIN;

/// What the [reader](super::reader) is asked to look at.
#[derive(Debug)]
pub(super) enum Ask {
    /// How many partitions the topic has. The client's own view of the topic is refreshed by it, too.
    Topic(Arc<str>),
    /// Whether a broker is there again.
    Life,
}

/// Asks for metadata without waiting for it.
#[derive(Debug, Clone)]
pub(super) struct LookUps {
    asks: Sender<Ask>,
    asked_at: Arc<Mutex<HashMap<Arc<str>, Instant>>>,
}

impl LookUps {
    pub(super) fn new() -> (Self, Receiver<Ask>) {
        let (asks, asked) = channel();
        (Self { asks, asked_at: Arc::default() }, asked)
    }

    /// Asks for a topic, unless that was done a moment ago.
    pub(super) fn ask(&self, topic: &Arc<str>) {
        let now = Instant::now();
        let mut asked_at = self.asked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let due = asked_at.get(topic).is_none_or(|&at| now.duration_since(at) >= KAFKA_LOOK_UP_INTERVAL_MIN);
        if due {
            asked_at.insert(Arc::clone(topic), now);
            self.send(Ask::Topic(Arc::clone(topic)));
        }
    }

    /// Asks for a sign of life.
    pub(super) fn ask_for_life(&self) {
        self.send(Ask::Life);
    }

    fn send(&self, ask: Ask) {
        // The reader is gone only when the transport is.
        let _ = self.asks.send(ask);
    }
}
