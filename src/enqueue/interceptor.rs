//! The application's own code at enqueue.

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::error::EnqueueError;
use crate::message::{Delivery, Headers, MessageId};

/// Sees each message before it is written. It may add headers, or refuse the message. Registered with
/// [`OutboxBuilder::interceptor`](crate::OutboxBuilder::interceptor).
///
/// Every message passes it, whatever way it is enqueued. Sizes and headers are checked afterwards.
///
/// ```
/// use std::error::Error;
/// use diesel_outbox::{EnqueueInterceptor, InterceptedMessage, Outbox, Topic};
///
/// #[derive(Debug)]
/// struct Region(String);
///
/// impl EnqueueInterceptor for Region {
///     fn on_enqueue(&self, message: &mut InterceptedMessage<'_>) -> Result<(), Box<dyn Error + Send + Sync>> {
///         message.add_header("region", self.0.as_str());
///         Ok(())
///     }
/// }
///
/// let outbox = Outbox::builder().topic(Topic::new("orders")).interceptor(Region("eu-west".to_owned())).build()?;
/// # let _ = outbox;
/// # Ok::<_, diesel_outbox::BuildError>(())
/// ```
pub trait EnqueueInterceptor: fmt::Debug + Send + Sync + 'static {
    /// Called on the thread of the enqueue. It delays the caller's transaction, so it must not block.
    ///
    /// The message may still be refused, or its transaction rolled back.
    ///
    /// # Errors
    /// The message is refused: enqueue returns [`EnqueueError::Interceptor`] with this error, and nothing is written. A panic
    /// does the same.
    fn on_enqueue(&self, message: &mut InterceptedMessage<'_>) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// A message that is about to be written, as an [`EnqueueInterceptor`] sees it.
pub struct InterceptedMessage<'a> {
    pub(super) topic: &'a str,
    pub(super) message_id: MessageId,
    pub(super) key: Option<&'a str>,
    pub(super) kind: &'a str,
    pub(super) payload_bytes: Option<usize>,
    pub(super) delivery: Delivery,
    pub(super) headers: &'a mut Headers,
}

impl InterceptedMessage<'_> {
    /// Where it goes.
    pub fn topic(&self) -> &str {
        self.topic
    }

    /// Its id, which every copy will have.
    pub fn message_id(&self) -> MessageId {
        self.message_id
    }

    /// What it is about.
    pub fn key(&self) -> Option<&str> {
        self.key
    }

    /// What happened; may be empty.
    pub fn kind(&self) -> &str {
        self.kind
    }

    /// The size of the encoded payload; `None` for a tombstone.
    pub fn payload_bytes(&self) -> Option<usize> {
        self.payload_bytes
    }

    /// When it is sent.
    pub fn delivery(&self) -> Delivery {
        self.delivery
    }

    /// The headers: the message's own, then what interceptors have added.
    pub fn headers(&self) -> &Headers {
        self.headers
    }

    /// Appends a header, even if the name exists already. Names that begin with `outbox-` are refused, as are those of the
    /// message itself.
    pub fn add_header(&mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) {
        self.headers.push(name, value);
    }
}

// Without header values, as everywhere.
impl fmt::Debug for InterceptedMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterceptedMessage")
            .field("topic", &self.topic)
            .field("message_id", &self.message_id)
            .field("key", &self.key)
            .field("kind", &self.kind)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// Calls one after the other, until one refuses.
///
/// A panic is an error, too: to go on would send a message without what the interceptor adds, and nobody would know. Nothing
/// is written by then, so nothing is left half done.
pub(super) fn intercept(
    interceptors: &[Arc<dyn EnqueueInterceptor>],
    message: &mut InterceptedMessage<'_>,
) -> Result<(), EnqueueError> {
    for interceptor in interceptors {
        let called = catch_unwind(AssertUnwindSafe(|| interceptor.on_enqueue(message)));
        called.unwrap_or_else(|_panic| Err(Panicked.into())).map_err(|error| EnqueueError::Interceptor {
            topic: message.topic.to_owned(),
            interceptor: format!("{interceptor:?}"),
            error,
        })?;
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
#[error("it panicked")]
struct Panicked;
