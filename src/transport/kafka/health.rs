use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::types::RDKafkaErrorCode as Code;

use super::classify::class_of;
use super::error::Unreachable;
use crate::transport::{FailureClass, TransportError};

/// What one client knows of its brokers, from its error events and from answers.
///
/// The client never says "reachable again", so any answer of a broker counts as that: a delivery, a refusal, metadata.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Whether there is anything to forget; keeps the lock out of the way of deliveries.
    troubled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What a broker's connection last died of, since the last answer.
    cause: Option<Cause>,
    /// No broker could be reached since the last answer.
    all_down: bool,
    /// The client itself is broken; nothing but another client heals that.
    fatal: Option<Arc<str>>,
}

#[derive(Debug, Clone)]
struct Cause {
    class: FailureClass,
    text: Arc<str>,
}

impl Health {
    /// Takes an error event; `text` holds no secrets.
    pub(super) fn note(&self, code: Code, text: &str) {
        let mut state = self.state();
        match (code, class_of(code)) {
            (Code::AllBrokersDown, _) => {
                state.all_down = true;
                // Its text only counts. The reason came with the brokers' own events, or comes with them now.
                let text = "no broker can be reached".into();
                state.cause.get_or_insert(Cause { class: FailureClass::Connection, text });
            }
            (_, FailureClass::Fatal) => state.fatal = Some(text.into()),
            (_, class @ (FailureClass::Connection | FailureClass::Authentication)) => {
                state.cause = Some(Cause { class, text: text.into() });
            }
            (Code::OperationTimedOut, _) => {
                state.cause = Some(Cause { class: FailureClass::Connection, text: text.into() });
            }
            _ => return,
        }
        self.troubled.store(true, Ordering::Release);
    }

    /// Takes an answer of a broker, whatever it was.
    pub(super) fn answered(&self) {
        if self.troubled.load(Ordering::Acquire) {
            let mut state = self.state();
            state.cause = None;
            state.all_down = false;
            self.troubled.store(state.fatal.is_some(), Ordering::Release);
        }
    }

    /// Why nothing should be handed to the client now.
    pub(super) fn refuses(&self) -> Option<TransportError> {
        if !self.troubled.load(Ordering::Acquire) {
            return None;
        }
        let state = self.state();
        if state.fatal.is_some() || state.all_down { state.outage() } else { None }
    }

    /// What a message that timed out died of, where it was the brokers. A broker that merely has no leader for the
    /// partition is no outage; one whose connection broke, and nothing was heard from any broker since, is.
    pub(super) fn outage(&self) -> Option<TransportError> {
        if self.troubled.load(Ordering::Acquire) { self.state().outage() } else { None }
    }

    /// Whether the client has to be replaced.
    pub(super) fn is_fatal(&self) -> bool {
        self.troubled.load(Ordering::Acquire) && self.state().fatal.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn outage(&self) -> Option<TransportError> {
        let fatal = self.fatal.clone().map(|text| Cause { class: FailureClass::Fatal, text });
        let cause = fatal.or_else(|| self.cause.clone())?;
        Some(TransportError::new(cause.class, Unreachable(cause.text)))
    }
}
