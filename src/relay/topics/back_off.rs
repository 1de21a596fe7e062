//! A topic that the relay backs off from.

use crate::clock::BootInstant;

/// Until when, and why.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct BackOff {
    /// `None` if it is not backed off.
    until: Option<BootInstant>,
    /// The receiver requested this end, so a success of an earlier send does not bring it forward.
    requested: bool,
    /// The broker refuses the topic.
    refused: bool,
}

impl BackOff {
    /// Backs off until `until`, or longer if that already holds. Returns whether this is new.
    pub(crate) fn extend(&mut self, until: BootInstant, requested: bool) -> bool {
        let is_new = self.until.is_none() || (!requested && !self.refused);
        if self.until.is_none_or(|known| known < until) {
            (self.until, self.requested) = (Some(until), requested);
        }
        self.refused |= !requested;
        is_new
    }

    pub(crate) fn is_active(&self, now: BootInstant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    pub(crate) fn is_refusal(&self) -> bool {
        self.refused
    }

    pub(crate) fn is_on_trial(&self) -> bool {
        self.until.is_some()
    }

    /// A message was accepted. Returns whether that ended a refusal.
    pub(crate) fn accepted(&mut self, now: BootInstant) -> bool {
        let was_refused = std::mem::take(&mut self.refused);
        if !(self.requested && self.is_active(now)) {
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
    fn a_success_ends_a_refusal_but_no_requested_pause() {
        let now = SystemClock.now();
        let later = |seconds| now + Duration::from_secs(seconds);
        let mut back_off = BackOff::default();
        assert!(back_off.extend(later(10), false) && !back_off.extend(later(10), false), "new once");
        assert!(back_off.is_active(now) && back_off.is_refusal());
        assert!(back_off.accepted(now) && !back_off.is_active(now) && !back_off.is_on_trial());

        assert!(back_off.extend(later(60), true));
        assert!(!back_off.is_refusal());
        assert!(!back_off.extend(later(5), true), "a shorter one does not bring the end forward");
        assert!(!back_off.accepted(later(59)), "it was sent before");
        assert!(back_off.is_active(later(59)) && !back_off.is_active(later(60)));
        assert!(!back_off.accepted(later(60)) && !back_off.is_on_trial());
    }

    #[test]
    fn a_refusal_in_a_pause_shows_and_its_end_leaves_the_pause() {
        let now = SystemClock.now();
        let later = |seconds| now + Duration::from_secs(seconds);
        let mut back_off = BackOff::default();
        back_off.extend(later(60), true);
        assert!(back_off.extend(later(10), false) && back_off.is_refusal());
        assert!(back_off.accepted(later(20)) && back_off.is_active(later(59)));
    }
}
