/// What became of a message, as far as this process knows. A committed message never just fails: it stays until it is sent or
/// dead-lettered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeliveryStatus {
    /// The broker has it.
    Acknowledged {
        /// Its partition, if the broker told: Kafka does.
        partition: Option<i32>,
        /// Its offset there. Kafka does not tell it of a record that it had already stored.
        offset: Option<i64>,
    },
    /// It is a dead letter.
    Dead {
        /// The [`DeadLetterReason`](crate::admin::DeadLetterReason), a colon, and the last error.
        reason: String,
    },
    /// This process has not sent it yet: it waits for the broker, for its delay, or for a retry. Or another process has sent it
    /// meanwhile, which takes over what waits. Also the answer, at once and for good, to a receipt beyond the 100,000 that may wait.
    Later,
    /// This process cannot tell: another one sends it, or it went past the commit hook.
    Elsewhere,
}
