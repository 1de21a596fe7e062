use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::pg::Pg;

use super::PostgresStore;
use super::bind::Bind;
use crate::clock::millis;
use crate::message::MessageId;
use crate::store::admin_rows::MessageIdRow;
use crate::store::half_marks::Voiding;
use crate::store::session::Sessions;
use crate::store::statement::{Statement, limit};
use crate::store::{Decision, HalfStore, StoreError};

/// An INSERT of a key that an open transaction has inserted waits for its end: so long, which is no time to somebody who
/// would be asked again in seconds anyhow.
fn begin(settings: &str) -> Arc<str> {
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {settings}; SET LOCAL lock_timeout = 200; \
         SET LOCAL idle_in_transaction_session_timeout = 2000"
    )
    .into()
}

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
        let id = || Bind::message_id(message);
        let voiding = Voiding {
            begin: begin(&self.local_settings()),
            void: Statement::new(&self.half_texts.void, [id(), Bind::Text(Arc::clone(topic))]),
            read: Statement::new(&self.half_texts.read, [id()]),
            commit: "COMMIT".into(),
        };
        voiding.run_on(&self.connections).await
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
