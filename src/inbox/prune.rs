use diesel::connection::Connection;
use diesel::result::QueryResult;

use super::{Inbox, InboxError, Pruned};
use crate::clock::millis;
use crate::enqueue::{Dialect, OutboxBackend};
use crate::hook::SyncConn;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::lane::fnv1a;
use crate::limits::{
    INBOX_DEFAULT_BYTES_MAX, INBOX_DROP_LOCK_TIMEOUT, INBOX_PARTITION_DAYS_BACK, INBOX_PARTITIONS_MAX,
    PARTITION_DAYS_AHEAD, PARTITION_LOCK_TIMEOUT, PRUNE_ROWS_MAX,
};

/// Remove old entries.
impl Inbox {
    /// Removes entries that are older than every consumer of these tables keeps them, a bounded number at a time, and on PostgreSQL creates
    /// partitions ahead. Registers the consumer with its retention.
    ///
    /// Call it when a consumer starts, before the first message, and then every few minutes; as long as it returns
    /// [`has_more`](Pruned::has_more), again at once. Several processes may call it at once.
    ///
    /// Retentions end with a day in UTC, by the database's clock. First the inbox's start moves: from then on, older messages are refused.
    /// Then entries below it are removed. So no message whose entry was removed is handled again, also while this runs.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// # use diesel::prelude::*;
    /// # use diesel_outbox::inbox::Inbox;
    /// # let mut conn = SqliteConnection::establish(":memory:")?;
    /// # let inbox = Inbox::builder("billing").build()?;
    /// # inbox.migrate(&mut conn)?;
    /// while inbox.prune(&mut conn)?.has_more {}
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`InboxError::InTransaction`] inside a transaction: the start has to be visible to others before entries are removed. On
    /// PostgreSQL returns the database's error if the role does not own the tables; entries in the default partition are removed all the
    /// same.
    pub fn prune<C>(&self, conn: &mut C) -> Result<Pruned, InboxError>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
    {
        self.check_no_transaction(&mut SyncConn(conn), "prune")?;
        let sql = <C::Backend as Dialect>::INBOX_PRUNE;
        self.register(conn)?;
        conn.batch_execute(&self.named(sql.advance))?;
        let kept_from = self.kept_from(&C::Backend::texts(conn, &self.named(sql.start))?)?;
        let deleted = C::Backend::execute_text(conn, &self.delete_sql(sql.delete, kept_from))?;
        if let Some(partitions) = sql.partitions {
            for ddl in C::Backend::texts(conn, &self.named(partitions))? {
                conn.batch_execute(&ddl)?;
            }
        }
        Ok(Pruned::of(deleted))
    }

    /// Notes the consumer's name and retention.
    pub(super) fn register<C>(&self, conn: &mut C) -> QueryResult<()>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
    {
        conn.batch_execute(&self.named(<C::Backend as Dialect>::INBOX_PRUNE.register))
    }

    /// A statement with the inbox's names and settings.
    pub(super) fn named(&self, sql: &str) -> String {
        let inner = &self.inner;
        let lock = i64::from_ne_bytes(fnv1a(&inner.entries).to_ne_bytes());
        [
            ("{entries}", inner.entries.clone()),
            ("{unqualified}", inner.tables.unqualified("inbox")),
            ("{consumers}", inner.tables.qualified("inbox_consumers")),
            ("{start}", inner.start.clone()),
            ("{number}", inner.number.to_string()),
            // Its characters need no quotes.
            ("{name}", inner.consumer.clone()),
            ("{keep_days}", inner.keep_days.to_string()),
            ("{lock}", lock.to_string()),
            ("{rows}", PRUNE_ROWS_MAX.to_string()),
            ("{days_back}", INBOX_PARTITION_DAYS_BACK.to_string()),
            ("{days_ahead}", PARTITION_DAYS_AHEAD.to_string()),
            ("{partitions}", INBOX_PARTITIONS_MAX.to_string()),
            ("{default_bytes}", INBOX_DEFAULT_BYTES_MAX.to_string()),
            ("{drop_timeout}", millis(INBOX_DROP_LOCK_TIMEOUT).to_string()),
            ("{attach_timeout}", millis(PARTITION_LOCK_TIMEOUT).to_string()),
        ]
        .into_iter()
        .fold(sql.to_owned(), |sql, (name, value)| sql.replace(name, &value))
    }

    /// The inbox's start, as a query returned it.
    pub(super) fn kept_from(&self, texts: &[String]) -> Result<u64, InboxError> {
        let read = texts.first().and_then(|text| text.parse().ok());
        read.ok_or_else(|| InboxError::StartMissing { table: self.inner.start.clone() })
    }

    /// Deletes what was made before `kept_from`.
    pub(super) fn delete_sql(&self, sql: &str, kept_from: u64) -> String {
        if is_injected(InjectedBug::InboxPrunedEarly) {
            return self.named("DELETE FROM {entries}");
        }
        self.named(sql).replace("{kept_from}", &format!("{kept_from:012x}{:020x}", 0))
    }
}

impl Pruned {
    pub(super) fn of(deleted: usize) -> Self {
        Self { entries: deleted, has_more: deleted >= PRUNE_ROWS_MAX }
    }
}
