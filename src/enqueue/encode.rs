//! An event, encoded and checked. Everything that can be refused is refused before the first await.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::error::EnqueueError;
use super::interceptor::{EnqueueInterceptor, InterceptedMessage, intercept};
use crate::clock::system_now;
use crate::lane::{fnv1a, lane_of};
use crate::limits::{DELAY_MAX, HEADER_NAME_BYTES_MAX, HEADER_NAME_SHOWN_CHARS_MAX, KEY_BYTES_MAX, KIND_CHARS_MAX};
use crate::message::{Delivery, Envelope, HeaderError, Headers, MessageId, OutboxMessage};
use crate::receipts::{PendingReceipt, Ticket};
use crate::topic::Topic;
use crate::transport::header::FINGERPRINT;

/// Header names with this prefix are the outbox's own. A message may bring its fingerprint, as one does that is enqueued again.
const RESERVED_PREFIX: &str = "outbox-";

/// What an outbox has set for the messages of its topics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EncodeRules<'o> {
    /// Sorted by name.
    pub(crate) topics: &'o [Topic],
    pub(crate) interceptors: &'o [Arc<dyn EnqueueInterceptor>],
    /// Whether the fingerprint of the event's shape is sent.
    pub(crate) has_fingerprints: bool,
}

/// A message ready to be written.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) topic: Arc<str>,
    /// The topic's staleness.
    pub(crate) staleness: Duration,
    pub(crate) message_id: MessageId,
    pub(crate) key: Option<String>,
    /// Always immediate on an ordered topic.
    pub(crate) delivery: Delivery,
    /// Set on an ordered topic.
    pub(crate) lane: Option<u16>,
    /// The lock that the transaction takes first, if the topic serializes its keys.
    #[cfg_attr(
        all(feature = "sqlite", not(any(feature = "postgres", feature = "mysql"))),
        expect(dead_code, reason = "SQLite has one lock for all writers")
    )]
    pub(crate) key_lock: Option<i64>,
    pub(crate) kind: String,
    pub(crate) headers: Headers,
    /// The headers in the form of their column.
    pub(crate) headers_json: String,
    pub(crate) payload: Option<Vec<u8>>,
    /// The size of payload, key and headers.
    pub(crate) bytes: usize,
    /// Whether somebody waits for the delivery.
    pub(crate) ticket: Option<Ticket>,
}

impl Encoded {
    /// Encodes `event`, shows it to the interceptors, and checks it.
    pub(crate) fn new<M: OutboxMessage + ?Sized>(rules: &EncodeRules<'_>, event: &M) -> Result<Self, EnqueueError> {
        let EncodeRules { topics, interceptors, has_fingerprints } = *rules;
        let name = event.topic();
        let topic = find(topics, &name)?;
        let kind = event.kind();
        let key = event.key();
        let mut headers = event.headers();
        check_text(&name, key.as_deref(), &kind)?;
        let codec = |error| EnqueueError::Codec {
            // `enqueue_all` takes references, too.
            type_name: std::any::type_name::<M>().trim_start_matches('&'),
            topic: name.to_string(),
            kind: kind.to_string(),
            error,
        };
        let lane = lane(topic, key.as_deref())?;
        let delivery = delivery(topic, event.delivery())?;
        let key_lock = key.as_deref().filter(|_| topic.is_serialized_by_key()).map(|key| key_lock(&name, key));
        let payload = event.payload().map_err(codec)?;
        let message_id = MessageId::new();
        let mut message = InterceptedMessage {
            topic: &name,
            message_id,
            key: key.as_deref(),
            kind: &kind,
            payload_bytes: payload.as_ref().map(Vec::len),
            delivery,
            headers: &mut headers,
        };
        intercept(interceptors, &mut message)?;
        check_headers(&name, &headers)?;
        // A dead letter that was edited brings its own.
        if has_fingerprints && let Some(own) = event.fingerprint().filter(|_| headers.get(FINGERPRINT).is_none()) {
            headers.push(FINGERPRINT, own);
        }
        let headers_bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let bytes = payload.as_ref().map_or(0, Vec::len) + key.as_deref().map_or(0, str::len) + headers_bytes;
        let bytes_max = topic.message_bytes_limit();
        if bytes > bytes_max {
            return Err(EnqueueError::TooLarge { topic: name.into_owned(), bytes, bytes_max });
        }
        Ok(Self {
            topic: topic.shared_name(),
            staleness: topic.staleness_duration(),
            message_id,
            key: key.map(Into::into),
            delivery,
            lane,
            key_lock,
            kind: kind.into_owned(),
            headers_json: headers.to_json(),
            headers,
            payload,
            bytes,
            ticket: None,
        })
    }

