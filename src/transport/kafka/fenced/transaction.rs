use std::collections::HashSet;
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use rdkafka::producer::{Producer as _, PurgeConfig};
use rdkafka::types::RDKafkaErrorCode as Code;

use super::cause::{EndReason, code_of, is_fencing_error};
use super::context::LaneProducer;
use crate::crash_points::crash_point;
use crate::limits::{KAFKA_COMMIT_TIMEOUT, KAFKA_LANE_EVENTS_TIMEOUT, KAFKA_LANE_POLL};
use crate::message::Envelope;
use crate::transport::kafka::classify::class_of;
use crate::transport::kafka::context::is_broker_answer;
use crate::transport::kafka::error::BrokerError;
use crate::transport::kafka::partitions::PartitionPermit;
use crate::transport::kafka::record;
use crate::transport::{FailureClass, KeySequence, Outcome, Receipt, TransportError};

/// A message of a lane.
pub(super) struct Job {
    pub(super) envelope: Envelope,
    pub(super) receipt: Receipt,
    pub(super) sequence: KeySequence,
    pub(super) partition: Option<i32>,
    pub(super) place: Option<PartitionPermit>,
    /// Was before the one that failed of its run: it may go all the same.
    pub(super) precedes_failure: bool,
}

impl Job {
    pub(super) fn fail(self, error: TransportError) {
        self.sequence.fail();
        drop(self.place);
        self.receipt.complete(Outcome::Failed(error));
    }

    fn can_send(&self) -> bool {
        self.precedes_failure || !self.sequence.has_failed()
    }
}

/// Messages whose lane ended before they were delivered, and why it did.
pub(super) type Ending = (Vec<Job>, EndReason);

/// Delivers messages in their order, all that can be. One that is refused is reported, with those of its run behind it; the
/// others go again without it at once: they wait for its refusal, and for none of the waits that it has then.
pub(super) fn deliver(producer: &LaneProducer, mut jobs: Vec<Job>, within: Duration) -> Result<(), Ending> {
    loop {
        let (next, stopped): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(Job::can_send);
        stopped.into_iter().for_each(|job| job.fail(EndReason::behind().error()));
        if next.is_empty() {
            return Ok(());
        }
        jobs = Transaction { producer, ends_at: Instant::now() + within }.run(next)?;
    }
}

/// Whether a request to end the transaction may still be on its way, now that the transaction has ended.
///
/// The client repeats one that it has no answer to. In the versions it speaks nothing says which transaction is meant: a late one ends
/// whatever transaction its producer is in then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Certain,
    MayRepeat,
}

struct Transaction<'a> {
    producer: &'a LaneProducer,
    ends_at: Instant,
}

/// What the client told of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageResult {
    Pending,
    /// The brokers have it.
    Accepted,
    Refused(Code),
    /// It was not handed over, because one of its run was refused.
    Skipped,
}

impl MessageResult {
    /// What purges a transaction's other messages is no answer.
    fn of(answer: Result<(), Code>) -> Self {
        match answer {
            Ok(()) => Self::Accepted,
            Err(Code::PurgeQueue | Code::PurgeInflight) => Self::Pending,
            Err(code) => Self::Refused(code),
        }
    }
}

/// Hands the messages to the client; returns how many it took, where it did not end the transaction meanwhile.
fn hand_over(
    jobs: &[Job],
    results: &mut [MessageResult],
    mut hand: impl FnMut(&Job, usize) -> Result<(), Code>,
) -> Option<usize> {
    let (mut handed, mut refused) = (0, HashSet::new());
    for (place, job) in jobs.iter().enumerate() {
        // Nor one that was before the message of its run that failed at first, and is behind one that does now.
        if !job.can_send() || refused.contains(&job.sequence) {
            results[place] = MessageResult::Skipped;
            continue;
        }
        match hand(job, place) {
            Ok(()) => handed += 1,
            // Said of the transaction, or of the client; of the message it says nothing.
            Err(Code::State | Code::Fatal | Code::Fenced) => return None,
            Err(code) => {
                // Said of this message alone, which is not in the transaction.
                job.sequence.fail();
                refused.insert(job.sequence.clone());
                results[place] = MessageResult::Refused(code);
            }
        }
    }
    Some(handed)
}

/// Nothing is sent behind an end that may come again, before the lane is fenced anew: the broker refuses it then.
fn retry_or_end(again: Vec<Job>, end: End) -> Result<Vec<Job>, Ending> {
    match end {
        End::Certain => Ok(again),
        End::MayRepeat => Err((again, EndReason::ended_late())),
    }
}

