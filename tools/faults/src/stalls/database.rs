//! Reports when the database committed nothing for a while. Processes report by themselves when they did not run.

use std::time::Duration;

use anyhow::Result;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::app::now_ms;
use crate::fault_log::FaultLog;

/// How often a transaction is tried, and how long a stall is: well below every lease.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
const STALL_MS: u64 = 700;

/// Its COMMIT writes to the log and waits for the disk, and it needs no table, which could be locked.
const TRANSACTION: &str = "SELECT pg_logical_emit_message(true, 'faults', '')";

/// Watches until it is dropped.
#[derive(Debug)]
pub(crate) struct StallMonitor(JoinHandle<()>);

impl StallMonitor {
    /// Watches the database of this URL, over its own connection.
    pub(crate) fn watch(url: String, fault_log: FaultLog) -> Self {
        Self(tokio::spawn(async move {
            loop {
                // It ends with its connection when the database is killed, which the log has.
                let _ = watch(&url, &fault_log).await;
                sleep(CHECK_INTERVAL).await;
            }
        }))
    }
}

impl Drop for StallMonitor {
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
        if until_ms.saturating_sub(from_ms) > STALL_MS {
            fault_log.database_stalled(from_ms, until_ms);
        }
        sleep(CHECK_INTERVAL).await;
    }
}
