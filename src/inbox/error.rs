use std::time::SystemTime;

use diesel::result::{DatabaseErrorKind, Error};

use super::InboxKey;

/// Why a message was not handled.
///
/// It turns into a [`diesel::result::Error`], so `?` works in every transaction closure. [`InboxError::of`] extracts it from there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// The message is older than what the inbox keeps. It may have been handled, and its entry removed since.
    #[error(
        "message {key} for consumer {consumer:?} was made before {}, and older entries are removed, so nobody knows any more whether it \
         was handled: find out in the consumer's data, and handle it by hand if it was not; to accept messages of this age, keep entries \
         for longer (`Inbox::builder(..).keep_days(..)`)",
        humantime::format_rfc3339_millis(*kept_from)
    )]
    TooOld {
        /// The consumer's name.
        consumer: String,
        /// The message.
        key: InboxKey,
        /// Entries of messages from then on are kept.
        kept_from: SystemTime,
    },
    /// No transaction is open: the entry would commit without the handler's work.
    #[error(
        "consumer {consumer:?} claimed a message outside a transaction, so it would count as handled whatever becomes of it: claim it inside \
         `conn.transaction(..)`, on the connection of the handler's work, or use `Inbox::once`"
    )]
    NotInTransaction {
        /// The consumer's name.
        consumer: String,
    },
    /// A transaction is open, and this call has to begin and end its own.
    #[error(
        "{call} of consumer {consumer:?} was called inside a transaction, and it commits and rolls back its own: call it outside"
    )]
    InTransaction {
        /// The consumer's name.
        consumer: String,
        /// The method.
        call: &'static str,
    },
    /// The transaction is over, but the connection still counts it as open: a deadlock rolled it back, or a statement such as DDL
    /// committed it.
    #[error(
        "the transaction in which consumer {consumer:?} claimed a message is already over (a deadlock rolled it back, or a statement such as \
         DDL committed it): let the closure return its error, and run the whole transaction again"
    )]
    TransactionLost {
        /// The consumer's name.
        consumer: String,
    },
    /// The handler returned `Ok` after one of its statements had failed. PostgreSQL keeps nothing of such a transaction, and answers "ok" to
    /// its COMMIT.
    #[error(
        "the handler of consumer {consumer:?} returned Ok although one of its statements had failed, so nothing of its transaction could be \
         kept, and it was rolled back: let the handler return the statement's error; if the statement may fail, run it inside \
         `conn.transaction(..)` in the handler"
    )]
    TransactionAborted {
        /// The consumer's name.
        consumer: String,
    },
    /// The row that says from when on entries are kept is gone.
    #[error(
        "the table {table} has no row, so nobody knows which messages are too old: insert it again, as the migration 0000inbox01_entries does"
    )]
    StartMissing {
        /// The table.
        table: String,
    },
    /// The database's error.
    #[error(transparent)]
    Database(#[from] Error),
}

impl InboxError {
    /// The refusal inside a Diesel error, if there is one.
    ///
    /// ```
    /// use diesel_outbox::inbox::InboxError;
    ///
    /// let error = diesel::result::Error::from(InboxError::NotInTransaction { consumer: "billing".into() });
    /// assert!(matches!(InboxError::of(&error), Some(InboxError::NotInTransaction { .. })));
    /// assert!(InboxError::of(&diesel::result::Error::NotFound).is_none());
    /// ```
    pub fn of(error: &Error) -> Option<&Self> {
        match error {
            Error::SerializationError(source) => source.downcast_ref(),
            _ => None,
        }
    }

    /// Whether the same transaction may succeed if it is run again as a whole: the database rolled it back because of others.
    ///
    /// It is a deadlock, or an error of REPEATABLE READ or SERIALIZABLE on PostgreSQL (40001). Some drivers have no kind for a deadlock, so its
    /// text is read, which is English unless the server is configured otherwise. In another language this is false, and the message
    /// has to come again.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Database(Error::DatabaseError(DatabaseErrorKind::SerializationFailure, _)) => true,
            Self::Database(Error::DatabaseError(_, information)) => {
                DEADLOCKS.iter().any(|text| information.message().starts_with(text))
            }
            _ => false,
        }
    }
}

/// The errors of drivers without a kind for it: MySQL by diesel-async (1213), and PostgreSQL (40P01).
const DEADLOCKS: [&str; 2] = ["Deadlock found", "deadlock detected"];

impl From<InboxError> for Error {
    fn from(error: InboxError) -> Self {
        match error {
            InboxError::Database(error) => error,
            refusal => Self::SerializationError(Box::new(refusal)),
        }
    }
}
