//! What is known of a host: whether it answers, and whether it asks for a pause.

use std::time::Duration;

use tokio::time::Instant;

use super::failure::{FailureKind, Scope};
use crate::limits::{HTTP_HOST_BACK_OFF_MAX, HTTP_HOST_BACK_OFF_MIN, HTTP_HOST_FAILURES_MAX};
use crate::transport::FailureClass;

#[derive(Debug, Default)]
pub(super) struct Health {
    /// Without an answer in between.
    consecutive_timeouts: u32,
    down: Option<Down>,
    /// The pause of an outage that a probe has ended, until a message has its answer.
    last_pause: Option<Duration>,
    paused_until: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Down {
    class: FailureClass,
    /// When a message may try.
    until: Instant,
    pause: Duration,
}

/// Whether a message may go to a host now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Allowed,
    /// It is down; tried again after this, which is no sooner than it asked for.
    Down(Duration),
    /// It asked to be left alone for this long.
    Paused(Duration),
}

impl Health {
    /// Asks for one message. A host that was down for its pause lets one through, and the next after another pause: so
    /// one that never gets its answer does not stand in the way.
    pub(super) fn admit(&mut self, now: Instant) -> Admission {
        let asked = self.paused_for(now);
        if let Some(down) = &mut self.down {
            let wait = asked.max(down.until.saturating_duration_since(now));
            if !wait.is_zero() {
                return Admission::Down(wait);
            }
            down.until = now + down.pause;
            return Admission::Allowed;
        }
        if asked.is_zero() { Admission::Allowed } else { Admission::Paused(asked) }
    }