    /// The receipt of the message.
    pub(crate) fn receipt(&mut self) -> PendingReceipt {
        let (receipt, ticket) = PendingReceipt::new(self.message_id);
        self.ticket = Some(ticket);
        receipt
    }

    /// The message in the form that a transport gets.
    pub(crate) fn into_envelope(self, created_at: SystemTime) -> Envelope {
        let mut envelope = Envelope::new(self.message_id, self.topic, created_at);
        envelope.key = self.key;
        envelope.kind = self.kind;
        envelope.headers = self.headers;
        envelope.payload = self.payload;
        envelope.deliver_at = match self.delivery {
            Delivery::Now => None,
            Delivery::After(delay) => created_at.checked_add(delay),
            Delivery::At(at) => Some(at),
        };
        envelope
    }
}

fn find<'t>(topics: &'t [Topic], name: &str) -> Result<&'t Topic, EnqueueError> {
    match topics.binary_search_by(|topic| topic.name().cmp(name)) {
        Ok(found) => Ok(&topics[found]),
        Err(_) => Err(EnqueueError::UnknownTopic {
            topic: name.to_owned(),
            configured: topics.iter().map(|topic| topic.name().to_owned()).collect(),
        }),
    }
}

fn lane(topic: &Topic, key: Option<&str>) -> Result<Option<u16>, EnqueueError> {
    match (topic.lane_count(), key) {
        (None, _) => Ok(None),
        (Some(lanes), Some(key)) => Ok(Some(lane_of(key, lanes))),
        (Some(_), None) => Err(EnqueueError::KeyMissing { topic: topic.name().to_owned() }),
    }
}

fn delivery(topic: &Topic, wanted: Delivery) -> Result<Delivery, EnqueueError> {
    let ahead = match wanted {
        Delivery::Now | Delivery::After(Duration::ZERO) => return Ok(Delivery::Now),
        Delivery::After(delay) => delay,
        Delivery::At(at) => at.duration_since(system_now()).unwrap_or_default(),
    };
    let topic_name = || topic.name().to_owned();
    if topic.lane_count().is_some() {
        Err(EnqueueError::DelayedOnOrderedTopic { topic: topic_name() })
    } else if ahead > DELAY_MAX {
        Err(EnqueueError::DelayTooLong { topic: topic_name() })
    } else {
        Ok(wanted)
    }
}

/// The same in every process that enqueues. Keys with equal numbers wait for each other, which only costs time.
fn key_lock(topic: &str, key: &str) -> i64 {
    // A topic name contains no slash.
    i64::from_ne_bytes(fnv1a(&format!("{topic}/{key}")).to_ne_bytes())
}

fn check_text(topic: &str, key: Option<&str>, kind: &str) -> Result<(), EnqueueError> {
    let topic = || topic.to_owned();
    if let Some(key) = key {
        if key.len() > KEY_BYTES_MAX {
            return Err(EnqueueError::KeyTooLong { topic: topic(), bytes: key.len() });
        }
        if key.contains('\0') {
            return Err(EnqueueError::Nul { topic: topic(), field: "key" });
        }
    }
    // The byte length bounds the character count, so most kinds are never counted.
    if kind.len() > KIND_CHARS_MAX && kind.chars().count() > KIND_CHARS_MAX {
        return Err(EnqueueError::KindTooLong { topic: topic(), chars: kind.chars().count() });
    }
    if kind.contains('\0') {
        return Err(EnqueueError::Nul { topic: topic(), field: "kind" });
    }
    Ok(())
}

fn check_headers(topic: &str, headers: &Headers) -> Result<(), EnqueueError> {
    for (name, _) in headers.iter() {
        let problem = if name.is_empty() {
            HeaderError::NoName
        } else if name == FINGERPRINT {
            continue;
        } else if name.get(..RESERVED_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(RESERVED_PREFIX)) {
            HeaderError::Reserved
        } else if name.len() > HEADER_NAME_BYTES_MAX {
            HeaderError::NameTooLong
        } else if name.contains('\0') {
            HeaderError::Nul
        } else {
            continue;
        };
        let name = name.chars().take(HEADER_NAME_SHOWN_CHARS_MAX).collect();
        return Err(EnqueueError::Header { topic: topic.to_owned(), name, problem });
    }
    Ok(())
}
