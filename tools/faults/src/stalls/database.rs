//! Whether the database commits.

use anyhow::Result;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::CHECK_INTERVAL;
use crate::app::now_ms;
use crate::fault_log::FaultLog;

/// Well below every lease.
const STALL_MS: u64 = 700;

/// Its COMMIT writes to the log, and it needs no table, which could be locked.
const TRANSACTION: &str = "SELECT pg_logical_emit_message(true, 'faults', '')";

/// Watches until it is dropped.
#[derive(Debug)]
pub(crate) struct DatabaseMonitor(JoinHandle<()>);

impl DatabaseMonitor {
    /// Watches the database of this URL, over its own connection.
    pub(crate) fn start(url: String, fault_log: FaultLog) -> Self {
        Self(tokio::spawn(async move {
            loop {
                // It ends with its connection whenever the database is killed.
                if let Err(error) = watch(&url, &fault_log).await {
                    eprintln!("watching the database again: {error:#}");
                }
                sleep(CHECK_INTERVAL).await;
            }
        }))
    }
}

impl Drop for DatabaseMonitor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn watch(url: &str, fault_log: &FaultLog) -> Result<()> {
    let mut connection = AsyncPgConnection::establish(url).await?;
    loop {
        let from_ms = now_ms();
        diesel::sql_query(TRANSACTION).execute(&mut connection).await?;
        let until_ms = now_ms();
        if until_ms.saturating_sub(from_ms) >= STALL_MS {
            fault_log.database_stalled(from_ms, until_ms);
        }
        sleep(CHECK_INTERVAL).await;
    }
}
