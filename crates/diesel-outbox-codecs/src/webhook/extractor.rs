use std::fmt;
use std::time::SystemTime;

use axum::body::Bytes;
use axum::extract::{FromRef, FromRequest, Request};
use axum::http::HeaderMap;
use diesel_outbox::codec::Json;
use diesel_outbox::transport::header;
use diesel_outbox::{CodecError, MessageId};
use serde::de::DeserializeOwned;

use super::secrets::Signed;
use super::{WebhookRejection, WebhookSecrets};
use crate::Decode as _;

/// Marks a message without a payload.
const TOMBSTONE: &str = "outbox-tombstone";

/// A message that came as a request with a valid signature. An extractor, for routers whose state has [`WebhookSecrets`].
///
/// The signature covers the message id and the body. The other headers are as safe as the connection: use `https`.
#[derive(Clone)]
pub struct Webhook {
    message_id: MessageId,
    headers: HeaderMap,
    body: Bytes,
}

impl Webhook {
    /// The message's id, the same in every copy: what an inbox recognises it by.
    pub fn message_id(&self) -> MessageId {
        self.message_id
    }

    /// The kind of event; `None` if it has none.
    pub fn kind(&self) -> Option<&str> {
        self.header(header::KIND)
    }

    /// The fingerprint of the event's shape, for [`Decoder::decode`](crate::Decoder::decode).
    pub fn fingerprint(&self) -> Option<&[u8]> {
        self.headers.get(header::FINGERPRINT).map(|value| value.as_bytes())
    }

    /// Every header of the request.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The payload.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The event in the payload, which the codec `Json` wrote. A tombstone is read as `null`.
    ///
    /// # Errors
    /// Returns an error if the payload is not such an event. As a [`WebhookRejection`], which `?` makes of it, it is answered by 422, and
    /// the sender keeps the message as a dead letter.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        let is_tombstone = self.body.is_empty() && self.headers.contains_key(TOMBSTONE);
        Json::decode(if is_tombstone { b"null" } else { &self.body })
    }

    fn header(&self, name: &str) -> Option<&str> {
        text(&self.headers, name)
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

impl<S> FromRequest<S> for Webhook
where
    WebhookSecrets: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = WebhookRejection;

    #[expect(clippy::disallowed_methods, reason = "a signature has a date")]
    async fn from_request(request: Request, state: &S) -> Result<Self, WebhookRejection> {
        let headers = request.headers().clone();
        let [Some(id), Some(timestamp), Some(signatures)] =
            ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|name| text(&headers, name))
        else {
            return Err(WebhookRejection::Unsigned);
        };
        let message_id = id.parse().map_err(|_| WebhookRejection::Unsigned)?;
        // Also bounds it.
        let body = Bytes::from_request(request, state).await.map_err(WebhookRejection::Body)?;
        let signed = Signed { id, timestamp, signatures, body: &body };
        WebhookSecrets::from_ref(state).check(&signed, SystemTime::now())?;
        Ok(Self { message_id, headers, body })
    }
}

// Headers and payloads can hold personal data.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("message_id", &self.message_id)
            .field("kind", &self.kind())
            .finish_non_exhaustive()
    }
}
