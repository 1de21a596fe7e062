use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bounds what the transport holds: the client library itself has no limit.
#[derive(Debug)]
pub(super) struct Capacity {
    messages: AtomicUsize,
    messages_max: usize,
}

impl Capacity {
    pub(super) fn new(messages_max: usize) -> Arc<Self> {
        Arc::new(Self { messages: AtomicUsize::new(0), messages_max })
    }

    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.messages.load(Ordering::Acquire)
    }

    /// A permit for one message; `None` if none is left.
    pub(super) fn enter(self: &Arc<Self>) -> Option<CapacityPermit> {
        let taken = self.messages.fetch_add(1, Ordering::AcqRel);
        let permit = CapacityPermit(Arc::clone(self));
        (taken < self.messages_max).then_some(permit)
    }
}

/// A message's permit, released when it is dropped.
#[derive(Debug)]
pub(super) struct CapacityPermit(Arc<Capacity>);

impl Drop for CapacityPermit {
    fn drop(&mut self) {
        self.0.messages.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::Capacity;

    #[test]
    fn a_dropped_permit_frees_its_place() {
        let capacity = Capacity::new(2);
        let places = [capacity.enter(), capacity.enter()];
        assert!(places.iter().all(Option::is_some) && capacity.enter().is_none());
        drop(places);
        assert!(capacity.enter().is_some());
    }
}
