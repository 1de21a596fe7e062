use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bounds what the transport holds: the client library has no bound of its own for what it is given.
#[derive(Debug)]
pub(super) struct Room {
    messages: AtomicUsize,
    messages_max: usize,
}

impl Room {
    pub(super) fn new(messages_max: usize) -> Arc<Self> {
        Arc::new(Self { messages: AtomicUsize::new(0), messages_max })
    }

    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.messages.load(Ordering::Acquire)
    }

    /// A place for one message; `None` where there is none left.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Place> {
        let taken = self.messages.fetch_add(1, Ordering::AcqRel);
        let place = Place(Arc::clone(self));
        (taken < self.messages_max).then_some(place)
    }
}

/// A message's place, given up when it is dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<Room>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.messages.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn who_leaves_makes_room() {
        let room = Room::new(2);
        let places = [room.enter(), room.enter()];
        assert!(places.iter().all(Option::is_some) && room.enter().is_none());
        drop(places);
        assert!(room.enter().is_some());
    }
}
