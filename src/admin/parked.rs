use std::sync::Arc;

use serde_json::json;

use super::cursor::List;
use super::{Admin, AdminError, Cursor, Page};
use crate::store::AuditRecord;
use crate::store::parked::{ParkedRecord, ParkedStore};

/// Records that consumers have parked, in the table that the migration `0000consumer01_progress` creates.
impl Admin {
    /// A page of parked records, in the order in which they were parked: at most `records_max`, after `after`, of all consumers or
    /// of one.
    ///
    /// # Errors
    /// [`EmptyPage`](AdminError::EmptyPage), [`WrongCursor`](AdminError::WrongCursor),
    /// [`NoSuchConsumer`](AdminError::NoSuchConsumer), or a database error, such as that the migration was not run.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn parked(
        &self,
        consumer: Option<&str>,
        after: Option<&Cursor>,
        records_max: usize,
    ) -> Result<Page<ParkedRecord>, AdminError> {
        let after = Cursor::begin(List::Parked, after, records_max)?.unwrap_or(0);
        let (store, name) = (self.parked_store()?, consumer.map(Arc::from));
        let records = store.parked(name.as_ref(), after, records_max).await?;
        if let (true, Some(consumer)) = (records.is_empty(), consumer) {
            let known = store.consumers().await?;
            // A wrong name must not look like a consumer that has parked nothing.
            if !known.iter().any(|known| known == consumer) {
                return Err(AdminError::NoSuchConsumer { consumer: consumer.to_owned(), known });
            }
        }
        Ok(Page::of(List::Parked, records, records_max, |last| last.id))
    }

    /// One parked record, by its row.
    ///
    /// # Errors
    /// [`NotParked`](AdminError::NotParked), or a database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn find_parked(&self, id: i64) -> Result<ParkedRecord, AdminError> {
        self.parked_store()?.find_parked(id).await?.ok_or(AdminError::NotParked { id })
    }

    /// Releases a parked record: its consumer processes it within about a second, and with it what is parked of its key, in order. If it
    /// fails again, it stays parked.
    ///
    /// # Errors
    /// [`NotParked`](AdminError::NotParked), or a database error.
    ///
    /// # Cancel safety
    /// If the future is dropped, the record may or may not be released. Call again.
    pub async fn release_parked(&self, id: i64) -> Result<(), AdminError> {
        let record = self.record_parked("release_parked", id).await?;
        match self.parked_store()?.release_parked(id, record.as_ref()).await? {
            true => Ok(()),
            false => Err(AdminError::NotParked { id }),
        }
    }

    /// Removes a parked record for good: nobody processes it. What follows of its key stays parked; release it if it may be processed
    /// without this one.
    ///
    /// # Errors
    /// [`NotParked`](AdminError::NotParked), or a database error.
    ///
    /// # Cancel safety
    /// If the future is dropped, the record may or may not be removed. Call again.
    pub async fn discard_parked(&self, id: i64) -> Result<(), AdminError> {
        let record = self.record_parked("discard_parked", id).await?;
        match self.parked_store()?.discard_parked(id, record.as_ref()).await? {
            true => Ok(()),
            false => Err(AdminError::NotParked { id }),
        }
    }

    fn parked_store(&self) -> Result<&dyn ParkedStore, AdminError> {
        self.store.parked().ok_or(AdminError::Unsupported)
    }

    /// Says which record it was: its row may be gone when somebody reads the audit.
    async fn record_parked(&self, action: &'static str, id: i64) -> Result<Option<AuditRecord>, AdminError> {
        let ParkedRecord { consumer, topic, partition, offset, .. } = self.find_parked(id).await?;
        let of = json!({ "id": id, "consumer": consumer, "topic": topic, "partition": partition, "offset": offset });
        self.record_with(action, &of).await
    }
}
