use std::sync::Arc;

use diesel::QueryResult;
use diesel::connection::LoadConnection;

use super::database::{ConsumerBackend, parked_statements};
use crate::naming::TableNames;
use crate::store::parked::ParkedRecord;
use crate::store::sql::rows::Read;

/// The parked records of a consumer: lists and releases them.
///
/// The consumer that reads the partition processes what is released, within about a second: the records of a key in order, from the
/// first one on, whichever was released.
///
/// ```
/// # #[cfg(feature = "sqlite")] {
/// use diesel::prelude::*;
/// use diesel_outbox::consumer::ParkedRecords;
///
/// # use diesel_outbox::migrations::Migrations;
/// # use diesel_migrations::MigrationHarness;
/// # let mut conn = SqliteConnection::establish(":memory:")?;
/// # conn.run_pending_migrations(Migrations::consumer(Default::default())).unwrap();
/// let parked = ParkedRecords::new("billing");
/// for record in parked.list(&mut conn, 0, 100)? {
///     println!("{}/{} at {}: {}", record.topic, record.partition, record.offset, record.error);
///     parked.release(&mut conn, record.id)?;
/// }
/// # }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ParkedRecords {
    consumer: Arc<str>,
    tables: TableNames,
}

impl ParkedRecords {
    /// Of the consumer of this name: of Kafka the group.
    pub fn new(consumer: impl Into<Arc<str>>) -> Self {
        Self { consumer: consumer.into(), tables: TableNames::default() }
    }

    /// The names of the tables, if they are not the default ones.
    #[must_use]
    pub fn tables(mut self, tables: TableNames) -> Self {
        self.tables = tables;
        self
    }

    /// At most `rows_max` records after the row `after`, in the order in which they were parked.
    ///
    /// # Errors
    /// Returns the database's error.
    pub fn list<C>(&self, conn: &mut C, after: i64, rows_max: usize) -> QueryResult<Vec<ParkedRecord>>
    where
        C: LoadConnection<Backend: ConsumerBackend>,
    {
        let list = parked_statements::list(&self.tables, &self.consumer, after, rows_max);
        let rows: Vec<Read<ParkedRecord>> = diesel::RunQueryDsl::load(list, conn)?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Releases a row, and with it its key. Returns whether it is there.
    ///
    /// # Errors
    /// Returns the database's error.
    pub fn release<C>(&self, conn: &mut C, id: i64) -> QueryResult<bool>
    where
        C: LoadConnection<Backend: ConsumerBackend>,
    {
        let release = parked_statements::release(&self.tables, &self.consumer, id);
        Ok(diesel::RunQueryDsl::execute(release, conn)? > 0)
    }

    /// Deletes a row: nobody processes its record. What is parked behind it stays. Returns whether the row was there.
    ///
    /// # Errors
    /// Returns the database's error.
    pub fn discard<C>(&self, conn: &mut C, id: i64) -> QueryResult<bool>
    where
        C: LoadConnection<Backend: ConsumerBackend>,
    {
        let discard = parked_statements::discard(&self.tables, &self.consumer, id);
        Ok(diesel::RunQueryDsl::execute(discard, conn)? > 0)
    }

    /// Like [`list`](Self::list), over a diesel-async connection.
    ///
    /// # Errors
    /// Returns the database's error.
    #[cfg(feature = "async")]
    pub async fn list_async<C>(&self, conn: &mut C, after: i64, rows_max: usize) -> QueryResult<Vec<ParkedRecord>>
    where
        C: diesel_async::AsyncConnection<Backend: ConsumerBackend>,
    {
        let list = parked_statements::list(&self.tables, &self.consumer, after, rows_max);
        let rows: Vec<Read<ParkedRecord>> = diesel_async::RunQueryDsl::load(list, conn).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Like [`release`](Self::release), over a diesel-async connection.
    ///
    /// # Errors
    /// Returns the database's error.
    #[cfg(feature = "async")]
    pub async fn release_async<C>(&self, conn: &mut C, id: i64) -> QueryResult<bool>
    where
        C: diesel_async::AsyncConnection<Backend: ConsumerBackend>,
    {
        let release = parked_statements::release(&self.tables, &self.consumer, id);
        Ok(diesel_async::RunQueryDsl::execute(release, conn).await? > 0)
    }

    /// Like [`discard`](Self::discard), over a diesel-async connection.
    ///
    /// # Errors
    /// Returns the database's error.
    #[cfg(feature = "async")]
    pub async fn discard_async<C>(&self, conn: &mut C, id: i64) -> QueryResult<bool>
    where
        C: diesel_async::AsyncConnection<Backend: ConsumerBackend>,
    {
        let discard = parked_statements::discard(&self.tables, &self.consumer, id);
        Ok(diesel_async::RunQueryDsl::execute(discard, conn).await? > 0)
    }
}
