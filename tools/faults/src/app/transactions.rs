//! The kinds of transactions. Each writes the truth of what it commits.

use std::time::Duration;

use diesel::result::{Error, QueryResult};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_outbox::{Message, MessageId};
use tokio::time::sleep;

use super::now_ms;
use super::workers::Work;
use crate::truth::{MessageName, Note, REFUSED_AT_FIRST, note};
use crate::wire::{AGED, FENCED, Load, ORDERED, PLAIN};

/// Keys of each topic: few enough that each has many messages in order.
const KEYS: u64 = 40;
/// The range of delays, in milliseconds.
const DELAYS: std::ops::Range<u64> = 200..3_000;

/// The names of all kinds.
pub(crate) const TRANSACTIONS: [&str; 14] = [
    "commit",
    "ordered",
    "batch",
    "outbox.transaction",
    "rollback",
    "savepoint rolled back",
    "savepoint released",
    "swallowed error",
    "cancelled future",
    "long",
    "delayed",
    "delayed, then sent now",
    "fenced",
    "aged",
];

/// What a transaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Commit,
    Ordered,
    Batch(u64),
    OutboxTransaction,
    Rollback,
    SavepointRolledBack,
    SavepointReleased,
    SwallowedError,
    Cancelled,
    Long,
    Delayed,
    /// Delayed, and sent early after its commit.
    SentNow,
    Fenced,
    /// Its message is old when it is enqueued.
    Aged,
}

impl Kind {
    pub(super) fn pick(random: &mut fastrand::Rng, all_features: bool) -> Self {
        let lots = if all_features { 140 } else { 100 };
        match random.u32(..lots) {
            0..15 => Self::Commit,
            15..45 => Self::Ordered,
            45..60 => Self::Batch(random.u64(2..40)),
            60..70 => Self::OutboxTransaction,
            70..76 => Self::Rollback,
            76..82 => Self::SavepointRolledBack,
            82..88 => Self::SavepointReleased,
            88..95 => Self::SwallowedError,
            95..100 => Self::Cancelled,
            100..108 => Self::Delayed,
            108..112 => Self::SentNow,
            112..130 => Self::Fenced,
            _ => Self::Aged,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Ordered => "ordered",
            Self::Batch(_) => "batch",
            Self::OutboxTransaction => "outbox.transaction",
            Self::Rollback => "rollback",
            Self::SavepointRolledBack => "savepoint rolled back",
            Self::SavepointReleased => "savepoint released",
            Self::SwallowedError => "swallowed error",
            Self::Cancelled => "cancelled future",
            Self::Long => "long",
            Self::Delayed => "delayed",
            Self::SentNow => "delayed, then sent now",
            Self::Fenced => "fenced",
            Self::Aged => "aged",
        }
    }

    /// Whether it works on an ordered topic as well as on a plain one. `outbox.transaction` does not: it locks the key
    /// at its end, when the number that shows the order is already assigned.
    fn is_of_any_topic(self) -> bool {
        let kinds = [
            Self::Rollback,
            Self::SavepointRolledBack,
            Self::SavepointReleased,
            Self::SwallowedError,
            Self::Cancelled,
            Self::Long,
        ];
        kinds.contains(&self)
    }

    /// When its future is dropped, somewhere in the middle.
    pub(super) fn time_limit(self, random: &mut fastrand::Rng) -> Option<Duration> {
        (self == Self::Cancelled).then(|| Duration::from_micros(random.u64(..8_000)))
    }
}

/// A message before it is enqueued.
struct Draft {
    name: MessageName,
    topic: i16,
    key: Option<String>,
    delay: Option<Duration>,
    /// `None` if it is to be sent early.
    not_before_ms: Option<u64>,
}

impl Draft {
    fn plain(work: &Work, random: &mut fastrand::Rng) -> Self {
        let key = random.bool().then(|| format!("key-{}", random.u64(..KEYS)));
        Self { name: work.name(), topic: PLAIN, key, delay: None, not_before_ms: None }
    }

    /// The first message of a transaction.
    fn first(work: &Work, random: &mut fastrand::Rng, kind: Kind) -> Self {
        let Load { ordered, all_features, .. } = work.config.load;
        match kind {
            Kind::Ordered if ordered => Self::of_key(work, random, ORDERED),
            Kind::Fenced => Self::of_key(work, random, FENCED),
            Kind::Aged => Self { topic: AGED, key: None, ..Self::plain(work, random) },
            Kind::Delayed | Kind::SentNow => Self::plain(work, random).delayed(random, kind == Kind::SentNow),
            _ => match kind.is_of_any_topic().then(|| random.u32(..6)) {
                Some(0 | 1) if ordered => Self::of_key(work, random, ORDERED),
                Some(2) if all_features => Self::of_key(work, random, FENCED),
                _ => Self::plain(work, random),
            },
        }
    }

    fn of_key(work: &Work, random: &mut fastrand::Rng, topic: i16) -> Self {
        let key = Some(format!("key-{}", random.u64(..KEYS)));
        Self { name: work.name(), topic, key, delay: None, not_before_ms: None }
    }

    /// Another message of the same key: two keys in one transaction could deadlock.
    fn behind(&self, work: &Work) -> Self {
        let key = self.key.clone();
        Self { name: work.name(), topic: self.topic, key, delay: None, not_before_ms: None }
    }

    /// The delay counts from the INSERT, which comes after this.
    fn delayed(self, random: &mut fastrand::Rng, sent_now: bool) -> Self {
        let delay_ms = random.u64(DELAYS);
        let not_before_ms = (!sent_now).then(|| now_ms() + delay_ms);
        Self { delay: Some(Duration::from_millis(delay_ms)), not_before_ms, ..self }
    }

