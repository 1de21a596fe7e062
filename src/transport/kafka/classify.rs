use rdkafka::types::RDKafkaErrorCode as Code;

use crate::transport::FailureClass;

/// What a code is about, where it stands alone. What a time-out is about depends on the brokers: see
/// [`Health`](super::health::Health).
pub(super) fn class_of(code: Code) -> FailureClass {
    match code {
        // The broker looked at the batch and will say the same next time. `InvalidMessage` is among them because the
        // client has repeated it already by then, and old brokers answer so to a missing key on a compacted topic.
        Code::MessageSizeTooLarge
        | Code::InvalidMessage
        | Code::InvalidMessageSize
        | Code::MessageBatchTooLarge
        | Code::InvalidRecord => FailureClass::RecordRefused,

        Code::UnknownTopic
        | Code::UnknownTopicOrPartition
        | Code::InvalidTopic
        | Code::TopicAuthorizationFailed
        | Code::PolicyViolation
        | Code::InvalidRequiredAcks
        // A record's time is this machine's clock when it is sent, so this says nothing about the message.
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

        // Said of what we handed over, such as a topic's name with a NUL in it; and the broker's "unexpected error",
        // which is negative as well.
        Code::InvalidArgument | Code::Unknown => FailureClass::Record,

        // Everything else that the client says itself is about the client and its connections; what remains of the
        // broker's answers counts as one about the record, so that no message is tried for ever.
        code if (code as i32) < 0 || is_transient(code) => FailureClass::Temporary,
        _ => FailureClass::Record,
    }
}

/// Answers of a broker that time heals.
fn is_transient(code: Code) -> bool {
    matches!(
        code,
        Code::LeaderNotAvailable
            | Code::NotLeaderForPartition
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
