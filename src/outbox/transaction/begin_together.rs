//! Sends BEGIN together with the transaction's first statements, which saves a round trip.

use std::any::type_name;

use diesel::connection::TransactionManagerStatus;
use diesel::pg::Pg;
use diesel::result::{Error, QueryResult};
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, SimpleAsyncConnection};

use super::begin::Begin;
use crate::hook::{AsyncConn, Conn};

/// A BEGIN, not sent yet.
///
/// BEGIN flags the transaction in the same text, and the statements that are sent with it must fail without the flag. So they never
/// commit by themselves: not if BEGIN fails, and not if a new version of the driver sent them first.
#[must_use = "the connection counts as broken until `end`"]
pub(crate) struct BeginTogether {
    begin: Begin,
    before: TransactionManagerStatus,
}

impl BeginTogether {
    /// Until [`end`](Self::end), the connection's state is unknown: a dropped future leaves it broken.
    pub(crate) fn new(conn: &mut AsyncPgConnection) -> QueryResult<Self> {
        let manager = type_name::<AnsiTransactionManager>();
        let begin = Begin::replacing::<AnsiTransactionManager, Pg>(&mut AsyncConn(conn), manager)?;
        // Always there: on this database, of this manager.
        let begin = begin.ok_or(Error::BrokenTransactionManager)?;
        begin.announce(&mut AsyncConn(conn));
        let before = std::mem::replace(AsyncConn(conn).status(), TransactionManagerStatus::InError);
        Ok(Self { begin, before })
    }

    /// The depth whose flag the statements check.
    pub(crate) fn depth(&self) -> u32 {
        self.begin.depth.get()
    }

    /// Sends BEGIN, if it is polled before the others.
    pub(crate) async fn send(&self, mut conn: &AsyncPgConnection) -> QueryResult<()> {
        conn.batch_execute(&self.begin.sql).await
    }

    /// Counts the transaction as open, also if BEGIN failed: a rollback ends it. The outer error says that none is.
    pub(crate) fn end(self, conn: &mut AsyncPgConnection, begun: QueryResult<()>) -> QueryResult<QueryResult<()>> {
        *AsyncConn(conn).status() = self.before;
        self.begin.enter(&mut AsyncConn(conn), begun)
    }
}
