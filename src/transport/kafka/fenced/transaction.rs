use std::collections::HashSet;
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseRecord, Producer as _, PurgeConfig};
use rdkafka::types::RDKafkaErrorCode as Code;

use super::cause::{EndReason, code_of, is_fencing_error};
use super::context::LaneProducer;
use super::job::{Job, MessageResult, accepted, hand_over, pending};
use super::progress::{Progress, ProgressPlace};
use crate::crash_points::crash_point;
use crate::limits::{KAFKA_COMMIT_TIMEOUT, KAFKA_LANE_EVENTS_TIMEOUT, KAFKA_LANE_POLL};
use crate::transport::kafka::classify::class_of;
use crate::transport::kafka::context::is_broker_answer;
use crate::transport::kafka::error::BrokerError;
use crate::transport::kafka::record;
use crate::transport::{FailureClass, Outcome, TransportError};

/// Messages whose lane closed before they were delivered, and the reason.
pub(super) type Ending = (Vec<Job>, EndReason);

/// Delivers messages in their order, as many as it can. A refused message is reported, with the later ones of its
/// sequence. The others are sent again at once: they wait for the refusal, but not for the refused message's retry.
pub(super) fn deliver(
    producer: &LaneProducer,
    progress: &mut Option<Progress>,
    mut jobs: Vec<Job>,
    within: Duration,
) -> Result<(), Ending> {
    loop {
        let (next, stopped): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(Job::can_send);
        stopped.into_iter().for_each(|job| job.fail(EndReason::behind().error()));
        if next.is_empty() {
            return Ok(());
        }
        jobs = Transaction { producer, ends_at: Instant::now() + within }.run(next, progress)?;
    }
}

/// Whether a request to end the transaction may still be in transit after the transaction has ended.
///
/// The client repeats a request that got no answer. In the protocol versions it uses, the request does not name its
/// transaction. A late one ends whatever transaction its producer is in then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Certain,
    MayRepeat,
}

pub(super) struct Transaction<'a> {
    pub(super) producer: &'a LaneProducer,
    pub(super) ends_at: Instant,
}

/// Why the record of what the transaction delivers is not stored, if the client or a broker refused it. An error of the
/// transaction or the client says nothing about it.
fn not_noted(noted: Result<usize, Code>, result: Option<&MessageResult>) -> Option<Code> {
    let code = match (noted, result) {
        (Err(code), _) | (Ok(_), Some(&MessageResult::Refused(code))) => code,
        _ => return None,
    };
    (!matches!(code, Code::State | Code::Fatal) && !is_fencing_error(code)).then_some(code)
}

/// Nothing is sent after an end that may be repeated until the lane is fenced again: then the broker refuses the
/// repeated request.
fn retry_or_end(again: Vec<Job>, end: End) -> Result<Vec<Job>, Ending> {
    match end {
        End::Certain => Ok(again),
        End::MayRepeat => Err((again, EndReason::ended_late())),
    }
}

