//! Other sessions in the applications' database: one that locks a table, and one that keeps a snapshot open.

use std::time::Duration;

use anyhow::{Context, Result};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use tokio::time::sleep;

use crate::truth;

/// The longest wait for the lock itself. It waits for open transactions, one of which may be stopped in the middle.
/// Later sessions wait behind it as well, so by then it has had its effect.
const WAIT_MAX: &str = "8s";
/// How often to check that the snapshot still exists, and the delay before a new one.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Locks the messages table for this long, like an `ALTER TABLE`. Nobody reads or writes it meanwhile.
///
/// # Errors
/// Returns an error if the database was killed, or if the lock was not acquired in time.
pub(crate) async fn lock_table(url: &str, how_long: Duration) -> Result<()> {
    let mut connection = AsyncPgConnection::establish(url).await.context("connect to lock the table")?;
    let lock = format!("SET lock_timeout = '{WAIT_MAX}'; BEGIN; LOCK TABLE outbox_messages IN ACCESS EXCLUSIVE MODE");
    connection.batch_execute(&lock).await.context("lock the table")?;
    sleep(how_long).await;
    connection.batch_execute("COMMIT").await.context("release the lock")
}

/// Keeps a snapshot open until it is dropped, and leaves this many dead rows of `topic` that cannot be removed before.
/// When the database ends, the snapshot is lost, and a new one is taken.
pub(crate) async fn hold_snapshot(url: String, topic: String, dead_rows: u64) {
    loop {
        // It ends with its connection. The task ends only when it is dropped.
        if let Err(error) = hold_one(&url, &topic, dead_rows).await {
            eprintln!("the snapshot ended with its connection; taking a new one: {error:#}");
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn hold_one(url: &str, topic: &str, dead_rows: u64) -> Result<()> {
    let mut holder = AsyncPgConnection::establish(url).await?;
    // Reads another table: a lock on ours would block others that lock it.
    holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class").await?;
    let mut writer = AsyncPgConnection::establish(url).await?;
    truth::leave_dead_rows(&mut writer, topic, dead_rows).await?;
    loop {
        sleep(POLL_INTERVAL).await;
        holder.batch_execute("SELECT 1").await.context("check the snapshot")?;
    }
}
