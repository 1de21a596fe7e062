//! The inbox's part of a transaction: the one file that knows how a message is claimed.

#[cfg(feature = "r2d2")]
use diesel::connection::Connection;
use diesel::result::Error;

#[cfg(feature = "r2d2")]
use crate::enqueue::OutboxBackend;
use crate::inbox::{Claim, Inbox, InboxError, InboxKey};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::read_value::Columns;

/// A database in which a consumer can process records.
///
/// Implemented for Diesel's backends. There is nothing to implement or call here.
#[diagnostic::on_unimplemented(
    message = "a consumer cannot process records in `{Self}`",
    note = "enable the feature `postgres`, `mysql` or `sqlite` of diesel-outbox"
)]
pub trait ConsumerBackend: Dialect + Columns {}

#[cfg(feature = "postgres")]
impl ConsumerBackend for diesel::pg::Pg {}
#[cfg(feature = "mysql")]
impl ConsumerBackend for diesel::mysql::Mysql {}
#[cfg(feature = "sqlite")]
impl ConsumerBackend for diesel::sqlite::Sqlite {}

/// What the inbox says of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claimed {
    /// Nobody has processed it.
    New,
    /// It was processed.
    Duplicate,
    /// It is older than what is kept.
    TooOld,
}

/// Claims a message. Without an inbox each is new.
#[cfg(feature = "r2d2")]
pub(super) fn claim<C>(inbox: Option<&Inbox>, conn: &mut C, key: InboxKey) -> Result<Claimed, Error>
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    inbox.map_or(Ok(Claimed::New), |inbox| claimed(inbox.claim(conn, key)))
}

/// Like [`claim`].
#[cfg(any(feature = "deadpool", feature = "bb8", feature = "mobc"))]
pub(super) async fn claim_async<C>(inbox: Option<&Inbox>, conn: &mut C, key: InboxKey) -> Result<Claimed, Error>
where
    C: diesel_async::AsyncConnection,
    C::Backend: crate::enqueue::AsyncOutboxBackend<C>,
{
    match inbox {
        Some(inbox) => claimed(inbox.claim_async(conn, key).await),
        None => Ok(Claimed::New),
    }
}

/// Its outcome: whatever it is, the transaction goes on.
pub(super) fn claimed(claim: Result<Claim, InboxError>) -> Result<Claimed, Error> {
    match claim {
        Ok(Claim::New) => Ok(Claimed::New),
        Ok(Claim::Duplicate) => Ok(Claimed::Duplicate),
        Err(InboxError::TooOld { .. }) => Ok(Claimed::TooOld),
        Err(error) => Err(error.into()),
    }
}

/// Whether all of several messages are new.
#[cfg(any(feature = "r2d2", feature = "deadpool", feature = "bb8", feature = "mobc"))]
pub(super) fn all_new(claims: Result<Vec<Claim>, InboxError>) -> Result<bool, Error> {
    match claims {
        Ok(claims) => Ok(claims.iter().all(|claim| *claim == Claim::New)),
        Err(InboxError::TooOld { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
