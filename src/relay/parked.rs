//! A topic that is left alone for a while.

use crate::clock::BootInstant;

/// Until when, and why.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Parked {
    /// `None` where it is not.
    until: Option<BootInstant>,
    /// The end was asked for by the receiver, so that no success of what was sent before brings it forward.
    asked: bool,
    /// The broker refuses the topic.
    refused: bool,
}

impl Parked {
    /// Leaves it alone until then, or longer where that is so already; says whether this is new.
    pub(crate) fn put_off(&mut self, until: BootInstant, asked: bool) -> bool {
        let is_new = self.until.is_none() || (!asked && !self.refused);
        if self.until.is_none_or(|known| known < until) {
            (self.until, self.asked) = (Some(until), asked);
        }
        self.refused |= !asked;
        is_new
    }

    pub(crate) fn is_now(&self, now: BootInstant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    pub(crate) fn is_refusal(&self) -> bool {
        self.refused
    }

    pub(crate) fn is_on_trial(&self) -> bool {
        self.until.is_some()
    }

    /// A message was taken; says whether that ended a refusal.
    pub(crate) fn taken(&mut self, now: BootInstant) -> bool {
        let was_refused = std::mem::take(&mut self.refused);
        if !(self.asked && self.is_now(now)) {
            *self = Self::default();
        }
        was_refused
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{Clock, SystemClock};

    #[test]
    fn a_success_ends_a_refusal_and_no_pause_that_was_asked_for() {
        let now = SystemClock.now();
        let later = |seconds| now + Duration::from_secs(seconds);
        let mut parked = Parked::default();
        assert!(parked.put_off(later(10), false) && !parked.put_off(later(10), false), "new once");
        assert!(parked.is_now(now) && parked.is_refusal());
        assert!(parked.taken(now) && !parked.is_now(now) && !parked.is_on_trial());

        assert!(parked.put_off(later(60), true));
        assert!(!parked.is_refusal());
        assert!(!parked.put_off(later(5), true), "a shorter one does not bring the end forward");
        assert!(!parked.taken(later(59)), "it was sent before");
        assert!(parked.is_now(later(59)) && !parked.is_now(later(60)));
        assert!(!parked.taken(later(60)) && !parked.is_on_trial());
    }

    #[test]
    fn a_refusal_in_a_pause_shows_and_its_end_leaves_the_pause() {
        let now = SystemClock.now();
        let later = |seconds| now + Duration::from_secs(seconds);
        let mut parked = Parked::default();
        parked.put_off(later(60), true);
        assert!(parked.put_off(later(10), false) && parked.is_refusal());
        assert!(parked.taken(later(20)) && parked.is_now(later(59)));
    }
}
