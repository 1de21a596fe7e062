use std::sync::Arc;

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::ProducerContext;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::classify::class_of;
use super::client_log::{log_line, log_statistics};
use super::error::BrokerError;
use super::health::Health;
use super::metadata_lookup::{LookupRequest, MetadataLookups};
use super::partitions::{ActivityClock, PartitionPermit};
use super::secrets::Secrets;
use crate::transport::{FailureClass, Outcome, OutcomeSender, TransportError};

/// What travels through the client with a message: its outcome sender and its permit.
pub(super) struct SendContext {
    pub(super) sender: OutcomeSender,
    pub(super) topic: Arc<str>,
    pub(super) place: Option<PartitionPermit>,
}

impl SendContext {
    /// Reports the outcome of a message that the client accepted.
    fn complete(self, outcome: Outcome) {
        if let Some(place) = &self.place {
            let unanswered = matches!(&outcome, Outcome::Failed(error) if !is_broker_answer(error.class()));
            place.answered(!unanswered);
        }
        self.return_unsent(outcome);
    }

    /// Reports a message that the client refused, which says nothing about its partition.
    pub(super) fn return_unsent(self, outcome: Outcome) {
        drop(self.place);
        self.sender.complete(outcome);
    }
}

/// The client library's callbacks: outcomes, connection errors, log lines.
pub(super) struct Context {
    pub(super) health: Arc<Health>,
    pub(super) lookups: MetadataLookups,
    pub(super) secrets: Secrets,
    pub(super) activity: Arc<ActivityClock>,
}

impl Context {
    /// The failure behind a client's code for a message of a topic.
    pub(super) fn failure(&self, code: Code, topic: &Arc<str>) -> TransportError {
        let class = class_of(code);
        if code as i32 > 0 {
            // A positive code came from a broker; the client's own codes are negative.
            self.health.answered();
        }
        if !is_broker_answer(class)
            && let Some(outage) = self.health.outage()
        {
            return outage;
        }
        if class == FailureClass::Topic {
            // The client repeats a topic's refusal until it refreshes its metadata, which it does every five minutes.
            self.lookups.request(LookupRequest::Topic(Arc::clone(topic)));
        }
        TransportError::new(class, BrokerError { code })
    }
}

/// Whether failures of the class are a broker's answers about a message or its topic.
pub(super) fn is_broker_answer(class: FailureClass) -> bool {
    matches!(class, FailureClass::RecordRefused | FailureClass::Record | FailureClass::Topic)
}

impl ProducerContext for Context {
    type DeliveryOpaque = Box<SendContext>;

    fn delivery(&self, result: &DeliveryResult<'_>, send_context: Box<SendContext>) {
        let outcome = match result {
            Ok(record) => {
                self.health.answered();
                send_context.sender.placed(record.partition(), record.offset());
                Outcome::Delivered
            }
            Err((error, _)) => {
                let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
                Outcome::Failed(self.failure(code, &send_context.topic))
            }
        };
        send_context.complete(outcome);
    }
}

impl ClientContext for Context {
    fn error(&self, error: KafkaError, reason: &str) {
        // Not logged: the client logs the same text, and the relay reports the consequences.
        if let Some(code) = error.rdkafka_error_code() {
            self.health.record_error(code, &self.secrets.scrub(reason));
            if code == Code::AllBrokersDown {
                self.lookups.request(LookupRequest::Reachability);
            }
        }
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        let text = self.secrets.scrub(text);
        match facility {
            "FAIL" => {
                self.activity.record_disconnect();
                self.health.record_log_line(&text);
            }
            // The error event of the same failure names the underlying code, like an ordinary error.
            "FATAL" => self.health.record_fatal(&text),
            _ => {}
        }
        log_line(level, facility, &text);
    }

    fn stats_raw(&self, statistics: &[u8]) {
        log_statistics(statistics);
    }
}