impl Transaction<'_> {
    /// Returns those that are to go again.
    fn run(&self, jobs: Vec<Job>) -> Result<Vec<Job>, Ending> {
        if let Err(error) = self.producer.begin_transaction() {
            return Err((jobs, EndReason::of(self.producer, &error)));
        }
        let mut results = vec![MessageResult::Pending; jobs.len()];
        let handed = hand_over(&jobs, &mut results, |job, place| self.hand(job, place));
        let is_whole = handed.is_some_and(|handed| self.await_answers(handed, &jobs, &mut results));
        if is_whole && handed > Some(0) {
            crash_point!(LANE_COMMITTING);
            let end = match self.commit() {
                Ok(end) => end,
                Err(cause) => return Err((jobs, cause)),
            };
            crash_point!(LANE_COMMITTED);
            return retry_or_end(self.report(jobs, results, None)?, end);
        }
        // Afterwards it is forgotten.
        let why = self.end_code();
        match self.abort(&jobs, &mut results) {
            Ok(end) => retry_or_end(self.report(jobs, results, (handed != Some(0)).then_some(why))?, end),
            Err(cause) => Err((jobs, cause)),
        }
    }

    fn hand(&self, job: &Job, place: usize) -> Result<(), Code> {
        let mut record = record::record(&job.envelope, job.partition, place);
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((error, back)) => match code_of(&error) {
                    Code::QueueFull if Instant::now() < self.ends_at => record = back,
                    code => return Err(code),
                },
            }
            self.producer.poll(KAFKA_LANE_POLL);
        }
    }

    /// Waits until the client has told of all that it took; says whether the brokers have all of it.
    fn await_answers(&self, handed: usize, jobs: &[Job], results: &mut [MessageResult]) -> bool {
        let mut answered = 0;
        while answered < handed && Instant::now() < self.ends_at {
            self.producer.poll(KAFKA_LANE_POLL);
            let (answers, is_whole) = self.take_answers(jobs, results);
            answered += answers;
            // One that is refused spoils the transaction, and the others are not waited for.
            if !is_whole {
                return false;
            }
        }
        answered == handed
    }

    fn take_answers(&self, jobs: &[Job], results: &mut [MessageResult]) -> (usize, bool) {
        let reports = self.producer.context().take_reports();
        let is_whole = reports.iter().all(|(_, answer)| answer.is_ok());
        let answers = reports.len();
        for (place, answer) in reports {
            results[place] = MessageResult::of(answer);
            if let Some(partition) = &jobs[place].place {
                match results[place] {
                    MessageResult::Accepted => partition.answered(true),
                    MessageResult::Refused(code) => partition.answered(is_broker_answer(class_of(code))),
                    MessageResult::Pending | MessageResult::Skipped => {}
                }
            }
        }
        (answers, is_whole)
    }

    /// What the client says of a transaction that is only to be aborted. Of one that may go on it says nothing.
    fn end_code(&self) -> Code {
        match self.producer.begin_transaction().map_err(|error| code_of(&error)) {
            Err(code) if code != Code::State => code,
            // Not in time, then.
            Ok(()) | Err(_) => Code::OperationTimedOut,
        }
    }

    fn commit(&self) -> Result<End, EndReason> {
        let disconnects = self.disconnects();
        let ends_at = Instant::now() + KAFKA_COMMIT_TIMEOUT;
        loop {
            let Err(error) = self.producer.commit_transaction(KAFKA_COMMIT_TIMEOUT) else {
                return Ok(self.end(disconnects));
            };
            // Asked again, the coordinator says what became of it.
            let is_retriable = matches!(&error, KafkaError::Transaction(error) if error.is_retriable());
            if !is_retriable || Instant::now() >= ends_at {
                return Err(EndReason::of(self.producer, &error));
            }
        }
    }

    /// What is under way is waited for before, because the client wants it so, and counts: with it there may be another reason.
    fn abort(&self, jobs: &[Job], results: &mut [MessageResult]) -> Result<End, EndReason> {
        self.producer.purge(PurgeConfig::default().queue());
        let ends_at = Instant::now() + KAFKA_COMMIT_TIMEOUT;
        while self.producer.in_flight_count() > 0 && Instant::now() < ends_at {
            self.producer.poll(KAFKA_LANE_POLL);
        }
        let flushed = self.producer.flush(Duration::ZERO);
        self.take_answers(jobs, results);
        let disconnects = self.disconnects();
        let aborted = flushed.and_then(|()| self.producer.abort_transaction(KAFKA_COMMIT_TIMEOUT));
        aborted.map(|()| self.end(disconnects)).map_err(|error| EndReason::of(self.producer, &error))
    }

    /// Breaks of connections, with those that are among the client's events; `None` where it has too many of them.
    fn disconnects(&self) -> Option<u64> {
        let ends_at = Instant::now() + KAFKA_LANE_EVENTS_TIMEOUT;
        while self.producer.in_flight_count() > 0 {
            if Instant::now() >= ends_at {
                return None;
            }
            self.producer.poll(Duration::ZERO);
        }
        Some(self.producer.context().disconnects())
    }

    /// The transaction has ended, and before its end so many connections had broken. Those of other brokers are not told apart: that
    /// would rest upon the wording of a log, and costs no more than to fence anew.
    fn end(&self, disconnects_before: Option<u64>) -> End {
        match (disconnects_before, self.disconnects()) {
            (Some(before), Some(after)) if before == after => End::Certain,
            _ => End::MayRepeat,
        }
    }

    /// Reports what is decided. Of a transaction that was aborted, for this reason where no message has one, that is what was refused,
    /// and what comes behind it.
    fn report(&self, jobs: Vec<Job>, results: Vec<MessageResult>, aborted: Option<Code>) -> Result<Vec<Job>, Ending> {
        let refused = results.iter().find_map(|results| match results {
            MessageResult::Refused(code) => Some(*code),
            MessageResult::Pending | MessageResult::Accepted | MessageResult::Skipped => None,
        });
        if let Some(why) = aborted {
            // The reason is the lane's, and no message's.
            let ended = refused.map_or(Some(why), |code| is_fencing_error(code).then_some(code));
            if let Some(code) = ended {
                return Err((jobs, EndReason::of(self.producer, &KafkaError::MessageProduction(code))));
            }
            if let Some(outage) = self.producer.context().outage() {
                return Err((jobs, EndReason::outage(outage)));
            }
        }
        let (mut again, mut failed) = (Vec::new(), HashSet::new());
        for (mut job, results) in jobs.into_iter().zip(results) {
            match results {
                MessageResult::Accepted if aborted.is_none() => job.receipt.complete(Outcome::Delivered),
                _ if failed.contains(&job.sequence) => job.fail(EndReason::behind().error()),
                MessageResult::Refused(code) => {
                    failed.insert(job.sequence.clone());
                    let error = self.refusal(code, &job);
                    job.fail(error);
                }
                MessageResult::Skipped => job.fail(EndReason::behind().error()),
                MessageResult::Pending | MessageResult::Accepted => {
                    job.precedes_failure = true;
                    again.push(job);
                }
            }
        }
        Ok(again)
    }

    fn refusal(&self, code: Code, job: &Job) -> TransportError {
        match class_of(code) {
            class if is_broker_answer(class) => self.producer.context().inner.failure(code, &job.envelope.topic),
            // There is no outage, as was asked before: one broker that is away is the trouble of its partitions.
            FailureClass::Connection => TransportError::new(FailureClass::Temporary, BrokerError { code }),
            class => TransportError::new(class, BrokerError { code }),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use super::*;
    use crate::message::MessageId;
    use crate::store::RowKey;
    use crate::transport::ReceiptSink;

    struct Nobody;

    impl ReceiptSink for Nobody {
        fn complete(&self, _row: RowKey, _outcome: Outcome) {}
    }

    pub(in crate::transport::kafka::fenced) fn job(bytes: usize, run: &KeySequence) -> Job {
        let mut envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
        envelope.payload = Some(vec![0; bytes]);
        let row = RowKey { id: 1, message_id: envelope.message_id };
        let receipt = Receipt::new(row, Arc::new(Nobody));
        Job { envelope, receipt, sequence: run.clone(), partition: None, place: None, precedes_failure: false }
    }

    /// One that goes again, because it was before the one of its run that failed, is not to pass one that fails now.
    #[test]
    fn nothing_is_sent_after_a_refused_message_of_its_sequence() {
        let (run, other) = (KeySequence::new(), KeySequence::new());
        run.fail();
        let again = |run| Job { precedes_failure: true, ..job(1, run) };
        let jobs = [again(&run), again(&run), job(1, &run), again(&other)];
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
        let run = KeySequence::new();
        run.fail();
        let jobs = [Job { precedes_failure: true, ..job(1, &run) }, job(1, &run)];
        let mut results = [MessageResult::Pending; 2];
        assert_eq!(hand_over(&jobs, &mut results, |_, _| Ok(())), Some(1));
        assert_eq!(results, [MessageResult::Pending, MessageResult::Skipped]);
    }
}