    fn message(&self, work: &Work) -> Message {
        let kind = match self.topic {
            PLAIN if work.config.load.all_features && self.name.is_refused_at_first() => REFUSED_AT_FIRST,
            PLAIN => "plain",
            _ => "ordered",
        };
        let topic = work.config.topics.name(self.topic);
        let message = Message::to(topic).kind(kind).payload_bytes(self.name.payload());
        let message = match self.delay {
            Some(delay) => message.delay(delay),
            None => message,
        };
        match &self.key {
            Some(key) => message.key(key.as_str()),
            None => message,
        }
    }

    async fn note(&self, connection: &mut AsyncPgConnection, id: Option<MessageId>) -> QueryResult<()> {
        let message_id = id.map(|id| *id.as_uuid());
        let Self { name, topic, ref key, not_before_ms, .. } = *self;
        note(connection, Note { name, message_id, topic, key: key.as_deref(), not_before_ms }).await
    }

    /// Enqueues the message and records it: on an ordered topic under the key's lock. Elsewhere it records as often
    /// before the enqueue as after it, so that COMMIT sometimes follows the enqueue directly and verifies it.
    async fn write(&self, work: &Work, connection: &mut AsyncPgConnection) -> QueryResult<()> {
        if self.topic == PLAIN && self.name.sequence.is_multiple_of(2) {
            self.note(connection, None).await?;
            return work.outbox.enqueue_async(connection, &self.message(work)).await.map(drop);
        }
        self.write_first(work, connection).await.map(drop)
    }

    async fn write_first(&self, work: &Work, connection: &mut AsyncPgConnection) -> QueryResult<MessageId> {
        let id = work.outbox.enqueue_async(connection, &self.message(work)).await?;
        self.note(connection, Some(id)).await?;
        Ok(id)
    }
}

/// Runs one transaction. An error means that the caller must reconnect to the database.
pub(super) async fn run(
    work: &Work,
    connection: &mut AsyncPgConnection,
    kind: Kind,
    random: &mut fastrand::Rng,
) -> QueryResult<()> {
    let first = Draft::first(work, random, kind);
    let second = if first.topic == PLAIN { Draft::plain(work, random) } else { first.behind(work) };
    let ended = match kind {
        Kind::Batch(messages) => {
            let drafts: Vec<Draft> = (0..messages).map(|_| Draft::plain(work, random)).collect();
            batch(work, connection, &drafts).await
        }
        Kind::OutboxTransaction => outbox_transaction(work, connection, first).await,
        Kind::SentNow => sent_now(work, connection, &first).await,
        Kind::Fenced => {
            connection
                .transaction(async |connection| {
                    first.write(work, connection).await?;
                    second.write(work, connection).await
                })
                .await
        }
        Kind::Ordered | Kind::Commit | Kind::Cancelled | Kind::Delayed | Kind::Aged => {
            connection.transaction(async |connection| first.write(work, connection).await).await
        }
        Kind::Rollback => {
            connection
                .transaction(async |connection| {
                    first.write(work, connection).await?;
                    Err(Error::RollbackTransaction)
                })
                .await
        }
        Kind::SavepointRolledBack | Kind::SavepointReleased => {
            savepoint(work, connection, [&first, &second], kind == Kind::SavepointReleased).await
        }
        Kind::SwallowedError => {
            connection
                .transaction(async |connection| {
                    first.write(work, connection).await?;
                    // Its name is taken: the database aborts the transaction, and the application goes on as if nothing
                    // had happened.
                    let _ = first.note(connection, None).await;
                    Ok(())
                })
                .await
        }
        Kind::Long => {
            connection
                .transaction(async |connection| {
                    first.write(work, connection).await?;
                    sleep(Duration::from_millis(work.config.times.long_transaction_ms())).await;
                    second.write(work, connection).await
                })
                .await
        }
    };
    match ended {
        Err(Error::RollbackTransaction) => Ok(()),
        other => other,
    }
}

async fn batch(work: &Work, connection: &mut AsyncPgConnection, drafts: &[Draft]) -> QueryResult<()> {
    connection
        .transaction(async |connection| {
            let messages: Vec<Message> = drafts.iter().map(|draft| draft.message(work)).collect();
            let ids = work.outbox.enqueue_all_async(connection, messages).await?;
            for (draft, id) in drafts.iter().zip(ids) {
                draft.note(connection, Some(id)).await?;
            }
            Ok(())
        })
        .await
}

async fn savepoint(
    work: &Work,
    connection: &mut AsyncPgConnection,
    [outer, inner]: [&Draft; 2],
    released: bool,
) -> QueryResult<()> {
    connection
        .transaction(async |connection| {
            outer.write(work, connection).await?;
            let ended = connection
                .transaction(async |connection| {
                    inner.write(work, connection).await?;
                    if released { Ok(()) } else { Err(Error::RollbackTransaction) }
                })
                .await;
            match ended {
                Err(Error::RollbackTransaction) => Ok(()),
                other => other,
            }
        })
        .await
}

async fn sent_now(work: &Work, connection: &mut AsyncPgConnection, draft: &Draft) -> QueryResult<()> {
    let id = connection.transaction(async |connection| draft.write_first(work, connection).await).await?;
    work.admin_actions.send_now(id).await;
    Ok(())
}

/// Uses `outbox.transaction`, which hands the message over without a confirm.
async fn outbox_transaction(work: &Work, connection: &mut AsyncPgConnection, draft: Draft) -> QueryResult<()> {
    let message = draft.message(work);
    work.outbox
        .transaction_async(connection, async move |tx| {
            let id = tx.enqueue(&message)?;
            draft.note(tx.connection(), Some(id)).await?;
            Ok(())
        })
        .await
}
