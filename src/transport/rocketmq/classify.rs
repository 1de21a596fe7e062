use std::sync::Arc;
use std::time::Duration;

use rocketmq_client_rust::{ClientError, MQClientException, SendStatus};

use super::error::DescribedError;
use crate::transport::{FailureClass, TransportError};

/// An error of one call of the client library.
#[derive(Debug, Clone)]
pub(super) struct CallError {
    pub(super) class: FailureClass,
    pub(super) text: Arc<str>,
    pub(super) origin: ErrorSource,
}

/// Where an error comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorSource {
    /// The broker answered, with this code.
    Broker(i32),
    /// No answer in time.
    NoResponse,
    /// The client library.
    Client,
}

/// A broker's code for unknown credentials and for a missing right.
pub(super) const NO_PERMISSION: i32 = 16;
/// The code for a missing topic.
pub(super) const TOPIC_NOT_EXIST: i32 = 17;

impl CallError {
    pub(super) fn new(class: FailureClass, text: impl Into<Arc<str>>) -> Self {
        Self { class, text: text.into(), origin: ErrorSource::Client }
    }

    /// A broker's or name server's answer with this code.
    pub(super) fn answered(code: i32) -> Self {
        let (class, name) = of_code(code);
        Self { class, text: format!("the broker answered {code}, {name}").into(), origin: ErrorSource::Broker(code) }
    }

    /// The call took longer than its time-out.
    pub(super) fn request_timed_out(after: Duration) -> Self {
        let text = format!("the client did not answer within {after:?}").into();
        Self { class: FailureClass::Temporary, text, origin: ErrorSource::NoResponse }
    }

    /// A task of the client library panicked. What it held may be stored, and its state cannot be trusted.
    pub(super) fn panicked() -> Self {
        Self::new(FailureClass::Fatal, "the client library panicked")
    }

    /// The broker stored a message, but not as safely as requested.
    pub(super) fn status(status: SendStatus) -> Self {
        let text = format!("the broker stored it, but with {status:?}").into();
        Self { class: FailureClass::Temporary, text, origin: ErrorSource::Broker(0) }
    }

    /// Whether the request may have reached nobody.
    pub(super) fn got_no_response(&self) -> bool {
        self.origin == ErrorSource::NoResponse
            || (self.origin == ErrorSource::Client && self.class == FailureClass::Connection)
    }

    /// The same error for a request that only checks for an answer: no answer is an outage.
    pub(super) fn into_outage(self) -> Self {
        match (self.origin, self.class) {
            (ErrorSource::NoResponse, _) => Self { class: FailureClass::Connection, ..self },
            // From a login: no topic was involved.
            (ErrorSource::Broker(NO_PERMISSION), _) => Self { class: FailureClass::Authentication, ..self },
            _ => self,
        }
    }

    pub(super) fn error(&self) -> TransportError {
        TransportError::new(self.class, DescribedError(Arc::clone(&self.text)))
    }
}

impl From<&ClientError> for CallError {
    fn from(error: &ClientError) -> Self {
        let exception = error.source_ref::<MQClientException>().map(MQClientException::response_code);
        if let Some(code) = error.broker_response_code().or(exception.filter(|code| (1..CLIENT_CODES).contains(code))) {
            return Self::answered(code);
        }
        let descriptor = error.descriptor().code();
        let descriptor = descriptor.as_str();
        match exception.and_then(of_client_code) {
            Some((class, text)) => Self::new(class, text),
            None => {
                let is_late = descriptor.ends_with(".timed_out") || descriptor.ends_with(".timeout");
                let origin = if is_late { ErrorSource::NoResponse } else { ErrorSource::Client };
                Self { class: of_descriptor(descriptor), text: format!("the client said {descriptor}").into(), origin }
            }
        }
    }
}

impl From<ClientError> for CallError {
    fn from(error: ClientError) -> Self {
        Self::from(&error)
    }
}

/// Codes from here on are the client's own.
const CLIENT_CODES: i32 = 10_000;

fn of_client_code(code: i32) -> Option<(FailureClass, &'static str)> {
    Some(match code {
        10_001 => (FailureClass::Connection, "the broker cannot be reached"),
        10_002 => (FailureClass::Temporary, "the broker did not answer in time"),
        10_003 => (FailureClass::Connection, "no address of the broker is known"),
        10_004 => (FailureClass::Connection, "no name server is known"),
        10_005 => (FailureClass::Topic, "the name servers know no such topic"),
        _ => return None,
    })
}

