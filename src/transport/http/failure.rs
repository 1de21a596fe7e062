//! The failures of a request, and what each of them affects.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use super::address_filter::NoPublicAddress;
use crate::transport::{FailureClass, TransportError};

/// What else would fail like this message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everything: the transport has only this host.
    Transport,
    /// The topic: it has one URL, and other topics go to other hosts.
    Topic,
    /// Nothing else for certain: each message has its own URL.
    Message,
}

/// The kind of a failure, independent of the message's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// No connection: nothing was sent.
    Unreachable,
    /// No answer, or that of a gateway whose application is down.
    NoResponse,
    /// The receiver asks for a pause.
    Paused,
    Unauthorized,
    /// Not found: the URL or the method is wrong.
    NotFound,
    /// Gone for good.
    Gone,
    /// The target's address is one that this transport denies.
    AddressDenied,
    /// The receiver refuses this message, and will refuse each copy, unless the receiver itself is wrong and gets fixed
    /// soon.
    Refused,
    /// A class that follows from the status alone.
    Class(FailureClass),
}

impl FailureKind {
    pub(super) fn of_status(status: u16) -> Self {
        match status {
            300..=399 | 404 | 405 | 415 => Self::NotFound,
            401 | 403 | 407 => Self::Unauthorized,
            410 => Self::Gone,
            502..=504 => Self::NoResponse,
            408 | 425 | 429 | 500..=599 => Self::Class(FailureClass::Temporary),
            _ => Self::Refused,
        }
    }

    /// The class of the failure. If everything that a topic or transport sends would fail, the class is the topic's or
    /// the transport's: then nothing is written for each message.
    pub(super) fn class(self, scope: Scope) -> FailureClass {
        match (self, scope) {
            (Self::Class(class), _) => class,
            (Self::NoResponse, _) => FailureClass::Temporary,
            (Self::Unreachable, Scope::Transport) => FailureClass::Connection,
            (Self::Unauthorized, Scope::Transport) => FailureClass::Authentication,
            (Self::Refused, _) | (Self::Unauthorized | Self::NotFound | Self::AddressDenied, Scope::Message) => {
                FailureClass::Record
            }
            (Self::Gone, Scope::Message) => FailureClass::RecordRefused,
            (Self::Unreachable | Self::Paused, Scope::Message) => FailureClass::Temporary,
            _ => FailureClass::Topic,
        }
    }
}

/// The text of a failure, for rows and logs. Of a URL it shows the origin only, because paths and queries hold tokens.
/// It shows nothing of an answer's body, because receivers repeat there what they were sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpFailure {
    #[error("{origin} answered {status}")]
    Status { origin: Arc<str>, status: u16 },
    #[error("{origin} answered {status}, which the success rule rejects")]
    Unsuccessful { origin: Arc<str>, status: u16 },
    #[error("{origin} did not answer within {within:?}")]
    TimedOut { origin: Arc<str>, within: Duration },
    #[error("{origin}: {text}")]
    Client { origin: Arc<str>, text: String },
    #[error("{origin} was unreachable a moment ago; it is tried again soon")]
    HostDown { origin: Arc<str> },
    #[error("{origin} asks for a pause of {wait:?}")]
    HostPaused { origin: Arc<str>, wait: Duration },
    #[error("too many messages wait for {origin}")]
    HostFull { origin: Arc<str> },
    #[error("topic {topic:?} has no target: give it one with HttpTransportBuilder::topic or default_target")]
    NoTarget { topic: Arc<str> },
    #[error("the message has no URL: its target finds none for it")]
    NoUrl,
    #[error("the message's URL cannot be used: {problem}")]
    IllegalUrl { problem: &'static str },
    #[error("the message's header {name:?} is not valid in an HTTP request")]
    IllegalHeader { name: String },
    #[error("{origin} has no public address, and private ones are denied")]
    PrivateAddress { origin: Arc<str> },
}

/// An error and its sources.
fn error_chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| (**error).source())
}

impl HttpFailure {
    /// The client's error with all its sources, without the URL.
    pub(super) fn from_client(origin: &Arc<str>, error: reqwest::Error) -> (FailureKind, Self) {
        let origin = Arc::clone(origin);
        let error = error.without_url();
        let chain = || error_chain(&error);
        if chain().any(|error| error.is::<NoPublicAddress>()) {
            return (FailureKind::AddressDenied, Self::PrivateAddress { origin });
        }
        let kind = if error.is_connect() { FailureKind::Unreachable } else { FailureKind::NoResponse };
        let text = chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
        (kind, Self::Client { origin, text })
    }

    pub(super) fn into_error(self, class: FailureClass, retry_after: Option<Duration>) -> TransportError {
        let error = TransportError::new(class, self);
        match retry_after {
            Some(wait) => error.with_retry_after(wait),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_classified_as_documented() {
        use FailureClass::{Authentication, Record, RecordRefused, Temporary, Topic};
        for (statuses, transport, topic, message) in [
            (&[301, 302, 307, 308, 404, 405, 415][..], Topic, Topic, Record),
            (&[401, 403, 407], Authentication, Topic, Record),
            (&[410], Topic, Topic, RecordRefused),
            (&[400, 411, 413, 414, 417, 422, 431], Record, Record, Record),
            (&[402, 406, 409, 412, 418, 423, 428, 451], Record, Record, Record),
            (&[408, 425, 429, 500, 501, 502, 503, 504, 507, 599], Temporary, Temporary, Temporary),
        ] {
            for status in statuses {
                let class = |scope| FailureKind::of_status(*status).class(scope);
                let classes = [Scope::Transport, Scope::Topic, Scope::Message].map(class);
                assert_eq!(classes, [transport, topic, message], "{status}");
            }
        }
    }
}
