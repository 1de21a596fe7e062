//! The health of a host: whether it answers, and whether it asks for a pause.

use std::time::Duration;

use tokio::time::Instant;

use super::failure::{FailureKind, Scope};
use crate::limits::{HTTP_HOST_BACK_OFF_MAX, HTTP_HOST_BACK_OFF_MIN, HTTP_HOST_FAILURES_MAX};
use crate::transport::FailureClass;

#[derive(Debug, Default)]
pub(super) struct Health {
    /// Time-outs since the last answer.
    consecutive_timeouts: u32,
    down: Option<Down>,
    /// The pause of an outage that a probe ended. Kept until a message gets an answer.
    last_pause: Option<Duration>,
    paused_until: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Down {
    class: FailureClass,
    /// When a message may try again.
    until: Instant,
    pause: Duration,
}

/// Whether a message may go to a host now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Allowed,
    /// The host is down. The message may try again after this time, which covers any pause the host asked for.
    Down(Duration),
    /// The host asked for a pause of this length.
    Paused(Duration),
}

impl Health {
    /// Asks to send one message. A host that is down lets one message through after each pause. A message that never
    /// gets its answer therefore does not block the host.
    pub(super) fn admit(&mut self, now: Instant) -> Admission {
        let pause = self.paused_for(now);
        if let Some(down) = &mut self.down {
            let wait = pause.max(down.until.saturating_duration_since(now));
            if !wait.is_zero() {
                return Admission::Down(wait);
            }
            down.until = now + down.pause;
            return Admission::Allowed;
        }
        if pause.is_zero() { Admission::Allowed } else { Admission::Paused(pause) }
    }

    /// How long the pause that the host asked for still lasts.
    pub(super) fn paused_for(&self, now: Instant) -> Duration {
        self.paused_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// The host answered, with whatever status.
    pub(super) fn answered(&mut self) {
        (self.consecutive_timeouts, self.down, self.last_pause) = (0, None, None);
    }

    /// The host answered a probe. Only a message shows whether messages are let in, so the pauses of a host that
    /// refuses them stay.
    pub(super) fn probed(&mut self) {
        self.last_pause = self.down.map(|down| down.pause).or(self.last_pause);
        (self.consecutive_timeouts, self.down) = (0, None);
    }

    /// Whether a refused probe proves that the host is back. If the host was unreachable, it does. If the host refused our
    /// credentials, it does only after each pause, for one message: a probe is not signed, and some receivers refuse
    /// every probe.
    pub(super) fn refused_probe_means_up(&self, now: Instant) -> bool {
        self.down.is_none_or(|down| down.class != FailureClass::Authentication || now >= down.until)
    }

    /// Records a failure. Returns whether the host is down, so that waiting messages need not try.
    ///
    /// A failed connection is enough. A missing answer is not: one slow message among many answered ones is no outage,
    /// and a gateway answers 502 for a moment while its application restarts. Refused credentials may fit another URL,
    /// so they count against the host only if the transport has this one host.
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
        // When many requests fail at once, each reports the same outage, not a longer one.
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

    /// The class of the current outage.
    pub(super) fn outage(&self) -> Option<FailureClass> {
        self.down.map(|down| down.class)
    }

    /// Whether a message may try: the host is neither down nor paused, or the pause is over.
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
            assert_eq!(health.admit(now), Admission::Allowed, "one message may try");
            assert_eq!(health.admit(now), Admission::Down(pause), "no other message may");
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
                "an answer resets the count"
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

    /// Two requests were in flight: one answer asked for a pause, the other lost its connection.
    #[tokio::test(start_paused = true)]
    async fn a_down_host_also_respects_its_pause() {
        const PAUSE: Duration = Duration::from_secs(120);
        let (mut health, began) = (Health::default(), Instant::now());
        health.pause(PAUSE, began);
        assert!(health.failed(FailureKind::Unreachable, Scope::Topic, began));
        for seconds in [0, 1, 2, 4, 119] {
            let passed = Duration::from_secs(seconds);
            assert_eq!(health.admit(began + passed), Admission::Down(PAUSE - passed));
            assert!(!health.is_pause_over(began + passed));
        }
        let now = began + PAUSE;
        assert_eq!(health.admit(now), Admission::Allowed, "one message may try");
        assert_eq!(health.admit(now), Admission::Down(HTTP_HOST_BACK_OFF_MIN), "no other message may");
        assert!(health.failed(FailureKind::Unreachable, Scope::Topic, now));
        assert_eq!(
            health.admit(now + HTTP_HOST_BACK_OFF_MIN),
            Admission::Allowed,
            "its pauses start from the minimum again"
        );
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
