//! What others do to the database of the applications: a table that somebody locks, and a snapshot that somebody keeps open.

use std::time::Duration;

use anyhow::{Context, Result};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use tokio::time::sleep;

use crate::truth;

/// The longest that the lock itself is waited for: for the transactions that are open, one of which may be stopped in its middle. Whoever
/// comes behind it waits as well, so by then the fault has been one.
const WAIT_MAX: &str = "8s";
/// How often it is looked whether the snapshot is there still, and how long until one is taken anew.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Locks the table of messages for so long, as an `ALTER TABLE` does. Nobody reads or writes it meanwhile.
///
/// # Errors
/// The database was killed, or the lock was not had in time.
pub(crate) async fn lock_table(url: &str, how_long: Duration) -> Result<()> {
    let mut connection = AsyncPgConnection::establish(url).await.context("connect to lock the table")?;
    let lock = format!("SET lock_timeout = '{WAIT_MAX}'; BEGIN; LOCK TABLE outbox_messages IN ACCESS EXCLUSIVE MODE");
    connection.batch_execute(&lock).await.context("lock the table")?;
    sleep(how_long).await;
    connection.batch_execute("COMMIT").await.context("end the lock")
}

/// Keeps a snapshot open until it is dropped, and leaves so many dead rows of `topic` that nobody may remove before. A snapshot does not
/// survive the end of the database, and is taken anew then.
pub(crate) async fn hold_snapshot(url: String, topic: String, dead_rows: u64) {
    loop {
        // It ends with the connection, and with the task only where it is dropped.
        if let Err(error) = hold_one(&url, &topic, dead_rows).await {
            eprintln!("the snapshot ended with its connection, and is taken anew: {error:#}");
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn hold_one(url: &str, topic: &str, dead_rows: u64) -> Result<()> {
    let mut holder = AsyncPgConnection::establish(url).await?;
    // Of another table: a lock on ours would keep others from locking it.
    holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class").await?;
    let mut writer = AsyncPgConnection::establish(url).await?;
    truth::leave_dead_rows(&mut writer, topic, dead_rows).await?;
    loop {
        sleep(POLL_INTERVAL).await;
        holder.batch_execute("SELECT 1").await.context("look for the snapshot")?;
    }
}
