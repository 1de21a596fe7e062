use std::sync::Arc;
use std::time::Duration;

use diesel::mysql::Mysql;

use super::MysqlStore;
use crate::limits::MYSQL_WRITE_IDLE_MAX;
use crate::store::pool::{ConnectionPool, PoolConnection, Session};
use crate::store::sql::dialect::Statement;
use crate::store::sql::rows::Read;
use crate::store::{RowKey, StoreError};

/// Opens a transaction that the server ends, with its locks, once the client has been silent this long. Both servers count whole
/// seconds: MariaDB has a setting for transactions, MySQL one for all idle time.
pub(super) fn begin(silence: Duration) -> Arc<str> {
    let secs = silence.as_millis().div_ceil(1_000);
    format!(
        "SET SESSION /*!80000 wait_timeout = {secs}, */ /*M!100600 idle_transaction_timeout = {secs}, */ \
         lc_messages = 'en_US'; START TRANSACTION READ WRITE"
    )
    .into()
}

/// The same, for statements that follow each other at once.
pub(super) fn begin_write() -> Arc<str> {
    begin(MYSQL_WRITE_IDLE_MAX)
}

/// Commits, and lets a cached connection be idle again.
pub(super) const COMMIT: &str = "COMMIT; SET SESSION /*!80000 wait_timeout = DEFAULT, */ lc_messages = 'en_US'";

impl<P: ConnectionPool<Mysql>> MysqlStore<P> {
    /// Locks a batch and writes the rows that could be locked, in one transaction. Returns those rows.
    pub(super) async fn lock_and_write(
        &self,
        lock: Statement<Mysql>,
        writes: impl FnOnce(&[RowKey]) -> Vec<Statement<Mysql>> + Send + 'static,
    ) -> Result<Vec<RowKey>, StoreError> {
        self.transaction(|conn| Box::pin(write_locked(conn, lock, writes))).await
    }
}

/// The part between BEGIN and COMMIT.
pub(super) async fn write_locked<S: Session<Mysql>>(
    conn: &mut PoolConnection<Mysql, S>,
    lock: Statement<Mysql>,
    writes: impl FnOnce(&[RowKey]) -> Vec<Statement<Mysql>>,
) -> Result<Vec<RowKey>, StoreError> {
    let locked: Vec<Read<RowKey>> = conn.load(lock).await?;
    let locked: Vec<RowKey> = locked.into_iter().map(|row| row.0).collect();
    if !locked.is_empty() {
        for write in writes(&locked) {
            conn.execute(write).await?;
        }
    }
    Ok(locked)
}
