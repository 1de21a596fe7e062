use std::sync::Arc;

use diesel::mysql::Mysql;

use super::MysqlStore;
use super::bind::Bind;
use super::rows::KeyRow;
use super::texts::{COMMIT, begin_write};
use crate::store::session::Sessions;
use crate::store::statement::Statement;
use crate::store::{Held, RowKey, StoreError};

/// A statement with its binds.
pub(super) type Write<'a> = (&'a Arc<str>, Vec<Bind>);

impl<P: Sessions<Mysql>> MysqlStore<P> {
    /// As [`write`](Self::write), of rows that are held under an epoch.
    pub(super) async fn write_held<'a>(
        &self,
        held: &[Held],
        writes: impl FnOnce(&[RowKey]) -> Vec<Write<'a>> + Send,
    ) -> Result<Vec<RowKey>, StoreError> {
        if held.is_empty() {
            return Ok(Vec::new());
        }
        self.write(&self.texts.lock_held, [Bind::held(held.iter().copied())], writes).await
    }

    /// Locks a group, writes what of it could be locked, and returns that, in one transaction.
    pub(super) async fn write<'a>(
        &self,
        lock: &Arc<str>,
        group: impl Into<Vec<Bind>> + Send,
        writes: impl FnOnce(&[RowKey]) -> Vec<Write<'a>> + Send,
    ) -> Result<Vec<RowKey>, StoreError> {
        self.connections
            .within(async {
                let mut lease = self.connections.lease().await?;
                lease.begin(begin_write()).await?;
                let locked: Vec<KeyRow> = lease.load(Statement::new(lock, group)).await?;
                let locked: Vec<RowKey> = locked.into_iter().map(|row| row.0).collect();
                if !locked.is_empty() {
                    for (text, binds) in writes(&locked) {
                        lease.execute(Statement::new(text, binds)).await?;
                    }
                }
                lease.commit_by(COMMIT.into()).await?;
                lease.give_back();
                Ok(locked)
            })
            .await
    }
}
