use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::error::{ConsumerStartError, HandlerError};
use super::record::Record;
use crate::inbox::{Inbox, InboxBuildError, InboxKey};
use crate::limits::{
    CONSUMER_ATTEMPTS_MAX, CONSUMER_BYTES_MAX, CONSUMER_COMMIT_INTERVAL, CONSUMER_CRASHES_MAX,
    CONSUMER_GROUP_CHARS_MAX, CONSUMER_REBALANCE_WAIT, CONSUMER_RECORDS_MAX, CONSUMER_WORKERS,
};
use crate::naming::TableNames;
use crate::retry::{Exponential, RetryPolicy};

/// What keeps a record from being processed twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// The inbox: the handler's transaction begins with the claim of the message id. Keys run in parallel. It also
    /// recognises what a producer sent twice.
    Inbox,
    /// Offsets in the database: the handler's transaction begins with moving the partition's offset on. A process that has
    /// lost the partition moves nothing, and rolls back. The records of a partition run one after the other. What a producer
    /// sent twice is processed twice.
    Offsets,
    /// Both. The records of a partition run one after the other.
    InboxAndOffsets,
}

impl Progress {
    pub(crate) fn has_inbox(self) -> bool {
        self != Self::Offsets
    }

    pub(crate) fn has_offsets(self) -> bool {
        self != Self::Inbox
    }
}

/// What becomes of a record that failed for good: its attempts are spent, its error is
/// [permanent](HandlerError::permanent), or it killed the process repeatedly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// It is tried again for ever, with the waits of the policy, and what follows of its key waits; without a key, what
    /// follows without one. After it killed the process too often (with Kafka), it is not tried again. Other keys go on until
    /// the partition's share of `records_max` is in memory.
    BlockKey,
    /// It moves to the table `outbox_parked`, and what follows of its key moves after it. Other keys go on. Without a key it is
    /// [parked alone](Self::ParkAlone).
    Park,
    /// It alone moves to the table `outbox_parked`; what follows of its key is processed.
    ParkAlone,
}

/// Where a partition begins that the consumer has never read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartFrom {
    /// At its oldest record.
    Earliest,
    /// At its end.
    Latest,
}

/// Called with each failed attempt of a record.
#[derive(Clone)]
pub(crate) struct ErrorHook(pub(crate) Arc<OnError>);

type OnError = dyn Fn(&Record, &HandlerError) + Send + Sync;

impl fmt::Debug for ErrorHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ErrorHook")
    }
}

/// Called with the span of each call of the handler, before it runs.
#[derive(Clone)]
pub(crate) struct SpanHook(pub(crate) Arc<OnSpan>);

type OnSpan = dyn Fn(&tracing::Span, &Record) + Send + Sync;

impl fmt::Debug for SpanHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpanHook")
    }
}

/// Finds the inbox's key of a record that no outbox sent.
#[derive(Clone)]
pub(crate) struct KeyHook(pub(crate) Arc<FindKey>);

type FindKey = dyn Fn(&Record) -> Option<InboxKey> + Send + Sync;

impl fmt::Debug for KeyHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHook")
    }
}

/// What the user chose, whatever the broker.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// What OpenTelemetry calls the broker's kind.
    pub(crate) system: &'static str,
    /// The name under which progress is kept: of Kafka the group.
    pub(crate) consumer: Arc<str>,
    pub(crate) topics: Vec<Arc<str>>,
    pub(crate) tables: TableNames,
    /// Unless it is the default one.
    pub(crate) inbox: Option<Inbox>,
    pub(crate) inbox_key: Option<KeyHook>,
    pub(crate) progress: Progress,
    pub(crate) on_failure: OnFailure,
    pub(crate) start_from: StartFrom,
    pub(crate) retry: Arc<dyn RetryPolicy>,
    pub(crate) attempts_max: u32,
    pub(crate) crashes_max: u32,
    pub(crate) workers: usize,
    pub(crate) records_max: usize,
    pub(crate) bytes_max: usize,
    /// Records of a batch.
    pub(crate) batch_records_max: usize,
    pub(crate) keyless_in_parallel: bool,
    /// Whether the loop removes old entries of the inbox.
    pub(crate) prunes: bool,
    pub(crate) rebalance_wait: Duration,
    pub(crate) commit_interval: Duration,
    pub(crate) on_error: Option<ErrorHook>,
    pub(crate) on_span: Option<SpanHook>,
}

