//! What each error code of Kafka means for a message.

use rdkafka::types::RDKafkaErrorCode as Code;

use crate::transport::FailureClass;

/// The class of a code by itself. The class of a time-out depends on the brokers: see
/// [`Health`](super::health::Health).
pub(super) fn class_of(code: Code) -> FailureClass {
    match code {
        // The broker checked the batch and will answer the same next time. This includes `InvalidMessage`: the client
        // has retried it by then, and old brokers answer so to a missing key on a compacted topic.
        Code::MessageSizeTooLarge
        | Code::InvalidMessage
        | Code::InvalidMessageSize
        | Code::MessageBatchTooLarge
        | Code::InvalidRecord => FailureClass::RecordRefused,

        Code::UnknownTopic
        | Code::UnknownTopicOrPartition
        // What a broker answers to a topic's id, which later versions of the protocol use.
        | Code::UnknownTopicId
        | Code::InvalidTopic
        | Code::TopicAuthorizationFailed
        | Code::PolicyViolation
        | Code::InvalidRequiredAcks
        // A record's timestamp is this machine's clock at sending, so this says nothing about the message.
        | Code::InvalidTimestamp
        | Code::UnsupportedCompressionType
        | Code::UnsupportedForMessageFormat => FailureClass::Topic,

        Code::Authentication
        | Code::SSL
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState
        | Code::ClusterAuthorizationFailed => FailureClass::Authentication,

        Code::BrokerTransportFailure | Code::AllBrokersDown | Code::Resolve => FailureClass::Connection,

        Code::Fatal | Code::Inconsistent | Code::GaplessGuarantee | Code::Fenced => FailureClass::Fatal,

        // About what we handed over, such as a topic's name with a NUL; and the broker's "unexpected error", which is
        // negative as well.
        Code::InvalidArgument | Code::Unknown => FailureClass::Record,

        // The client's other codes are about the client and its connections. The broker's other codes count as failures
        // of the record, so that no message is retried for ever.
        code if (code as i32) < 0 || is_transient(code) => FailureClass::Temporary,
        _ => FailureClass::Record,
    }
}

/// A broker's codes that pass with time.
fn is_transient(code: Code) -> bool {
    matches!(
        code,
        Code::LeaderNotAvailable
            | Code::NotLeaderForPartition
            | Code::OffsetNotAvailable
            | Code::FencedLeaderEpoch
            | Code::UnknownLeaderEpoch
            | Code::RequestTimedOut
            | Code::BrokerNotAvailable
            | Code::ReplicaNotAvailable
            | Code::NetworkException
            | Code::CoordinatorLoadInProgress
            | Code::CoordinatorNotAvailable
            | Code::NotCoordinator
            | Code::NotController
            | Code::NotEnoughReplicas
            | Code::NotEnoughReplicasAfterAppend
            | Code::KafkaStorageError
            | Code::ThrottlingQuotaExceeded
            | Code::OutOfOrderSequenceNumber
            | Code::InvalidProducerEpoch
            | Code::UnknownProducerId
    )
}
