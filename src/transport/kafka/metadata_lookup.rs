use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::KAFKA_LOOKUP_INTERVAL_MIN;

/// A request to the [reader](super::reader).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum LookupRequest {
    /// Read a topic's partitions. This also refreshes the client's own view of the topic.
    Topic(Arc<str>),
    /// Check whether a broker is reachable again.
    Reachability,
}

/// Requests metadata without waiting for it. Each request is queued once at a time, so the queue is bounded by the
/// number of topics.
#[derive(Debug, Clone)]
pub(super) struct MetadataLookups {
    requests: Sender<LookupRequest>,
    /// When each was last looked up; `None` while the request is queued.
    requested_at: Arc<Mutex<HashMap<LookupRequest, Option<Instant>>>>,
}

impl MetadataLookups {
    pub(super) fn new() -> (Self, Receiver<LookupRequest>) {
        let (requests, receiver) = channel();
        (Self { requests, requested_at: Arc::default() }, receiver)
    }

    /// Requests a look-up, unless it is queued already, or the topic was looked up a moment ago: its next message asks
    /// again.
    pub(super) fn request(&self, request: LookupRequest) {
        let rest = if request == LookupRequest::Reachability { Duration::ZERO } else { KAFKA_LOOKUP_INTERVAL_MIN };
        let is_due = |at: &Option<Instant>| at.is_some_and(|at| at.elapsed() >= rest);
        let mut requested_at = self.requested_at();
        if requested_at.get(&request).is_none_or(is_due) {
            requested_at.insert(request.clone(), None);
            // The reader ends only with the transport.
            let _ = self.requests.send(request);
        }
    }

    /// Marks a request as done.
    pub(super) fn done(&self, request: LookupRequest) {
        self.requested_at().insert(request, Some(Instant::now()));
    }

    fn requested_at(&self) -> MutexGuard<'_, HashMap<LookupRequest, Option<Instant>>> {
        self.requested_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lookups_of_a_topic_are_rate_limited() {
        let (lookups, receiver) = MetadataLookups::new();
        let requests = |request: fn() -> LookupRequest| {
            (0..1_000).for_each(|_| lookups.request(request()));
            receiver.try_iter().count()
        };
        let orders: fn() -> LookupRequest = || LookupRequest::Topic("orders".into());
        assert_eq!(requests(orders), 1, "the second request joins the first");
        lookups.done(orders());
        assert_eq!(requests(orders), 0);
        tokio::time::advance(KAFKA_LOOKUP_INTERVAL_MIN - Duration::from_millis(1)).await;
        assert_eq!(requests(orders), 0);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(requests(orders), 1);
        assert_eq!(requests(|| LookupRequest::Reachability), 1);
        lookups.done(LookupRequest::Reachability);
        assert_eq!(requests(|| LookupRequest::Reachability), 1, "a reachability check is not delayed");
    }
}
