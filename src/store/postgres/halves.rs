use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::pg::Pg;
use diesel::row::NamedRow;
use diesel::sql_types::Bool;

use super::PostgresStore;
use super::bind::Bind;
use crate::message::MessageId;
use crate::store::admin_rows::MessageIdRow;
use crate::store::session::Sessions;
use crate::store::statement::{Statement, limit, millis};
use crate::store::{Decision, HalfStore, StoreError};

/// An INSERT of a key that an open transaction has inserted waits for its end: so long, which is no time to somebody who
/// would be asked again in seconds anyhow.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = 200; \
    SET LOCAL idle_in_transaction_session_timeout = 2000";

#[async_trait]
impl<P: Sessions<Pg>> HalfStore for PostgresStore<P> {
    async fn check_marks(&self) -> Result<(), StoreError> {
        self.check_tables(vec![self.names.half_messages()]).await
    }

    async fn marked(&self, messages: &[MessageId]) -> Result<Vec<MessageId>, StoreError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let statement = Statement::new(&self.half_texts.marked, [Bind::message_ids(messages)]);
        let rows: Vec<MessageIdRow> = self.connections.load(statement).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn decide(&self, message: MessageId, topic: &Arc<str>) -> Result<Decision, StoreError> {
        match self.connections.within(self.void(message, topic)).await {
            Err(StoreError::Conflict(_)) => Ok(Decision::Open),
            decided => decided,
        }
    }

    async fn forget(&self, messages: &[MessageId]) -> Result<usize, StoreError> {
        if messages.is_empty() {
            return Ok(0);
        }
        self.connections.execute(Statement::new(&self.half_texts.forget, [Bind::message_ids(messages)])).await
    }

    async fn prune_marks(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let binds = [Bind::BigInt(millis(age)), Bind::BigInt(limit(rows_max))];
        self.connections.execute(Statement::new(&self.half_texts.prune, binds)).await
    }
}

impl<P: Sessions<Pg>> PostgresStore<P> {
    async fn void(&self, message: MessageId, topic: &Arc<str>) -> Result<Decision, StoreError> {
        let id = || Bind::message_id(message);
        let mut lease = self.connections.lease().await?;
        lease.begin(BEGIN.into()).await?;
        let void = Statement::new(&self.half_texts.void, [id(), Bind::Text(Arc::clone(topic))]);
        lease.execute(void).await?;
        // A statement later, and so with what has committed by now.
        let read: Vec<VoidRow> = lease.load(Statement::new(&self.half_texts.read, [id()])).await?;
        lease.commit().await?;
        lease.give_back();
        Ok(match read.as_slice() {
            [VoidRow(false)] => Decision::Committed,
            // None at all: it was decided, told and forgotten between the two statements.
            _ => Decision::RolledBack,
        })
    }
}

struct VoidRow(bool);

impl QueryableByName<Pg> for VoidRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> RowResult<Self> {
        Ok(Self(row.get_value::<Bool, _, _>(0)?))
    }
}
