use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::mysql::Mysql;

use super::bind::Bind;
use super::texts::{COMMIT, begin_write};
use super::{MysqlStore, lock_wait};
use crate::limits::MYSQL_MARK_WAIT;
use crate::message::MessageId;
use crate::store::admin_rows::MessageIdRow;
use crate::store::half_marks::Voiding;
use crate::store::session::Sessions;
use crate::store::statement::{Statement, limit, micros};
use crate::store::{Decision, HalfStore, StoreError};

#[async_trait]
impl<P: Sessions<Mysql>> HalfStore for MysqlStore<P> {
    async fn check_marks(&self) -> Result<(), StoreError> {
        self.check_tables(&[(self.names.half_messages(), "half_messages")]).await
    }

    async fn marked(&self, messages: &[MessageId]) -> Result<Vec<MessageId>, StoreError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let group = Bind::message_ids(messages.iter().copied());
        let rows: Vec<MessageIdRow> = self.connections.load(Statement::new(&self.half_texts.marked, [group])).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn decide(&self, message: MessageId, topic: &Arc<str>) -> Result<Decision, StoreError> {
        let id = || Bind::message_id(message);
        let usual = lock_wait(self.connections.deadline());
        let wait = MYSQL_MARK_WAIT.as_secs();
        let voiding = Voiding {
            begin: format!("SET SESSION innodb_lock_wait_timeout = {wait}; {}", begin_write()).into(),
            void: Statement::new(&self.half_texts.void, [id(), Bind::Text(Arc::clone(topic))]),
            read: Statement::new(&self.half_texts.read, [id()]),
            commit: format!("{COMMIT}, innodb_lock_wait_timeout = {usual}").into(),
        };
        voiding.run_on(&self.connections).await
    }

    async fn forget(&self, messages: &[MessageId]) -> Result<usize, StoreError> {
        if messages.is_empty() {
            return Ok(0);
        }
        let group = Bind::message_ids(messages.iter().copied());
        self.connections.execute(Statement::new(&self.half_texts.forget, [group])).await
    }

    async fn prune_marks(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let binds = [Bind::BigInt(micros(age)), Bind::BigInt(limit(rows_max))];
        self.connections.execute(Statement::new(&self.half_texts.prune, binds)).await
    }
}
