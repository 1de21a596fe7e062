//! What the databases share of half messages: the statements there are, and how one of two writers of a mark wins.

// Each database uses a part of it.
#![cfg_attr(not(all(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(dead_code))]

use std::sync::Arc;

use diesel::backend::Backend;
use diesel::deserialize::{FromSql, QueryableByName, Result as RowResult};
use diesel::row::NamedRow;
use diesel::sql_types::BigInt;

use super::schema::{IndexNaming, named};
use super::session::{Connections, Lease, Session, Sessions};
use super::statement::{Dialect, Statement};
use super::{Decision, StoreError};
use crate::naming::TableNames;

/// The statements, under the names of one outbox; as they are written, with the default names.
#[derive(Debug)]
pub(crate) struct HalfTexts<T = Arc<str>> {
    /// Those of a group that are committed and not void.
    pub(crate) marked: T,
    /// Writes a void mark of a message and topic, unless there is one; waits for an open transaction that has written one.
    pub(crate) void: T,
    /// Whether a mark is void.
    pub(crate) read: T,
    /// Removes those of a group.
    pub(crate) forget: T,
    /// Removes those above an age, the oldest first, and at most so many.
    pub(crate) prune: T,
}

impl HalfTexts<&str> {
    pub(crate) fn named(&self, names: &TableNames, indexes: IndexNaming) -> HalfTexts {
        let text = |sql: &str| named(sql, names, indexes).into();
        HalfTexts {
            marked: text(self.marked),
            void: text(self.void),
            read: text(self.read),
            forget: text(self.forget),
            prune: text(self.prune),
        }
    }
}

/// What voids a mark that is not there: its transaction, from beginning to end.
pub(crate) struct Voiding<DB: Dialect> {
    pub(crate) begin: Arc<str>,
    pub(crate) void: Statement<DB>,
    pub(crate) read: Statement<DB>,
    pub(crate) commit: Arc<str>,
}

impl<DB: Dialect> Voiding<DB>
where
    i64: FromSql<BigInt, DB>,
{
    /// What became of the message's transaction, on a connection of its own.
    pub(crate) async fn run_on<P: Sessions<DB>>(
        self,
        connections: &Connections<DB, P>,
    ) -> Result<Decision, StoreError> {
        let voided = connections.within(async {
            let mut lease = connections.lease().await?;
            let decision = self.run(&mut lease).await?;
            lease.give_back();
            Ok(decision)
        });
        unless_open(voided.await)
    }

    /// What became of the message's transaction.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] where that is still open.
    pub(crate) async fn run<S: Session<DB>>(self, lease: &mut Lease<DB, S>) -> Result<Decision, StoreError> {
        lease.begin(self.begin).await?;
        // Not READ first: between it and the INSERT the transaction could commit.
        lease.execute(self.void).await?;
        // A statement later, and so with what has committed by now.
        let read: Vec<VoidRow> = lease.load(self.read).await?;
        lease.commit_by(self.commit).await?;
        // None at all: it was decided, told and forgotten between the two statements.
        Ok(decided(&read).unwrap_or(Decision::RolledBack))
    }
}

/// Takes it for an open transaction that somebody has the lock.
pub(crate) fn unless_open(decided: Result<Decision, StoreError>) -> Result<Decision, StoreError> {
    match decided {
        Err(StoreError::Conflict(_)) => Ok(Decision::Open),
        decided => decided,
    }
}

/// What a mark says; `None` where there is none.
pub(crate) fn decided(read: &[VoidRow]) -> Option<Decision> {
    let mark = read.first()?;
    Some(if mark.is_void { Decision::RolledBack } else { Decision::Committed })
}

/// Whether a mark is void.
pub(crate) struct VoidRow {
    is_void: bool,
}

impl<DB: Backend> QueryableByName<DB> for VoidRow
where
    i64: FromSql<BigInt, DB>,
{
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> RowResult<Self> {
        Ok(Self { is_void: row.get_value::<BigInt, i64, _>(0)? != 0 })
    }
}
