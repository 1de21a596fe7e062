//! The part of the store interface for records that consumers have parked.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use serde::{Serialize, Serializer};

use super::StoreError;
use super::audit::AuditRecord;
use crate::message::Headers;
use crate::serialize::instant;

/// A database with the table of parked records. From [`Store::parked`](super::Store::parked).
///
/// # Errors
/// As for [`Store`](super::Store); and [`SchemaProblem::NotMigrated`](super::SchemaProblem::NotMigrated) without the table.
///
/// # Cancel safety
/// A dropped future may or may not have had its effect.
#[async_trait]
pub trait ParkedStore: fmt::Debug + Send + Sync {
    /// At most `rows_max` records after the row `after`, by row; of one consumer, if one is named.
    async fn parked(
        &self,
        consumer: Option<&Arc<str>>,
        after: i64,
        rows_max: usize,
    ) -> Result<Vec<ParkedRecord>, StoreError>;

    /// The names of the consumers that the tables know, sorted.
    async fn consumers(&self) -> Result<Vec<String>, StoreError>;

    /// One record.
    async fn find_parked(&self, id: i64) -> Result<Option<ParkedRecord>, StoreError>;

    /// Lets its consumer process a record; returns whether it is there.
    async fn release_parked(&self, id: i64, record: Option<&AuditRecord>) -> Result<bool, StoreError>;

    /// Removes a record; returns whether it was there.
    async fn discard_parked(&self, id: i64, record: Option<&AuditRecord>) -> Result<bool, StoreError>;
}

/// A record that a consumer has parked, or dead-lettered.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ParkedRecord {
    /// Its row.
    pub id: i64,
    /// The consumer: of Kafka the group.
    pub consumer: String,
    /// Its topic.
    pub topic: String,
    /// Its partition.
    pub partition: String,
    /// Its place in the partition.
    pub offset: i64,
    /// Its key.
    #[serde(serialize_with = "lossy")]
    pub key: Option<Vec<u8>>,
    /// Its headers.
    #[serde(serialize_with = "as_stored")]
    pub headers: Headers,
    /// Its payload.
    #[serde(skip)]
    pub payload: Option<Vec<u8>>,
    /// When it was parked, by the database's clock.
    #[serde(serialize_with = "instant")]
    pub parked_at: SystemTime,
    /// Whether what follows of its key is parked after it. If not, it is a dead letter.
    pub holds_key: bool,
    /// Whether it is released, and the consumer has not begun to process it.
    pub is_released: bool,
    /// How often it was released.
    pub replays: u32,
    /// Why it failed, or why it follows one that did.
    pub error: String,
}

fn lossy<S: Serializer>(key: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    key.as_deref().map(String::from_utf8_lossy).serialize(serializer)
}

fn as_stored<S: Serializer>(headers: &Headers, serializer: S) -> Result<S::Ok, S::Error> {
    crate::serialize::headers(&headers.to_json(), serializer)
}

// Keys and payloads can hold personal data.
impl fmt::Debug for ParkedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParkedRecord")
            .field("id", &self.id)
            .field("consumer", &self.consumer)
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("offset", &self.offset)
            .field("parked_at", &self.parked_at)
            .field("holds_key", &self.holds_key)
            .field("is_released", &self.is_released)
            .field("replays", &self.replays)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}
