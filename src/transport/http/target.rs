use std::fmt;
use std::sync::Arc;

use super::response::{HttpResponse, Success};
use crate::limits::HTTP_RESPONSE_BYTES_MAX;
use crate::message::Envelope;
use crate::transport::FailureClass;

/// Finds a message's URL.
pub(super) type UrlCallback = Arc<dyn Fn(&Envelope) -> Option<String> + Send + Sync>;

/// Where the messages of a topic go, and how: URL, method, headers, signature, and what counts as success.
///
/// ```
/// use diesel_outbox::transport::{FailureClass, HttpTarget};
///
/// let target = HttpTarget::new("https://shop.example/hooks/orders")
///     .header("authorization", "Bearer swordfish")
///     .sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
///     .success(200..300)
///     .classify_status(409, FailureClass::RecordRefused);
/// assert!(!format!("{target:?}").contains("swordfish"));
/// ```
#[derive(Clone)]
#[must_use = "a target does nothing until it is given to an HttpTransportBuilder"]
pub struct HttpTarget {
    pub(super) url: UrlSource,
    pub(super) method: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) content_type: String,
    pub(super) idempotency_header: Option<String>,
    pub(super) sends_created_at: bool,
    pub(super) sends_topic: bool,
    pub(super) secrets: Vec<String>,
    pub(super) success: Success,
    pub(super) status_classes: Vec<(u16, FailureClass)>,
    pub(super) health_url: Option<String>,
}

/// Where a URL comes from.
#[derive(Clone)]
pub(super) enum UrlSource {
    Fixed(String),
    Callback(UrlCallback),
    /// The header is not sent.
    Header(String),
}

impl HttpTarget {
    /// Every message goes to one URL, by POST.
    pub fn new(url: impl Into<String>) -> Self {
        Self::from(UrlSource::Fixed(url.into()))
    }

    /// Sends each message to the URL that `find` returns for it. A message without a URL is refused for good. For
    /// receivers that only the application knows.
    ///
    /// Whoever can choose a URL can have messages sent into your network: see
    /// [`HttpTransportBuilder::deny_private_addresses`](super::HttpTransportBuilder::deny_private_addresses). `find` is
    /// called at each attempt. It must neither block nor panic.
    pub fn per_message(find: impl Fn(&Envelope) -> Option<String> + Send + Sync + 'static) -> Self {
        Self::from(UrlSource::Callback(Arc::new(find)))
    }

    /// Sends each message to the URL in its header `name`. The header is not sent. The warning of
    /// [`per_message`](Self::per_message) applies.
    pub fn from_header(name: impl Into<String>) -> Self {
        Self::from(UrlSource::Header(name.into()))
    }

    /// The method; POST by default.
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = method.into();
        self
    }

    /// Adds a header to every request, for instance credentials. It replaces a message's own header of that name. Its
    /// value is never shown.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The content type of messages that have no header `content-type`; `application/json` by default.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }

    /// The header with the message id, by which receivers recognise duplicates; `idempotency-key` by default. With
    /// `None` the id is sent as `outbox-message-id`.
    pub fn idempotency_header(mut self, name: Option<&str>) -> Self {
        self.idempotency_header = name.map(str::to_owned);
        self
    }

    /// Sends the time when the row was written in the header `outbox-created-at`, in milliseconds since 1970. Off by
    /// default: a message id is a UUID of version 7, which holds the time when the message was made.
    pub fn created_at_header(mut self) -> Self {
        self.sends_created_at = true;
        self
    }

    /// Sends the topic in the header `outbox-topic` in every request. By default it is sent only if several topics of
    /// this transport go to one URL, or may. Turn it on if other transports or services use the same URL.
    pub fn topic_header(mut self) -> Self {
        self.sends_topic = true;
        self
    }

    /// Signs every request as [standard-webhooks](https://www.standardwebhooks.com) does (`webhook-id`,
    /// `webhook-timestamp`, `webhook-signature`, version 1). A secret is `whsec_` and base64 of 24 to 64 bytes. Called
    /// twice, requests carry both signatures, so that a secret can be replaced while receivers know either.
    pub fn sign(mut self, secret: impl Into<String>) -> Self {
        self.secrets.push(secret.into());
        self
    }

    /// The statuses that mean success; 200 to 299 by default.
    pub fn success(mut self, statuses: impl IntoIterator<Item = u16>) -> Self {
        self.success = Success::Statuses(statuses.into_iter().collect());
        self
    }

    /// Calls `is_success` for every answer, with at most `body_bytes_max` of its body (64 KiB at most). It must neither
    /// block nor panic.
    ///
    /// An answer of 200 to 299 that it rejects spends an attempt of the message. For any other status the table in the
    /// guide applies. A body that does not arrive in time is a time-out.
    pub fn success_when(
        mut self,
        body_bytes_max: usize,
        is_success: impl Fn(&HttpResponse<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.success = Success::Predicate(body_bytes_max.min(HTTP_RESPONSE_BYTES_MAX), Arc::new(is_success));
        self
    }

    /// Gives a status another class than the table in the guide. For instance 500 as [`Record`](FailureClass::Record),
    /// if the receiver answers so to a message that it cannot process.
    pub fn classify_status(mut self, status: u16, class: FailureClass) -> Self {
        self.status_classes.push((status, class));
        self
    }

    /// The URL that a probe asks by HEAD; the target's own URL by default. Any answer but 502 to 504 means that the
    /// host is up. 401, 403 and 407 count only if the host had not refused messages before.
    pub fn health_url(mut self, url: impl Into<String>) -> Self {
        self.health_url = Some(url.into());
        self
    }
}

impl From<UrlSource> for HttpTarget {
    fn from(url: UrlSource) -> Self {
        Self {
            url,
            method: "POST".to_owned(),
            headers: Vec::new(),
            content_type: "application/json".to_owned(),
            idempotency_header: Some("idempotency-key".to_owned()),
            sends_created_at: false,
            sends_topic: false,
            secrets: Vec::new(),
            success: Success::Statuses((200..300).collect()),
            status_classes: Vec::new(),
            health_url: None,
        }
    }
}

// URLs hold tokens in path and query, and headers hold credentials: neither is shown.
impl fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = match self.url {
            UrlSource::Fixed(_) => "fixed",
            UrlSource::Callback(_) => "per message",
            UrlSource::Header(_) => "from a header",
        };
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpTarget")
            .field("url", &url)
            .field("method", &self.method)
            .field("headers", &headers)
            .field("secrets", &self.secrets.len())
            .field("success", &self.success)
            .field("status_classes", &self.status_classes)
            .finish_non_exhaustive()
    }
}
