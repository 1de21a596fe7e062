use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::deserialize::Result as RowResult;
use diesel::row::NamedRow;

use super::SqlStore;
use super::database::{Database, VoidMarkSql};
use super::dialect::{Bind, Statement};
use super::read_value::Columns;
use super::rows::{FromRow, Read};
use crate::message::MessageId;
use crate::store::pool::ConnectionPool;
use crate::store::{Decision, HalfStore, StoreError};

#[async_trait]
impl<DB: Database, P: ConnectionPool<DB>> HalfStore for SqlStore<DB, P> {
    async fn check_marks(&self) -> Result<(), StoreError> {
        self.check_tables(&["half_messages"]).await
    }

    async fn marked(&self, messages: &[MessageId]) -> Result<Vec<MessageId>, StoreError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        self.read(&self.sql.halves.marked, [DB::messages(messages)]).await
    }

    async fn decide(&self, message: MessageId, topic: &Arc<str>) -> Result<Decision, StoreError> {
        let (sql, id) = (&self.sql.halves, DB::id(message.as_uuid()));
        let VoidMarkSql { reads_first, around, begin, commit } = DB::void_mark_sql(self);
        if reads_first && let Some(mark) = self.read(&sql.read, [id.clone()]).await?.first() {
            return Ok(decided(mark));
        }
        let void = Statement::new(&sql.void, [id.clone(), Bind::text(topic)]);
        let read = Statement::new(&sql.read, [id]);
        let voided = self.executor.run(move |conn| {
            Box::pin(async move {
                if let Some([before, _]) = around {
                    conn.batch(&before.into()).await?;
                }
                conn.begin(begin).await?;
                // Not READ first: the transaction could commit between it and the INSERT.
                conn.execute(void).await?;
                // A later statement, which sees what has committed by now.
                let read: Vec<Read<IsVoid>> = conn.load(read).await?;
                conn.commit_by(commit).await?;
                if let Some([_, behind]) = around {
                    conn.batch(&behind.into()).await?;
                }
                // No mark at all: it was decided, reported and removed between the two statements.
                Ok(read.first().map_or(Decision::RolledBack, |mark| decided(&mark.0)))
            })
        });
        match voided.await {
            // Somebody has the lock: presumably an open transaction.
            Err(StoreError::Conflict(_)) => Ok(Decision::Open),
            decided => decided,
        }
    }

    async fn remove_marks(&self, messages: &[MessageId]) -> Result<usize, StoreError> {
        if messages.is_empty() {
            return Ok(0);
        }
        self.execute(&self.sql.halves.remove, [DB::messages(messages)]).await
    }

    async fn prune_marks(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let binds = [Bind::Number(DB::duration(age)), Bind::limit(rows_max)];
        self.execute(&self.sql.halves.prune, binds).await
    }
}

/// Whether a mark is void.
struct IsVoid(bool);

impl FromRow for IsVoid {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> RowResult<Self> {
        Ok(Self(DB::number(row, 0)? != 0))
    }
}

/// The decision that a mark records.
fn decided(mark: &IsVoid) -> Decision {
    if mark.0 { Decision::RolledBack } else { Decision::Committed }
}