impl Options {
    pub(crate) fn new(system: &'static str, consumer: Arc<str>) -> Self {
        Self {
            system,
            consumer,
            topics: Vec::new(),
            tables: TableNames::default(),
            inbox: None,
            inbox_key: None,
            progress: Progress::Inbox,
            on_failure: OnFailure::Park,
            start_from: StartFrom::Earliest,
            retry: Arc::new(Exponential::default()),
            attempts_max: CONSUMER_ATTEMPTS_MAX,
            crashes_max: CONSUMER_CRASHES_MAX,
            workers: CONSUMER_WORKERS,
            records_max: CONSUMER_RECORDS_MAX,
            bytes_max: CONSUMER_BYTES_MAX,
            batch_records_max: 1,
            keyless_in_parallel: false,
            prunes: true,
            rebalance_wait: CONSUMER_REBALANCE_WAIT,
            commit_interval: CONSUMER_COMMIT_INTERVAL,
            on_error: None,
            on_span: None,
        }
    }
}

impl Options {
    /// The inbox that records are claimed in; `None` without one.
    pub(crate) fn build_inbox(&self) -> Result<Option<Inbox>, ConsumerStartError> {
        let chars = self.consumer.chars().count();
        if !(1..=CONSUMER_GROUP_CHARS_MAX).contains(&chars) || self.consumer.contains('\0') {
            return Err(ConsumerStartError::Group { group: self.consumer.to_string() });
        }
        match &self.inbox {
            _ if !self.progress.has_inbox() && self.inbox_key.is_some() => Err(ConsumerStartError::KeyWithoutInbox),
            _ if !self.progress.has_inbox() => Ok(None),
            Some(inbox) => Ok(Some(inbox.clone())),
            None => match Inbox::builder(&*self.consumer).tables(self.tables.clone()).build() {
                Err(InboxBuildError::Consumer { consumer: group }) => Err(ConsumerStartError::GroupAsInbox { group }),
                built => Ok(Some(built?)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::INBOX_CONSUMER_CHARS_MAX;

    fn refusal(options: &Options) -> Option<ConsumerStartError> {
        options.build_inbox().err()
    }

    #[test]
    fn a_group_whose_name_the_tables_cannot_hold_is_refused() {
        let inbox = Inbox::builder("billing").build().expect("an inbox");
        let of = |group: &str| Options { inbox: Some(inbox.clone()), ..Options::new("kafka", group.into()) };
        let longest = "é".repeat(CONSUMER_GROUP_CHARS_MAX);
        assert!(refusal(&of(&longest)).is_none() && refusal(&of("a group")).is_none());
        for group in ["", "a\0b", &format!("{longest}é")] {
            assert!(matches!(refusal(&of(group)), Some(ConsumerStartError::Group { .. })), "{group:?}");
        }
    }

    #[test]
    fn a_group_whose_name_no_inbox_can_have_says_what_to_do() {
        for group in ["a group", &"g".repeat(INBOX_CONSUMER_CHARS_MAX + 1)] {
            let error = refusal(&Options::new("kafka", group.into()));
            assert!(matches!(error, Some(ConsumerStartError::GroupAsInbox { .. })), "{group:?}: {error:?}");
        }
        let offsets = Options { progress: Progress::Offsets, ..Options::new("kafka", "a group".into()) };
        assert!(refusal(&offsets).is_none(), "it has no inbox");
    }

    #[test]
    fn a_key_without_an_inbox_is_refused() {
        let inbox_key = Some(KeyHook(Arc::new(|_| None)));
        let of =
            |progress| Options { progress, inbox_key: inbox_key.clone(), ..Options::new("kafka", "billing".into()) };
        assert!(refusal(&of(Progress::Inbox)).is_none() && refusal(&of(Progress::InboxAndOffsets)).is_none());
        assert!(matches!(refusal(&of(Progress::Offsets)), Some(ConsumerStartError::KeyWithoutInbox)));
    }
}