/// What a broker's code is about, and its name.
fn of_code(code: i32) -> (FailureClass, &'static str) {
    match code {
        // Also the code for a full disk and for files that cannot be mapped: the message is not the cause.
        1 => (FailureClass::Temporary, "SYSTEM_ERROR"),
        2 => (FailureClass::Temporary, "SYSTEM_BUSY"),
        3 => (FailureClass::Topic, "REQUEST_CODE_NOT_SUPPORTED"),
        10 => (FailureClass::Temporary, "FLUSH_DISK_TIMEOUT"),
        11 => (FailureClass::Temporary, "SLAVE_NOT_AVAILABLE"),
        12 => (FailureClass::Temporary, "FLUSH_SLAVE_TIMEOUT"),
        13 => (FailureClass::RecordRefused, "MESSAGE_ILLEGAL"),
        14 => (FailureClass::Temporary, "SERVICE_NOT_AVAILABLE"),
        15 => (FailureClass::Topic, "VERSION_NOT_SUPPORTED"),
        NO_PERMISSION => (FailureClass::Topic, "NO_PERMISSION"),
        TOPIC_NOT_EXIST => (FailureClass::Topic, "TOPIC_NOT_EXIST"),
        215 => (FailureClass::Temporary, "FLOW_CONTROL"),
        // Other codes count as failures of the record, so that no message is retried for ever.
        _ => (FailureClass::Record, "an unknown code"),
    }
}

/// The client's own error identifiers.
fn of_descriptor(code: &str) -> FailureClass {
    match code {
        "core.operation.timed_out" | "transport.response.timeout" | "transport.write.timeout" => {
            FailureClass::Temporary
        }
        "transport.admission.queue_saturated" | "transport.remote.rate_limited" => FailureClass::Temporary,
        "transport.response.failed" => FailureClass::Temporary,
        "broker.message.too_large" | "broker.message.invalid" => FailureClass::RecordRefused,
        "route.topic.not_found" | "broker.topic.not_found" | "broker.queue.not_found" => FailureClass::Topic,
        "broker.lookup.not_found" | "rpc.broker_address.not_found" => FailureClass::Connection,
        code if code.starts_with("transport.") => FailureClass::Connection,
        code if code.starts_with("auth.") => FailureClass::Authentication,
        // The library is stopped or broken: from then on every call fails so.
        code if code.starts_with("client.") => FailureClass::Fatal,
        "core.lifecycle.not_initialized" | "core.service.failed" | "core.internal.failure" => FailureClass::Fatal,
        _ => FailureClass::Record,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(error: ClientError) -> FailureClass {
        CallError::from(error).class
    }

    #[test]
    fn every_answer_has_its_class() {
        use FailureClass as Class;
        let answers = [
            (1, Class::Temporary),
            (2, Class::Temporary),
            (13, Class::RecordRefused),
            (14, Class::Temporary),
            (16, Class::Topic),
            (17, Class::Topic),
            (215, Class::Temporary),
            (9_999, Class::Record),
        ];
        for (code, expected) in answers {
            assert_eq!(class(ClientError::broker_operation_failed("send", code, "a remark")), expected, "{code}");
            let exception = MQClientException::new_with_code(code, "a remark".to_owned());
            assert_eq!(class(ClientError::from(exception)), expected, "{code} by the client");
        }
        let denied = CallError::from(ClientError::broker_operation_failed("send", 16, ""));
        assert_eq!(
            (denied.origin, denied.into_outage().class),
            (ErrorSource::Broker(NO_PERMISSION), Class::Authentication)
        );
        let late = CallError::from(ClientError::timeout("send", 3_000));
        assert_eq!((late.origin, late.into_outage().class), (ErrorSource::NoResponse, Class::Connection));
    }

    #[test]
    fn client_errors_have_their_class() {
        use FailureClass as Class;
        let said = [
            (ClientError::timeout("send", 3_000), Class::Temporary),
            (ClientError::not_started(), Class::Fatal),
            (ClientError::shutting_down(), Class::Fatal),
            (ClientError::service_failed("send"), Class::Fatal),
            (ClientError::broker_not_found("broker-a"), Class::Connection),
            (ClientError::dns_failed(), Class::Connection),
            (ClientError::route_not_found("orders"), Class::Topic),
            (ClientError::from(MQClientException::new_with_code(10_003, String::new())), Class::Connection),
            (ClientError::illegal_argument("x"), Class::Record),
        ];
        for (error, expected) in said {
            let text = error.to_string();
            assert_eq!(class(error), expected, "{text}");
        }
    }

    #[test]
    fn echoed_broker_text_is_not_repeated() {
        let error = ClientError::broker_operation_failed("send", 16, "user secret-words is unknown");
        assert!(!CallError::from(error).error().to_string().contains("secret-words"));
    }
}
