//! What a failed statement or handler says about the database.

use diesel::result::Error;

use super::link::Link;
use crate::consumer::engine::Outcome;
use crate::consumer::error::HandlerError;
use crate::consumer::identity::KeyNotFound;
use crate::limits::{CONSUMER_CONNECTION_TIMEOUT, CONSUMER_PING_TIMEOUT};
use crate::outbox::transaction::CommitError;
use crate::store::sql::dialect::Dialect;
use crate::store::{ErrorClass, StoreError, classify};

/// What failed in a transaction.
#[derive(Debug)]
pub(super) enum Failure {
    /// A statement of the consumer's own.
    Statement(Error),
    /// COMMIT, which also runs what the handler deferred.
    Commit(CommitError),
    /// The user's handler.
    Handler(HandlerError),
    /// The user's handler panicked.
    Panicked,
    /// The user's function that finds a record's key panicked.
    KeyNotFound,
    /// The handler returned `Ok` at another depth of transactions than it was called at.
    Depth(u32),
    /// Another process has moved the offset.
    OffsetMoved,
    /// One of the records of a batch is a copy, or too old.
    NotNew,
}

impl From<KeyNotFound> for Failure {
    fn from(_: KeyNotFound) -> Self {
        Self::KeyNotFound
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Statement(error)
    }
}

const PANICKED: &str = "the handler panicked: the log has the panic";
const KEY_NOT_FOUND: &str = "`inbox_key` panicked: the log has the panic";
const ENDED: &str = "the handler ended the consumer's transaction: it must neither commit it nor roll it back";
const LEFT_OPEN: &str = "the handler began a transaction on its connection and did not end it: use `conn.transaction(..)`, which always does";
const IGNORED: &str = "the handler returned Ok although one of its statements had failed, so the database would have kept nothing: return the \
                       statement's error, or run the statement in `conn.transaction(..)`";
const LOST: &str = "the transaction was over before the handler returned: it ignored a deadlock, or ran a statement that commits, such as DDL";

/// The outcome of a transaction that failed. It is rolled back, if `is_usable`; otherwise its connection is discarded.
pub(super) async fn outcome<DB: Dialect, L: Link<DB>>(link: &mut L, failure: Failure, is_usable: bool) -> Outcome {
    let failed = |text: &'static str| Outcome::Failed(HandlerError::retriable(text));
    match failure {
        Failure::OffsetMoved => Outcome::OffsetMoved,
        Failure::NotNew => Outcome::BatchFailed,
        Failure::Panicked => failed(PANICKED),
        Failure::KeyNotFound => failed(KEY_NOT_FOUND),
        Failure::Depth(0) => failed(ENDED),
        Failure::Depth(_) => failed(LEFT_OPEN),
        Failure::Commit(CommitError::Aborted) => failed(IGNORED),
        Failure::Commit(CommitError::Lost) => failed(LOST),
        Failure::Commit(CommitError::Database(error)) => of_work(link, error, is_usable).await,
        Failure::Handler(error) => match error.into_database_error() {
            Ok(error) => of_work(link, error, is_usable).await,
            Err(error) if is_usable => Outcome::Failed(error),
            Err(error) => of_lost(link, error).await,
        },
        Failure::Statement(error) if is_usable || is_up(link).await => Outcome::Postponed(error.to_string()),
        Failure::Statement(error) => Outcome::DatabaseAway(error.to_string()),
    }
}

/// The database's error for what the handler did.
async fn of_work<DB: Dialect, L: Link<DB>>(link: &mut L, error: Error, is_usable: bool) -> Outcome {
    let error = match classify(error, CONSUMER_CONNECTION_TIMEOUT) {
        ErrorClass::Known(StoreError::Conflict(_)) if is_usable => return Outcome::Conflict,
        ErrorClass::Known(error) => HandlerError::retriable(error),
        ErrorClass::Unclear(error) => HandlerError::retriable(error),
    };
    match is_usable {
        true => Outcome::Failed(error),
        false => of_lost(link, error).await,
    }
}

/// The outcome where the handler's connection is lost: its own doing, or an outage.
async fn of_lost<DB: Dialect, L: Link<DB>>(link: &mut L, error: HandlerError) -> Outcome {
    match is_up(link).await {
        true => Outcome::ConnectionLost(error),
        false => Outcome::DatabaseAway(error.to_string()),
    }
}

/// Whether the database answers on another connection.
async fn is_up<DB: Dialect, L: Link<DB>>(link: &mut L) -> bool {
    link.ping(CONSUMER_PING_TIMEOUT).await.is_ok()
}
