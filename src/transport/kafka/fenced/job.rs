use std::collections::HashSet;

use rdkafka::types::RDKafkaErrorCode as Code;

use crate::message::Envelope;
use crate::transport::kafka::partitions::PartitionPermit;
use crate::transport::{KeySequence, OutboxRow, Outcome, OutcomeSender, TransportError};

/// A message of a lane.
pub(super) struct Job {
    pub(super) envelope: Envelope,
    pub(super) sender: OutcomeSender,
    pub(super) sequence: KeySequence,
    /// On an exactly-once lane.
    pub(super) row: Option<OutboxRow>,
    pub(super) partition: Option<i32>,
    pub(super) place: Option<PartitionPermit>,
    /// It came before the failed message of its sequence: it may still be sent.
    pub(super) precedes_failure: bool,
}

impl Job {
    pub(super) fn fail(self, error: TransportError) {
        self.sequence.fail();
        drop(self.place);
        self.sender.complete(Outcome::Failed(error));
    }

    pub(super) fn can_send(&self) -> bool {
        self.precedes_failure || !self.sequence.has_failed()
    }
}

/// What the client reported about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageResult {
    Pending,
    /// The brokers stored it.
    Accepted,
    Refused(Code),
    /// It was not handed over, because an earlier message of its sequence was refused.
    Skipped,
}

impl MessageResult {
    /// A message that was purged with its transaction got no answer.
    pub(super) fn of(answer: Result<(i32, i64), Code>) -> Self {
        match answer {
            Ok(_) => Self::Accepted,
            Err(Code::PurgeQueue | Code::PurgeInflight) => Self::Pending,
            Err(code) => Self::Refused(code),
        }
    }
}

/// Hands the messages to the client. Returns how many it accepted; `None` if the client ended the transaction
/// meanwhile.
pub(super) fn hand_over(
    jobs: &[Job],
    results: &mut [MessageResult],
    mut hand: impl FnMut(&Job, usize) -> Result<(), Code>,
) -> Option<usize> {
    let (mut handed, mut refused) = (0, HashSet::new());
    for (place, job) in jobs.iter().enumerate() {
        // Also skips a message that came before the first failure of its sequence, but comes after a new one.
        if !job.can_send() || refused.contains(&job.sequence) {
            results[place] = MessageResult::Skipped;
            continue;
        }
        match hand(job, place) {
            Ok(()) => handed += 1,
            // An error of the transaction or the client. It says nothing about the message.
            Err(Code::State | Code::Fatal | Code::Fenced) => return None,
            Err(code) => {
                // An error of this message alone, which is not in the transaction.
                job.sequence.fail();
                refused.insert(job.sequence.clone());
                results[place] = MessageResult::Refused(code);
            }
        }
    }
    Some(handed)
}

/// The messages that were handed over.
pub(super) fn pending<'a>(jobs: &'a [Job], results: &'a [MessageResult]) -> impl Iterator<Item = &'a Job> {
    jobs.iter().zip(results).filter(|(_, result)| **result == MessageResult::Pending).map(|(job, _)| job)
}

/// The messages that the brokers stored.
pub(super) fn accepted<'a>(jobs: &'a [Job], results: &'a [MessageResult]) -> impl Iterator<Item = &'a Job> {
    jobs.iter().zip(results).filter(|(_, result)| **result == MessageResult::Accepted).map(|(job, _)| job)
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use super::*;
    use crate::message::MessageId;
    use crate::store::RowKey;
    use crate::transport::OutcomeSink;

    struct Nobody;

    impl OutcomeSink for Nobody {
        fn complete(&self, _row: RowKey, _outcome: Outcome) {}
    }

    pub(in crate::transport::kafka::fenced) fn job(bytes: usize, sequence: &KeySequence) -> Job {
        let mut envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
        envelope.payload = Some(vec![0; bytes]);
        let row = RowKey { id: 1, message_id: envelope.message_id };
        let sender = OutcomeSender::of_row(row, Arc::new(Nobody));
        Job {
            envelope,
            sender,
            sequence: sequence.clone(),
            row: None,
            partition: None,
            place: None,
            precedes_failure: false,
        }
    }

    /// A message that is sent again, because it came before the first failure of its sequence, must not overtake a new
    /// failure.
    #[test]
    fn nothing_is_sent_after_a_refused_message_of_its_sequence() {
        let (sequence, other) = (KeySequence::new(), KeySequence::new());
        sequence.fail();
        let again = |sequence| Job { precedes_failure: true, ..job(1, sequence) };
        let jobs = [again(&sequence), again(&sequence), job(1, &sequence), again(&other)];
        let mut results = [MessageResult::Pending; 4];
        let refuse_first = |_: &Job, place| if place == 0 { Err(Code::QueueFull) } else { Ok(()) };
        assert_eq!(hand_over(&jobs, &mut results, refuse_first), Some(1));
        assert_eq!(
            results,
            [
                MessageResult::Refused(Code::QueueFull),
                MessageResult::Skipped,
                MessageResult::Skipped,
                MessageResult::Pending
            ]
        );
    }

    #[test]
    fn messages_before_a_failed_one_of_their_sequence_are_sent_again() {
        let sequence = KeySequence::new();
        sequence.fail();
        let jobs = [Job { precedes_failure: true, ..job(1, &sequence) }, job(1, &sequence)];
        let mut results = [MessageResult::Pending; 2];
        assert_eq!(hand_over(&jobs, &mut results, |_, _| Ok(())), Some(1));
        assert_eq!(results, [MessageResult::Pending, MessageResult::Skipped]);
    }
}
