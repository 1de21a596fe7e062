use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::limits::KAFKA_LOOK_UP_INTERVAL_MIN;

/// Asks for a topic's metadata without waiting for it; a thread of its own does.
#[derive(Debug, Clone)]
pub(super) struct LookUps {
    asked: Sender<Arc<str>>,
    asked_at: Arc<Mutex<HashMap<Arc<str>, Instant>>>,
}

impl LookUps {
    pub(super) fn new() -> (Self, Receiver<Arc<str>>) {
        let (asked, asks) = channel();
        (Self { asked, asked_at: Arc::default() }, asks)
    }

    /// Asks, unless that was done a moment ago.
    pub(super) fn ask(&self, topic: &Arc<str>) {
        let now = Instant::now();
        let mut asked_at = self.asked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let due = asked_at.get(topic).is_none_or(|&at| now.duration_since(at) >= KAFKA_LOOK_UP_INTERVAL_MIN);
        if due {
            asked_at.insert(Arc::clone(topic), now);
            // The thread is gone only when the transport is.
            let _ = self.asked.send(Arc::clone(topic));
        }
    }
}
