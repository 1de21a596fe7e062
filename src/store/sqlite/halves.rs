use std::iter;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::sqlite::Sqlite;

use super::bind::Bind;
use super::call::BEGIN;
use super::{SET_UP, SqliteStore};
use crate::clock::millis;
use crate::message::MessageId;
use crate::store::admin_rows::MessageIdRow;
use crate::store::half_marks::{VoidRow, Voiding, decided, unless_open};
use crate::store::session::Sessions;
use crate::store::statement::{Statement, limit};
use crate::store::{Decision, HalfStore, StoreError};

/// Whoever writes has the one lock, perhaps for a long transaction that has marked: so long it is waited for. The answer is
/// "open" then, also where that is some other transaction, and a broker asks again in seconds.
const OPEN_WAIT: &str = "PRAGMA busy_timeout = 200";

#[async_trait]
impl<P: Sessions<Sqlite>> HalfStore for SqliteStore<P> {
    async fn check_marks(&self) -> Result<(), StoreError> {
        self.check_tables(&[("half_messages", self.names.half_messages())]).await
    }

    async fn marked(&self, messages: &[MessageId]) -> Result<Vec<MessageId>, StoreError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let group = Bind::message_ids(messages.iter().copied());
        let rows: Vec<MessageIdRow> = self.caller().load(Statement::new(&self.half_texts.marked, [group])).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn decide(&self, message: MessageId, topic: &Arc<str>) -> Result<Decision, StoreError> {
        let id = || Bind::message_ids(iter::once(message));
        let read = || Statement::new(&self.half_texts.read, [id()]);
        let caller = self.caller();
        // A mark that is there says all, and reading it needs no lock.
        let found: Vec<VoidRow> = caller.load(read()).await?;
        if let Some(decision) = decided(&found) {
            return Ok(decision);
        }
        let voiding = Voiding {
            begin: BEGIN.into(),
            void: Statement::new(&self.half_texts.void, [id(), Bind::Text(Arc::clone(topic))]),
            read: read(),
            commit: "COMMIT".into(),
        };
        let voided = caller.run(|lease| {
            Box::pin(async move {
                lease.batch(&OPEN_WAIT.into()).await?;
                let decision = voiding.run(lease).await?;
                lease.batch(&SET_UP.into()).await?;
                Ok(decision)
            })
        });
        unless_open(voided.await)
    }

    async fn forget(&self, messages: &[MessageId]) -> Result<usize, StoreError> {
        if messages.is_empty() {
            return Ok(0);
        }
        let group = Bind::message_ids(messages.iter().copied());
        self.caller().execute(Statement::new(&self.half_texts.forget, [group])).await
    }

    async fn prune_marks(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let binds = [Bind::BigInt(millis(age)), Bind::BigInt(limit(rows_max))];
        self.caller().execute(Statement::new(&self.half_texts.prune, binds)).await
    }
}
