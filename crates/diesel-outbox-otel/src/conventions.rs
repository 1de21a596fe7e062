//! The names of OpenTelemetry's messaging conventions, and those of our own attributes.

use std::borrow::Cow;

use opentelemetry::KeyValue;
pub(crate) use opentelemetry_semantic_conventions::attribute::{
    ERROR_TYPE, MESSAGING_BATCH_MESSAGE_COUNT as MESSAGE_COUNT, MESSAGING_CONSUMER_GROUP_NAME as CONSUMER_GROUP,
    MESSAGING_DESTINATION_NAME as DESTINATION, MESSAGING_MESSAGE_ID as MESSAGE_ID,
    MESSAGING_OPERATION_NAME as OPERATION_NAME, MESSAGING_OPERATION_TYPE as OPERATION_TYPE, MESSAGING_SYSTEM as SYSTEM,
};
#[cfg(feature = "rdkafka")]
pub(crate) use opentelemetry_semantic_conventions::attribute::{
    MESSAGING_DESTINATION_PARTITION_ID as PARTITION, MESSAGING_KAFKA_OFFSET as KAFKA_OFFSET,
};

/// The version of OpenTelemetry's semantic conventions that the spans follow.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.42.0";

/// The kind of message, as [`EnqueueInterceptor`](diesel_outbox::EnqueueInterceptor)s see it.
pub(crate) const KIND: &str = "outbox.kind";
/// By which path the relay sends, as the label `path` of its metrics.
pub(crate) const PATH: &str = "outbox.path";
/// The number of the attempt, from 1.
pub(crate) const ATTEMPT: &str = "outbox.attempt";
/// The lane of an ordered topic.
pub(crate) const LANE: &str = "outbox.lane";
/// The event of a message of a batch that failed.
pub(crate) const MESSAGE_FAILED: &str = "outbox.message_failed";

/// What a span does with messages: the operation's name and its type, which are the same for each of ours.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation {
    Create,
    Send,
    Process,
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Send => "send",
            Self::Process => "process",
        }
    }

    /// `{operation} {destination}`; the operation alone for messages of several destinations.
    pub(crate) fn span_name(self, destination: Option<&str>) -> Cow<'static, str> {
        match destination {
            Some(destination) => format!("{} {destination}", self.name()).into(),
            None => self.name().into(),
        }
    }

    pub(crate) fn attributes(self) -> [KeyValue; 2] {
        [KeyValue::new(OPERATION_NAME, self.name()), KeyValue::new(OPERATION_TYPE, self.name())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A later version of the constants' crate may follow a later version of the conventions.
    #[test]
    fn the_stated_version_is_that_of_the_constants() {
        assert_eq!(SCHEMA_URL, opentelemetry_semantic_conventions::SCHEMA_URL);
    }
}
