use crate::codec::CodecError;
use crate::limits::{DELAY_MAX, KEY_BYTES_MAX, KIND_CHARS_MAX};
use crate::message::HeaderError;

/// Why a message was refused. Nothing of it was written.
///
/// It travels inside [`diesel::result::Error`]. So `?` works in every transaction closure, and callers' retry loops
/// still see the database's own errors. [`EnqueueError::of`] extracts it.
///
/// ```
/// use diesel_outbox::EnqueueError;
///
/// let error = diesel::result::Error::from(EnqueueError::NotInTransaction { topic: "orders".into() });
/// assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::NotInTransaction { .. })));
/// assert!(EnqueueError::of(&diesel::result::Error::NotFound).is_none());
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The outbox has no such topic.
    #[error(
        "topic {topic:?} is not configured: add it with `Outbox::builder().topic(..)`; the configured topics are {configured:?}"
    )]
    UnknownTopic {
        /// The message's topic.
        topic: String,
        /// The configured topics.
        configured: Vec<String>,
    },
    /// Payload, key and headers together are too large.
    #[error(
        "the message for topic {topic:?} has {bytes} bytes of payload, key and headers, but {bytes_max} is the limit: \
         send a reference to the data, or raise `Topic::message_bytes_max` and the broker's limit with it"
    )]
    TooLarge {
        /// The message's topic.
        topic: String,
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The topic is ordered by key, and the message has none.
    #[error(
        "the message for the ordered topic {topic:?} has no key: give it one (`#[outbox(key = ..)]` or `Message::key`), or \
         send it to a topic without `ordered_by_key()`"
    )]
    KeyMissing {
        /// The message's topic.
        topic: String,
    },
    /// The topic is ordered by key, and the message is delayed.
    #[error(
        "the message for the ordered topic {topic:?} is delayed, and later ones of its key would overtake it: enqueue it \
         without `delay` and `deliver_at`, or send it to a topic without `ordered_by_key()`"
    )]
    DelayedOnOrderedTopic {
        /// The message's topic.
        topic: String,
    },
    /// The delivery is too far in the future.
    #[error("the message for topic {topic:?} is delayed by more than {DELAY_MAX:?}: use a shorter delay")]
    DelayTooLong {
        /// The message's topic.
        topic: String,
    },
    /// The key is too long.
    #[error(
        "the key of the message for topic {topic:?} has {bytes} bytes, but {KEY_BYTES_MAX} is the limit: hash it, or use an id"
    )]
    KeyTooLong {
        /// The message's topic.
        topic: String,
        /// The key's length.
        bytes: usize,
    },
    /// The kind is too long.
    #[error(
        "the kind of the message for topic {topic:?} has {chars} characters, but {KIND_CHARS_MAX} is the limit: shorten it"
    )]
    KindTooLong {
        /// The message's topic.
        topic: String,
        /// The kind's length.
        chars: usize,
    },
    /// A text contains U+0000.
    #[error(
        "the {field} of the message for topic {topic:?} contains a NUL, which PostgreSQL cannot store as text: remove or encode it"
    )]
    Nul {
        /// The message's topic.
        topic: String,
        /// The text: `key` or `kind`.
        field: &'static str,
    },
    /// A header cannot be sent.
    #[error("header {name:?} of the message for topic {topic:?}: {problem}")]
    Header {
        /// The message's topic.
        topic: String,
        /// The header's name.
        name: String,
        /// The problem.
        problem: HeaderError,
    },
    /// The event's payload could not be encoded.
    #[error(
        "the payload of `{type_name}` (topic {topic:?}, kind {kind:?}) cannot be encoded: {error}; this is about the fields of \
         `{type_name}`, not about the message's key or headers: change the field, or give the type another codec"
    )]
    Codec {
        /// The event's type.
        type_name: &'static str,
        /// The message's topic.
        topic: String,
        /// The message's kind.
        kind: String,
        /// The codec's error.
        error: CodecError,
    },
    /// An [`EnqueueInterceptor`](crate::EnqueueInterceptor) refused the message, or panicked.
    #[error(
        "the interceptor {interceptor} refused the message for topic {topic:?}: {error}; this is about the application's own \
         interceptor, which was registered with `Outbox::builder().interceptor(..)`"
    )]
    Interceptor {
        /// The message's topic.
        topic: String,
        /// The interceptor, as its `Debug` shows it.
        interceptor: String,
        /// Its error.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No transaction is open, and the outbox was not built with
    /// [`allow_outside_transaction`](crate::OutboxBuilder::allow_outside_transaction).
    #[error(
        "the message for topic {topic:?} was enqueued outside a transaction, so it would be sent whatever becomes of the business \
         data: enqueue it inside `conn.transaction(..)`, on the same connection as the data; or, where there is no such data, build \
         the outbox with `.allow_outside_transaction()`"
    )]
    NotInTransaction {
        /// The message's topic.
        topic: String,
    },
    /// The outbox's table is not there: its migration has not run in this database, or the table has another name. As after any
    /// failed statement, PostgreSQL refuses the rest of the transaction.
    #[error(
        "the message for topic {topic:?} cannot be written, because the table {table} is missing: run the outbox's migration \
         {migration} when the application starts, by `outbox.migrate(&mut conn)` or `outbox.migrate_async(&mut conn).await`; or, \
         where the table has another prefix or schema, name that with `Outbox::builder().tables(..)`"
    )]
    TableMissing {
        /// The message's topic.
        topic: String,
        /// The table, with its schema where one is named.
        table: String,
        /// The migration that makes it.
        migration: String,
    },
    /// The half message already has a mark. Either the broker asked about it before its transaction marked it, and was
    /// told to drop it. Or an earlier attempt with it marked it and committed, although its COMMIT got no answer.
    #[error(
        "the half message for topic {topic:?} already has a mark: either the broker asked about it first, which it does after \
         some seconds, and dropped it, or an earlier attempt with it has committed; let the closure return its error, check \
         whether that attempt's data is there, and if not, begin again with a new half message"
    )]
    HalfMessageDropped {
        /// The message's topic.
        topic: String,
    },
    /// The transaction is over, but the connection still counts it as open. The cause is a deadlock, `OR ROLLBACK`,
    /// `RAISE(ROLLBACK)`, a statement that commits implicitly, or a raw `COMMIT` or `ROLLBACK`. The message would have
    /// been committed without its business data.
    #[error(
        "the transaction of the message for topic {topic:?} is already over (a deadlock or a failed statement rolled it back, \
         a statement such as DDL committed it, or raw SQL ended it): let the closure return its error, and run the whole \
         transaction again"
    )]
    TransactionLost {
        /// The message's topic.
        topic: String,
    },
    /// The database answered "ok" to the INSERT and stored no row: a trigger, a rule or a view of the application
    /// removed it. The message would have been lost.
    #[error(
        "the database stored no row for the message for topic {topic:?}, or for one that was written with it, and reported no \
         error: a trigger, a rule or a view on the outbox's table removes rows (BEFORE INSERT returning NULL, RAISE(IGNORE)); \
         let the closure return its error, and drop that trigger, rule or view"
    )]
    RowRemoved {
        /// The message's topic.
        topic: String,
    },
}

impl EnqueueError {
    /// The refusal inside a Diesel error, if there is one.
    pub fn of(error: &diesel::result::Error) -> Option<&Self> {
        match error {
            diesel::result::Error::SerializationError(source) => source.downcast_ref(),
            _ => None,
        }
    }
}

impl From<EnqueueError> for diesel::result::Error {
    fn from(error: EnqueueError) -> Self {
        Self::SerializationError(Box::new(error))
    }
}
