use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use serde::de::DeserializeOwned;

use crate::codec::{CodecError, decode_json};
use crate::message::{Headers, MessageId};
use crate::transport::header;

/// A part of a topic whose records have an order: a partition of Kafka, a queue of RocketMQ.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PartitionId {
    pub(crate) topic: Arc<str>,
    /// Unique in the topic, and the same in every process.
    pub(crate) name: Arc<str>,
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.name)
    }
}

/// A record as a handler sees it.
///
/// ```
/// use diesel_outbox::consumer::{HandlerError, Record};
///
/// #[derive(serde::Deserialize)]
/// struct OrderPlaced { order_id: i64 }
///
/// fn handle(record: &Record) -> Result<(), HandlerError> {
///     if record.kind() == Some("order.placed") {
///         let placed: OrderPlaced = record.decode()?;
///         println!("order {}", placed.order_id);
///     }
///     Ok(())
/// }
/// # let _ = handle;
/// ```
#[derive(Clone)]
pub struct Record {
    pub(crate) partition: PartitionId,
    pub(crate) offset: i64,
    pub(crate) key: Option<Arc<[u8]>>,
    pub(crate) payload: Option<Vec<u8>>,
    pub(crate) headers: Headers,
    pub(crate) timestamp: Option<SystemTime>,
}

impl Record {
    /// Its topic.
    pub fn topic(&self) -> &str {
        &self.partition.topic
    }

    /// Its partition: of Kafka the number, as text; of RocketMQ the broker's name and the number of the queue there, as `broker-a/3`.
    pub fn partition(&self) -> &str {
        &self.partition.name
    }

    /// Its place in the partition.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Its key: of RocketMQ the sharding key.
    pub fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// Its payload; `None` for a tombstone.
    pub fn payload(&self) -> Option<&[u8]> {
        self.payload.as_deref()
    }

    /// Every header, those of the outbox included. `traceparent` carries the trace of the producer on.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// When this copy was sent, by the clock that the topic uses: of RocketMQ when the broker stored it. For event time read the header
    /// [`CREATED_AT`](header::CREATED_AT).
    pub fn timestamp(&self) -> Option<SystemTime> {
        self.timestamp
    }

    /// The id of the message, the same in every copy; `None` if no outbox sent it.
    pub fn message_id(&self) -> Option<MessageId> {
        std::str::from_utf8(self.headers.get(header::MESSAGE_ID)?).ok()?.parse().ok()
    }

    /// The kind of event; `None` if it has none.
    pub fn kind(&self) -> Option<&str> {
        std::str::from_utf8(self.headers.get(header::KIND)?).ok()
    }

    /// The event in the payload, which the codec [`Json`](crate::codec::Json) wrote. A tombstone is read as `null`.
    ///
    /// # Errors
    /// Returns an error if the payload is not such an event. In a handler `?` makes it an error that is not tried again.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        decode_json(self.payload())
    }

    /// What it occupies in memory, roughly.
    pub(crate) fn size_bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        size_of::<Self>()
            + self.key.as_deref().map_or(0, <[u8]>::len)
            + self.payload.as_ref().map_or(0, Vec::len)
            + headers
    }
}

// Keys, payloads and header values can hold personal data.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("partition", &self.partition)
            .field("offset", &self.offset)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
