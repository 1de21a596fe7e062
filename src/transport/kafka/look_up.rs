use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::KAFKA_LOOK_UP_INTERVAL_MIN;

/// What the [reader](super::reader) is asked to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Ask {
    /// Which partitions the topic has. The client's own view of the topic is refreshed by it, too.
    Topic(Arc<str>),
    /// Whether a broker is there again.
    Life,
}

/// Asks for metadata without waiting for it. Each thing is asked for once at a time, so what waits is bounded by the
/// number of topics.
#[derive(Debug, Clone)]
pub(super) struct LookUps {
    asks: Sender<Ask>,
    /// When each was last looked at; `None` while it waits for that.
    looked_at: Arc<Mutex<HashMap<Ask, Option<Instant>>>>,
}

impl LookUps {
    pub(super) fn new() -> (Self, Receiver<Ask>) {
        let (asks, asked) = channel();
        (Self { asks, looked_at: Arc::default() }, asked)
    }

    /// Asks, unless it is asked already, or is a topic that was looked at a moment ago: its next message asks again.
    pub(super) fn ask(&self, ask: Ask) {
        let rest = if ask == Ask::Life { Duration::ZERO } else { KAFKA_LOOK_UP_INTERVAL_MIN };
        let is_due = |at: &Option<Instant>| at.is_some_and(|at| at.elapsed() >= rest);
        let mut looked_at = self.looked_at();
        if looked_at.get(&ask).is_none_or(is_due) {
            looked_at.insert(ask.clone(), None);
            // The reader is gone only when the transport is.
            let _ = self.asks.send(ask);
        }
    }

    /// It was looked at.
    pub(super) fn done(&self, ask: Ask) {
        self.looked_at().insert(ask, Some(Instant::now()));
    }

    fn looked_at(&self) -> MutexGuard<'_, HashMap<Ask, Option<Instant>>> {
        self.looked_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_topic_is_looked_up_no_more_often_than_it_may_be_however_often_it_is_asked_for() {
        let (look_ups, asked) = LookUps::new();
        let asks = |ask: fn() -> Ask| {
            (0..1_000).for_each(|_| look_ups.ask(ask()));
            asked.try_iter().count()
        };
        let orders: fn() -> Ask = || Ask::Topic("orders".into());
        assert_eq!(asks(orders), 1, "it waits for that one");
        look_ups.done(orders());
        assert_eq!(asks(orders), 0);
        tokio::time::advance(KAFKA_LOOK_UP_INTERVAL_MIN - Duration::from_millis(1)).await;
        assert_eq!(asks(orders), 0);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(asks(orders), 1);
        assert_eq!(asks(|| Ask::Life), 1);
        look_ups.done(Ask::Life);
        assert_eq!(asks(|| Ask::Life), 1, "a broker is looked for at once");
    }
}
