//! From the columns of a row to a message. Each row is decoded on its own, so one unreadable row stops no other.

use std::error::Error;
use std::sync::Arc;
use std::time::SystemTime;

use super::{Loaded, Poisoned, Row, RowKey};
use crate::message::{Envelope, Headers};

pub(crate) type DecodeError = Box<dyn Error + Send + Sync>;

/// The columns that every operation on a row needs, and the rest as far as it could be read.
#[derive(Debug)]
pub(crate) struct RawRow {
    pub(crate) key: RowKey,
    pub(crate) epoch: i32,
    pub(crate) failures: i32,
    pub(crate) attempts: i32,
    pub(crate) is_suspect: bool,
    pub(crate) body: Result<RawBody, DecodeError>,
}

/// The columns that hold the message.
#[derive(Debug)]
pub(crate) struct RawBody {
    pub(crate) key: Option<String>,
    pub(crate) kind: String,
    /// `None` if there are none.
    pub(crate) headers: Option<String>,
    pub(crate) payload: Option<Vec<u8>>,
    pub(crate) created_at: SystemTime,
    pub(crate) deliver_at: Option<SystemTime>,
}

impl RawRow {
    pub(crate) fn decode(self, topic: &Arc<str>) -> Loaded {
        let Self { key, epoch, failures, attempts, is_suspect, body } = self;
        match body.and_then(|body| body.envelope(key, topic, attempts)) {
            Ok(envelope) => Loaded::Row(Row { key, epoch, failures: count(failures), is_suspect, envelope }),
            Err(error) => Loaded::Poisoned(Poisoned { key, epoch, topic: Arc::clone(topic), error }),
        }
    }
}

impl RawBody {
    fn envelope(self, key: RowKey, topic: &Arc<str>, attempts: i32) -> Result<Envelope, DecodeError> {
        let mut envelope = Envelope::new(key.message_id, Arc::clone(topic), self.created_at);
        envelope.headers = self.headers.as_deref().map(Headers::from_json).transpose()?.unwrap_or_default();
        envelope.key = self.key;
        envelope.kind = self.kind;
        envelope.payload = self.payload;
        envelope.deliver_at = self.deliver_at;
        envelope.attempt = count(attempts).saturating_add(1);
        Ok(envelope)
    }
}

/// The next epoch, as the SQL statements compute it.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) fn next_epoch(epoch: i32) -> i32 {
    epoch % i32::MAX + 1
}

/// A count. Only an UPDATE from outside can have made it negative.
fn count(column: i32) -> u32 {
    u32::try_from(column).unwrap_or(0)
}
