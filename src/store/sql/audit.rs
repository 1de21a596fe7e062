use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use async_trait::async_trait;
use diesel::deserialize::Result as RowResult;
use diesel::row::NamedRow;
use futures_util::future::BoxFuture;
use uuid::Uuid;

use super::SqlStore;
use super::database::Database;
use super::dialect::{Bind, BindOf, Statement, count};
use super::executor::PoolConnectionOf;
use super::read_value::Columns;
use super::rows::{FromRow, Read};
use super::search::Search;
use crate::store::pool::ConnectionPool;
use crate::store::{AuditCursor, AuditEntry, AuditFilter, AuditRecord, AuditStore, StoreError};

/// The migration that creates the table.
const MIGRATION: &str = "0000outbox06_audit";

#[async_trait]
impl<DB: Database, P: ConnectionPool<DB>> AuditStore for SqlStore<DB, P> {
    async fn check_audit(&self) -> Result<(), StoreError> {
        if !self.has_audit.load(Relaxed) {
            self.check_tables(&["audit"]).await.map_err(|error| error.with_migration(MIGRATION))?;
            self.has_audit.store(true, Relaxed);
        }
        Ok(())
    }

    async fn note(&self, record: &AuditRecord) -> Result<(), StoreError> {
        self.record(Some(record), |()| 1, |_| Box::pin(async { Ok(()) })).await
    }

    async fn end_operation(&self, id: Uuid) -> Result<(), StoreError> {
        self.execute(&self.sql.audit.end, [DB::id(&id)]).await.map(drop)
    }

    async fn audit_entries(
        &self,
        filter: &AuditFilter,
        after: Option<&AuditCursor>,
        entries_max: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.check_audit().await?;
        let statement = Search::of_audit(filter, after).statement(&self.sql.audit.select, entries_max);
        let entries: Result<Vec<Read<AuditEntry>>, _> = self.executor.load(statement).await;
        self.note_audit(&entries);
        Ok(entries?.into_iter().map(|row| row.0).collect())
    }

    async fn prune_audit(&self, age: Duration, entries_max: usize) -> Result<usize, StoreError> {
        let binds = [Bind::Number(DB::duration(age)), Bind::limit(entries_max)];
        self.execute(&self.sql.audit.prune, binds).await
    }
}

impl<DB: Database, P: ConnectionPool<DB>> SqlStore<DB, P> {
    /// Runs a write of an admin operation. With a record, it also records in the same transaction how many it has changed.
    pub(crate) async fn record<T: Send + 'static>(
        &self,
        record: Option<&AuditRecord>,
        changed: impl FnOnce(&T) -> usize + Send + 'static,
        write: impl for<'l> FnOnce(&'l mut PoolConnectionOf<DB, P>) -> BoxFuture<'l, Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let Some(record) = record else {
            return match DB::WRITES_IN_ONE_STATEMENT {
                true => self.executor.connections.run_alone(write).await,
                false => self.transaction(write).await,
            };
        };
        let (text, record) = (self.sql.audit.record.clone(), record.clone());
        let written = self.transaction(move |conn| {
            Box::pin(async move {
                let written = write(conn).await?;
                let changed = changed(&written);
                if changed > 0 {
                    conn.execute(Statement::new(&text, binds::<DB>(&record, changed))).await?;
                }
                Ok(written)
            })
        });
        let written = written.await;
        self.note_audit(&written);
        written
    }

    /// Notes the result of a statement on the audit: one that failed for good may have missed the table.
    fn note_audit<T>(&self, result: &Result<T, StoreError>) {
        if matches!(result, Err(StoreError::Statement(_))) {
            self.has_audit.store(false, Relaxed);
        }
    }
}

fn binds<DB: Database>(record: &AuditRecord, changed: usize) -> Vec<BindOf<DB>> {
    let optional = |text: &Option<Arc<str>>| Bind::OptionalText(text.as_deref().map(str::to_owned));
    vec![
        DB::id(&record.id),
        optional(&record.actor),
        Bind::Text(record.action.into()),
        DB::optional_id_bind(record.message_id.as_ref().map(|message_id| message_id.as_uuid())),
        optional(&record.filter),
        optional(&record.reason),
        Bind::limit(changed),
        Bind::Number(record.ends.into()),
    ]
}

/// `id, began_at, ended_at, actor, action, message_id, filter, reason, changed`.
impl FromRow for AuditEntry {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> RowResult<Self> {
        Ok(Self {
            id: DB::message_id(row, 0)?.into(),
            began_at: DB::instant(row, 1)?,
            ended_at: DB::optional_raw_instant(row, 2)?.map(DB::at).transpose()?,
            actor: DB::optional_text(row, 3)?,
            action: DB::text(row, 4)?,
            message_id: DB::optional_id(row, 5)?.map(Into::into),
            filter: DB::optional_text(row, 6)?,
            reason: DB::optional_text(row, 7)?,
            changed: count(DB::number(row, 8)?),
        })
    }
}
