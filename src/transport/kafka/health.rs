use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::time::Instant;

use super::classify::class_of;
use super::error::Unreachable;
use crate::limits::KAFKA_RECONNECT_GRACE;
use crate::transport::{FailureClass, TransportError};

/// The health of a client's brokers, from its error events and from answers.
///
/// The client never reports "reachable again", so any answer of a broker counts as that: a delivery, a refusal,
/// metadata.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Whether there is a problem to clear; keeps the lock out of the delivery path.
    has_problem: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last log line about a broken connection.
    line: Option<Arc<str>>,
    /// The cause of the last connection failure since the last answer.
    cause: Option<Cause>,
    /// Since when no broker is connected and no attempt succeeded.
    all_down_since: Option<Instant>,
    /// The client itself failed; only a new client helps.
    fatal: Option<Arc<str>>,
}

#[derive(Debug, Clone)]
struct Cause {
    class: FailureClass,
    text: Arc<str>,
}

impl Health {
    /// Records an error event; `text` holds no secrets.
    pub(super) fn record_error(&self, code: Code, text: &str) {
        let mut state = self.state();
        match (code, class_of(code)) {
            (Code::AllBrokersDown, _) => state.all_down_since = state.all_down_since.or_else(|| Some(Instant::now())),
            (_, class @ (FailureClass::Connection | FailureClass::Authentication)) => {
                state.cause = Some(Cause { class, text: text.into() });
            }
            (Code::OperationTimedOut, _) => {
                state.cause = Some(Cause { class: FailureClass::Connection, text: text.into() });
            }
            _ => return,
        }
        self.has_problem.store(true, Ordering::Release);
    }

    /// Records that the client failed for good.
    pub(super) fn record_fatal(&self, line: &str) {
        self.state().fatal = Some(without_thread(line).into());
        self.has_problem.store(true, Ordering::Release);
    }

    /// Records a log line about a broken connection. A TLS broker that hangs up on a client without TLS causes no error
    /// event; only the log line says why.
    pub(super) fn record_log_line(&self, line: &str) {
        self.state().line = Some(without_thread(line).into());
    }

    /// Records an answer of a broker, whatever it was.
    pub(super) fn answered(&self) {
        if self.has_problem.load(Ordering::Acquire) {
            let mut state = self.state();
            state.cause = None;
            state.all_down_since = None;
            self.has_problem.store(state.fatal.is_some(), Ordering::Release);
        }
    }

    /// Why nothing should be handed to the client now.
    ///
    /// A lost connection alone is not enough: a broker closes idle connections, and the next message opens another. An
    /// attempt must have failed, or none succeeded for a while.
    pub(super) fn refusal(&self) -> Option<TransportError> {
        if !self.has_problem.load(Ordering::Acquire) {
            return None;
        }
        let state = self.state();
        let is_down = |since: Instant| state.cause.is_some() || since.elapsed() >= KAFKA_RECONNECT_GRACE;
        if state.fatal.is_some() || state.all_down_since.is_some_and(is_down) { state.outage() } else { None }
    }

    /// Whether no broker is connected, as far as known.
    pub(super) fn is_all_down(&self) -> bool {
        self.has_problem.load(Ordering::Acquire) && self.state().all_down_since.is_some()
    }

    /// Why a message timed out, if the brokers were the cause. A partition without a leader is no outage. A broken
    /// connection with no answer from any broker since is one.
    pub(super) fn outage(&self) -> Option<TransportError> {
        if self.has_problem.load(Ordering::Acquire) { self.state().outage() } else { None }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn outage(&self) -> Option<TransportError> {
        let fatal = || {
            // A producer that may not get its id is broken, too, but the remedy is to grant the right.
            let is_refused = self.cause.as_ref().is_some_and(|cause| cause.class == FailureClass::Authentication);
            let class = if is_refused { FailureClass::Authentication } else { FailureClass::Fatal };
            self.fatal.clone().map(|text| Cause { class, text })
        };
        let lost = || {
            self.all_down_since?;
            let text = self.line.clone().unwrap_or_else(|| "no broker can be reached".into());
            Some(Cause { class: FailureClass::Connection, text })
        };
        let cause = fatal().or_else(|| self.cause.clone()).or_else(lost)?;
        Some(TransportError::new(cause.class, Unreachable(cause.text)))
    }
}

/// A log line without the client thread's name at the start.
fn without_thread(line: &str) -> &str {
    line.split_once("]: ").map_or(line, |(_thread, text)| text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A broker closes idle connections, and the next message opens another.
    #[tokio::test(start_paused = true)]
    async fn a_lost_connection_is_no_outage_before_its_grace_period() {
        let health = Health::default();
        health.record_error(Code::AllBrokersDown, "all are down");
        tokio::time::advance(KAFKA_RECONNECT_GRACE - Duration::from_millis(1)).await;
        health.record_error(Code::AllBrokersDown, "all are still down");
        assert!(health.is_all_down() && health.refusal().is_none());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(health.refusal().is_some());
        health.answered();
        assert!(health.refusal().is_none());
        health.record_error(Code::AllBrokersDown, "all are down");
        health.record_error(Code::BrokerTransportFailure, "refused");
        assert!(health.refusal().is_some(), "a failed attempt counts at once");
    }
}
