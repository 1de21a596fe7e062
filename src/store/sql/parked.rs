use std::sync::Arc;

use async_trait::async_trait;
use diesel::deserialize::Result as RowResult;
use diesel::row::NamedRow;

use super::SqlStore;
use super::columns::Columns;
use super::database::Database;
use super::dialect::{Bind, BindOf};
use super::rows::FromRow;
use crate::message::Headers;
use crate::store::parked::{ParkedRecord, ParkedStore};
use crate::store::pool::ConnectionPool;
use crate::store::{AuditRecord, SchemaProblem, StoreError};

/// The migration that creates the table.
const MIGRATION: &str = "0000consumer01_progress";

#[async_trait]
impl<DB: Database, P: ConnectionPool<DB>> ParkedStore for SqlStore<DB, P> {
    async fn parked(
        &self,
        consumer: Option<&Arc<str>>,
        after: i64,
        rows_max: usize,
    ) -> Result<Vec<ParkedRecord>, StoreError> {
        self.check_parked().await?;
        let binds: [BindOf<DB>; 2] = [Bind::Number(after), Bind::limit(rows_max)];
        match consumer {
            None => self.read(&self.sql.parked.list, binds).await,
            Some(consumer) => {
                let binds: Vec<_> = binds.into_iter().chain([Bind::text(consumer)]).collect();
                self.read(&self.sql.parked.list_of, binds).await
            }
        }
    }

    async fn consumers(&self) -> Result<Vec<String>, StoreError> {
        self.check_parked().await?;
        let mut names: Vec<String> = self.read(&self.sql.parked.consumers, []).await?;
        match self.check_tables(&["inbox"]).await {
            Ok(()) => names.extend(self.read::<String>(&self.sql.parked.inbox_consumers, []).await?),
            // Consumers that keep offsets alone need none.
            Err(StoreError::Schema(SchemaProblem::Missing { .. })) => {}
            Err(error) => return Err(error),
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    async fn find_parked(&self, id: i64) -> Result<Option<ParkedRecord>, StoreError> {
        self.check_parked().await?;
        Ok(self.read(&self.sql.parked.find, [Bind::Number(id)]).await?.pop())
    }

    async fn release_parked(&self, id: i64, record: Option<&AuditRecord>) -> Result<bool, StoreError> {
        Ok(self.execute_recorded(&self.sql.parked.release, Bind::Number(id), record).await? > 0)
    }

    async fn discard_parked(&self, id: i64, record: Option<&AuditRecord>) -> Result<bool, StoreError> {
        Ok(self.execute_recorded(&self.sql.parked.discard, Bind::Number(id), record).await? > 0)
    }
}

impl<DB: Database, P: ConnectionPool<DB>> SqlStore<DB, P> {
    async fn check_parked(&self) -> Result<(), StoreError> {
        self.check_tables(&["parked"]).await.map_err(|error| error.with_migration(MIGRATION))
    }
}

/// `id, consumer, topic, partition_name, record_offset, record_key, headers, payload, parked_at, holds_key, released, replays, error`.
impl FromRow for ParkedRecord {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> RowResult<Self> {
        Ok(Self {
            id: DB::number(row, 0)?,
            consumer: DB::text(row, 1)?,
            topic: DB::text(row, 2)?,
            partition: DB::text(row, 3)?,
            offset: DB::number(row, 4)?,
            key: DB::bytes(row, 5)?,
            headers: Headers::from_json(&DB::text(row, 6)?)?,
            payload: DB::bytes(row, 7)?,
            parked_at: DB::instant(row, 8)?,
            holds_key: DB::number(row, 9)? == 1,
            is_released: DB::number(row, 10)? == 1,
            replays: u32::try_from(DB::number(row, 11)?).unwrap_or(u32::MAX),
            error: DB::text(row, 12)?,
        })
    }
}
