use std::sync::Arc;

use rdkafka::error::KafkaError;
use rdkafka::producer::Producer as _;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::context::LaneProducer;
use crate::limits::KAFKA_LANE_DRAIN;
use crate::transport::kafka::classify::class_of;
use crate::transport::{FailureClass, TransportError};

/// Why a lane closed.
#[derive(Debug, Clone)]
pub(super) struct EndReason {
    class: FailureClass,
    text: Arc<str>,
}

impl EndReason {
    /// After a failed message of the same key.
    pub(super) fn behind() -> Self {
        Self { class: FailureClass::Aborted, text: "an earlier message of its key failed".into() }
    }

    /// The reason for a client error: another owner fenced the lane, the topic is refused, the brokers are unreachable,
    /// or the client must start again.
    pub(super) fn of(producer: &LaneProducer, error: &KafkaError) -> Self {
        // The cause of a connection failure may still be among its events.
        producer.poll(KAFKA_LANE_DRAIN);
        let code = code_of(error);
        let fatal = producer.client().fatal_error();
        let codes = [Some(code), fatal.as_ref().map(|(code, _)| *code)];
        if codes.into_iter().flatten().any(is_fencing_error) {
            return Self { class: FailureClass::Fenced, text: code.to_string().into() };
        }
        if class_of(code) == FailureClass::Topic {
            return Self { class: FailureClass::Topic, text: code.to_string().into() };
        }
        let aborted = || Self { class: FailureClass::Aborted, text: code.to_string().into() };
        producer.context().outage().map_or_else(aborted, Self::outage)
    }

    /// After an end that may have been sent twice.
    pub(super) fn ended_late() -> Self {
        let text = "a connection broke while it ended, and a late request to end it could end the next one";
        Self { class: FailureClass::Aborted, text: text.into() }
    }

    /// The record of what the lane delivered could not be stored.
    pub(super) fn not_noted(producer: &LaneProducer, topic: &str, code: Code) -> Self {
        if let Some(outage) = producer.context().outage() {
            return Self::outage(outage);
        }
        let class = match class_of(code) {
            FailureClass::Topic | FailureClass::Record | FailureClass::RecordRefused => FailureClass::Topic,
            _ => FailureClass::Aborted,
        };
        Self { class, text: format!("topic {topic:?} did not take what the lane delivered: {code}").into() }
    }

    /// The database keeps too many rows that the lane delivered.
    pub(super) fn unsettled() -> Self {
        let text = "the database has not removed the rows that the lane delivered";
        Self { class: FailureClass::Aborted, text: text.into() }
    }

    pub(super) fn outage(outage: TransportError) -> Self {
        Self { class: outage.class(), text: outage.to_string().into() }
    }

    pub(super) fn error(&self) -> TransportError {
        TransportError::new(self.class, Ended(Arc::clone(&self.text)))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the lane's transaction ended: {0}")]
struct Ended(Arc<str>);

/// Includes the code of a coordinator that ended a transaction because its process was stopped for too long.
pub(super) fn is_fencing_error(code: Code) -> bool {
    matches!(code, Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch)
}

pub(super) fn code_of(error: &KafkaError) -> Code {
    match error {
        KafkaError::Transaction(error) => error.code(),
        other => other.rdkafka_error_code().unwrap_or(Code::Fail),
    }
}
