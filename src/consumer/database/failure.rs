//! What a failed statement or handler says about the database.

use diesel::result::Error;

use super::link::Link;
use crate::consumer::engine::Outcome;
use crate::consumer::error::HandlerError;
use crate::limits::CONSUMER_CONNECTION_TIMEOUT;
use crate::store::StoreError;
use crate::store::sql::dialect::Dialect;
use crate::store::{ErrorClass, classify};

/// What failed in a transaction.
#[derive(Debug)]
pub(super) enum Failure {
    /// A statement of the consumer's own.
    Statement(Error),
    /// The user's handler.
    Handler(HandlerError),
    /// The user's handler panicked.
    Panicked,
    /// Another process has moved the offset.
    OffsetMoved,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Statement(error)
    }
}

/// The outcome of a transaction that failed. It is rolled back already, if the connection lives.
pub(super) async fn outcome<DB: Dialect, L: Link<DB>>(link: &mut L, failure: Failure, rolled_back: bool) -> Outcome {
    let error = match failure {
        Failure::OffsetMoved => return Outcome::OffsetMoved,
        Failure::Panicked => {
            return Outcome::Failed(HandlerError::retriable("the handler panicked: the log has the panic"));
        }
        Failure::Statement(error) => error,
        Failure::Handler(error) => match error.into_database_error() {
            Ok(error) => error,
            // The handler hides what the database said, if that was the cause.
            Err(error) => {
                return match rolled_back && link.ping().await.is_ok() {
                    true => Outcome::Failed(error),
                    false => Outcome::DatabaseAway(error.to_string()),
                };
            }
        },
    };
    match classify(error, CONSUMER_CONNECTION_TIMEOUT) {
        ErrorClass::Known(StoreError::Conflict(_)) => Outcome::Conflict,
        ErrorClass::Known(
            error @ (StoreError::Unreachable(_) | StoreError::Refused(_) | StoreError::TimedOut { .. }),
        ) => Outcome::DatabaseAway(error.to_string()),
        ErrorClass::Known(error) => Outcome::Failed(HandlerError::retriable(error)),
        // Only a further call shows whether the statement is wrong or its connection is lost.
        ErrorClass::Unclear(error) => match rolled_back && link.ping().await.is_ok() {
            true => Outcome::Failed(HandlerError::retriable(error)),
            false => Outcome::DatabaseAway(error.to_string()),
        },
    }
}