impl Transaction<'_> {
    /// Runs one transaction. Returns the messages to send again.
    fn run(&self, jobs: Vec<Job>, progress: &mut Option<Progress>) -> Result<Vec<Job>, Ending> {
        if let Err(error) = self.producer.begin_transaction() {
            return Err((jobs, EndReason::of(self.producer, &error)));
        }
        let mut results = vec![MessageResult::Pending; jobs.len()];
        let handed = hand_over(&jobs, &mut results, |job, place| self.hand(job, place));
        let noted = match progress {
            Some(progress) if handed > Some(0) => self.note(progress, &jobs, &mut results),
            _ => Ok(0),
        };
        let awaited = handed.zip(noted.ok()).map(|(handed, noted)| handed + noted);
        let is_whole = awaited.is_some_and(|awaited| self.await_answers(awaited, &jobs, &mut results));
        if is_whole && handed > Some(0) {
            crash_point!(LANE_COMMITTING);
            let end = match self.commit() {
                Ok(end) => end,
                Err(cause) => return Err((jobs, cause)),
            };
            crash_point!(LANE_COMMITTED);
            if let Some(progress) = progress {
                progress.add(accepted(&jobs, &results));
            }
            return retry_or_end(self.report(jobs, results, None)?, end);
        }
        // The code is lost after the abort.
        let why = self.end_code();
        let aborted = self.abort(&jobs, &mut results);
        if let (Some(progress), Some(code)) = (progress, not_noted(noted, results.get(jobs.len()))) {
            return Err((jobs, EndReason::not_noted(self.producer, &progress.place.topic, code)));
        }
        match aborted {
            Ok(end) => retry_or_end(self.report(jobs, results, (handed != Some(0)).then_some(why))?, end),
            Err(cause) => Err((jobs, cause)),
        }
    }

    /// Hands over the record of what the transaction delivers. Its result follows those of the messages.
    fn note(&self, progress: &Progress, jobs: &[Job], results: &mut Vec<MessageResult>) -> Result<usize, Code> {
        let ProgressPlace { topic, partition, key } = &progress.place;
        let value = progress.record(pending(jobs, results));
        let record = BaseRecord::with_opaque_to(topic, jobs.len());
        self.hand_record(record.partition(*partition).key(key.as_str()).payload(&value[..]))?;
        results.push(MessageResult::Pending);
        Ok(1)
    }

    fn hand(&self, job: &Job, place: usize) -> Result<(), Code> {
        self.hand_record(record::record(&job.envelope, job.partition, place))
    }

    fn hand_record(&self, mut record: BaseRecord<'_, str, [u8], usize>) -> Result<(), Code> {
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

    /// Waits until the client has reported every accepted message. Returns whether the brokers stored all of them.
    fn await_answers(&self, handed: usize, jobs: &[Job], results: &mut [MessageResult]) -> bool {
        let mut answered = 0;
        while answered < handed && Instant::now() < self.ends_at {
            self.producer.poll(KAFKA_LANE_POLL);
            let (answers, is_whole) = self.take_answers(jobs, results);
            answered += answers;
            // A refused message spoils the transaction, so the others are not waited for.
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
            if let (Some(job), Ok((partition, offset))) = (jobs.get(place), answer) {
                job.sender.placed(partition, offset);
            }
            results[place] = MessageResult::of(answer);
            // The record of what the transaction delivers is no job.
            if let Some(partition) = jobs.get(place).and_then(|job| job.place.as_ref()) {
                match results[place] {
                    MessageResult::Accepted => partition.answered(true),
                    MessageResult::Refused(code) => partition.answered(is_broker_answer(class_of(code))),
                    MessageResult::Pending | MessageResult::Skipped => {}
                }
            }
        }
        (answers, is_whole)
    }

    /// The client's error for a transaction that can only be aborted. If the transaction can go on, there is none.
    fn end_code(&self) -> Code {
        match self.producer.begin_transaction().map_err(|error| code_of(&error)) {
            Err(code) if code != Code::State => code,
            // The transaction can go on, so it was too late.
            Ok(()) | Err(_) => Code::OperationTimedOut,
        }
    }

    fn commit(&self) -> Result<End, EndReason> {
        self.commit_or(EndReason::of)
    }

    /// Commits; on failure returns what `cause` makes of the client's error.
    pub(super) fn commit_or<E>(&self, cause: impl Fn(&LaneProducer, &KafkaError) -> E) -> Result<End, E> {
        let disconnects = self.disconnects();
        let ends_at = Instant::now() + KAFKA_COMMIT_TIMEOUT;
        loop {
            let Err(error) = self.producer.commit_transaction(KAFKA_COMMIT_TIMEOUT) else {
                return Ok(self.end(disconnects));
            };
            // When it is asked again, the coordinator reports the result.
            let is_retriable = matches!(&error, KafkaError::Transaction(error) if error.is_retriable());
            if !is_retriable || Instant::now() >= ends_at {
                return Err(cause(self.producer, &error));
            }
        }
    }

    /// Waits for messages in flight first: the client requires that, and their results may show another reason.
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

    /// Broken connections so far, including those in pending client events; `None` if too many events are pending.
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

    /// Compares the connection breaks before and after the transaction's end. It does not tell the brokers apart: that
    /// would depend on the wording of a log line, and would only save fencing the lane again.
    fn end(&self, disconnects_before: Option<u64>) -> End {
        match (disconnects_before, self.disconnects()) {
            (Some(before), Some(after)) if before == after => End::Certain,
            _ => End::MayRepeat,
        }
    }

    /// Reports what is decided. For an aborted transaction these are the refused messages and those that follow them.
    /// `aborted` is the reason if no message has one.
    fn report(&self, jobs: Vec<Job>, results: Vec<MessageResult>, aborted: Option<Code>) -> Result<Vec<Job>, Ending> {
        let refused = results.iter().find_map(|results| match results {
            MessageResult::Refused(code) => Some(*code),
            MessageResult::Pending | MessageResult::Accepted | MessageResult::Skipped => None,
        });
        if let Some(why) = aborted {
            // The reason concerns the lane, not a message.
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
                MessageResult::Accepted if aborted.is_none() => job.sender.complete(Outcome::Delivered),
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
            // There was no outage, as checked before: one unreachable broker affects its own partitions only.
            FailureClass::Connection => TransportError::new(FailureClass::Temporary, BrokerError { code }),
            class => TransportError::new(class, BrokerError { code }),
        }
    }
}