    /// For how long it asked to be left alone from now on.
    pub(super) fn paused_for(&self, now: Instant) -> Duration {
        self.paused_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// It answered, whatever it said.
    pub(super) fn answered(&mut self) {
        (self.consecutive_timeouts, self.down, self.last_pause) = (0, None, None);
    }

    /// It answered a probe. Whether messages are let in is known by messages only, and a host that goes on refusing them goes
    /// on with its pauses.
    pub(super) fn probed(&mut self) {
        self.last_pause = self.down.map(|down| down.pause).or(self.last_pause);
        (self.consecutive_timeouts, self.down) = (0, None);
    }

    /// Whether a probe that is not let in proves that the host is back. It does where it could not be reached. Where messages
    /// were not let in it does not, but for one of them after each pause: a probe is not signed, and some receivers let no
    /// probe in at all.
    pub(super) fn refused_probe_means_up(&self, now: Instant) -> bool {
        self.down.is_none_or(|down| down.class != FailureClass::Authentication || now >= down.until)
    }

    /// Learns from a failure; says whether the host is down, so that what waits for it need not try.
    ///
    /// No connection is proof enough. No answer is not: one slow message among many that are answered is no outage, and a
    /// gateway whose application is restarted says 502 for a moment.
    /// Who is not let in may have a key that fits one URL and not the next; only where there is one host for all that is the
    /// host's.
    pub(super) fn failed(&mut self, kind: FailureKind, scope: Scope, now: Instant) -> bool {
        match kind {
            FailureKind::Unreachable => self.go_down(FailureClass::Connection, now),
            FailureKind::Unauthorized if scope == Scope::Transport => self.go_down(FailureClass::Authentication, now),
            FailureKind::NoResponse => {
                self.consecutive_timeouts = self.consecutive_timeouts.saturating_add(1);
                if self.down.is_some() || self.consecutive_timeouts >= HTTP_HOST_FAILURES_MAX {
                    self.go_down(FailureClass::Connection, now);
                }
            }
            FailureKind::Unauthorized
            | FailureKind::Paused
            | FailureKind::NotFound
            | FailureKind::Gone
            | FailureKind::AddressDenied
            | FailureKind::Refused
            | FailureKind::Class(_) => self.answered(),
        }
        self.down.is_some()
    }

    fn go_down(&mut self, class: FailureClass, now: Instant) {
        // Of many that fail at once each is news of the same outage, and none of a longer one.
        let pause = match self.down {
            Some(down) if now < down.until => down.pause,
            Some(down) => (down.pause * 2).min(HTTP_HOST_BACK_OFF_MAX),
            None => self.last_pause.map_or(HTTP_HOST_BACK_OFF_MIN, |pause| (pause * 2).min(HTTP_HOST_BACK_OFF_MAX)),
        };
        self.down = Some(Down { class, until: now + pause, pause });
    }

    pub(super) fn pause(&mut self, wait: Duration, now: Instant) {
        self.paused_until = self.paused_until.max(now.checked_add(wait));
    }

    /// What it is down with.
    pub(super) fn outage(&self) -> Option<FailureClass> {
        self.down.map(|down| down.class)
    }

    /// Whether a message may try: neither down nor paused, or for long enough.
    pub(super) fn is_pause_over(&self, now: Instant) -> bool {
        self.down.is_none_or(|down| now >= down.until) && self.paused_for(now).is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn a_host_without_connection_is_tried_after_growing_pauses() {
        let (mut health, mut now) = (Health::default(), Instant::now());
        let mut pause = HTTP_HOST_BACK_OFF_MIN;
        for _ in 0..10 {
            assert!(health.failed(FailureKind::Unreachable, Scope::Topic, now));
            assert_eq!(health.admit(now), Admission::Down(pause));
            assert_eq!(health.outage(), Some(FailureClass::Connection));
            now += pause;
            assert_eq!(health.admit(now), Admission::Allowed, "one tries");
            assert_eq!(health.admit(now), Admission::Down(pause), "and no other");
            now += pause;
            pause = (pause * 2).min(HTTP_HOST_BACK_OFF_MAX);
        }
        health.answered();
        assert_eq!((health.admit(now), health.outage()), (Admission::Allowed, None));
    }

    #[tokio::test(start_paused = true)]
    async fn only_many_consecutive_timeouts_are_an_outage() {
        let (mut health, now) = (Health::default(), Instant::now());
        for _ in 0..3 {
            for _ in 1..HTTP_HOST_FAILURES_MAX {
                assert!(!health.failed(FailureKind::NoResponse, Scope::Topic, now));
            }
            assert!(
                !health.failed(FailureKind::Class(FailureClass::Temporary), Scope::Topic, now),
                "an answer in between"
            );
        }
        for _ in 1..HTTP_HOST_FAILURES_MAX {
            assert!(!health.failed(FailureKind::NoResponse, Scope::Topic, now));
        }
        assert!(health.failed(FailureKind::NoResponse, Scope::Topic, now));
        assert!(health.outage().is_some() && !health.is_pause_over(now));
        assert!(health.is_pause_over(now + HTTP_HOST_BACK_OFF_MIN));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unauthorized_answer_marks_the_host_down_only_if_it_is_the_only_host() {
        let now = Instant::now();
        for (scope, down) in [(Scope::Transport, true), (Scope::Topic, false), (Scope::Message, false)] {
            let mut health = Health::default();
            assert_eq!(health.failed(FailureKind::Unauthorized, scope, now), down);
            assert_eq!(health.outage(), down.then_some(FailureClass::Authentication));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_unauthorized_probe_shows_that_the_host_is_up() {
        let (mut health, mut now) = (Health::default(), Instant::now());
        health.failed(FailureKind::Unreachable, Scope::Transport, now);
        assert!(health.refused_probe_means_up(now));
        health.probed();
        health.answered();
        let mut pause = HTTP_HOST_BACK_OFF_MIN;
        for _ in 0..10 {
            health.failed(FailureKind::Unauthorized, Scope::Transport, now);
            assert!(!health.refused_probe_means_up(now + pause - MOMENT));
            now += pause;
            assert!(health.refused_probe_means_up(now));
            health.probed();
            assert_eq!((health.outage(), health.admit(now)), (None, Admission::Allowed));
            pause = (pause * 2).min(HTTP_HOST_BACK_OFF_MAX);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_pause_does_not_end_a_longer_one() {
        let (mut health, now) = (Health::default(), Instant::now());
        health.pause(Duration::from_secs(60), now);
        health.pause(Duration::from_secs(1), now);
        assert_eq!(health.admit(now), Admission::Paused(Duration::from_secs(60)));
        assert_eq!(health.paused_for(now + Duration::from_secs(60) - MOMENT), MOMENT);
        assert!(health.is_pause_over(now + Duration::from_secs(60)));
        health.pause(Duration::MAX, now);
        assert_eq!(health.outage(), None);
    }

    /// Of two requests that were under way one brought a pause, and the other an end of the connection.
    #[tokio::test(start_paused = true)]
    async fn a_down_host_also_respects_its_pause() {
        const ASKED: Duration = Duration::from_secs(120);
        let (mut health, began) = (Health::default(), Instant::now());
        health.pause(ASKED, began);
        assert!(health.failed(FailureKind::Unreachable, Scope::Topic, began));
        for seconds in [0, 1, 2, 4, 119] {
            let passed = Duration::from_secs(seconds);
            assert_eq!(health.admit(began + passed), Admission::Down(ASKED - passed));
            assert!(!health.is_pause_over(began + passed));
        }
        let now = began + ASKED;
        assert_eq!(health.admit(now), Admission::Allowed, "one tries");
        assert_eq!(health.admit(now), Admission::Down(HTTP_HOST_BACK_OFF_MIN), "and no other");
        assert!(health.failed(FailureKind::Unreachable, Scope::Topic, now));
        assert_eq!(health.admit(now + HTTP_HOST_BACK_OFF_MIN), Admission::Allowed, "its pauses are its own again");
        health.answered();
        assert_eq!(health.admit(now + HTTP_HOST_BACK_OFF_MIN), Admission::Allowed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_down_longer_than_its_pause_is_probed_on_time() {
        let (mut health, now) = (Health::default(), Instant::now());
        health.pause(MOMENT, now);
        health.failed(FailureKind::Unreachable, Scope::Topic, now);
        assert_eq!(health.admit(now + MOMENT), Admission::Down(HTTP_HOST_BACK_OFF_MIN - MOMENT));
        assert_eq!(health.admit(now + HTTP_HOST_BACK_OFF_MIN), Admission::Allowed);
    }
}
