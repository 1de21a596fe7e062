use std::error::Error;

use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use diesel_outbox::CodecError;
use diesel_outbox::inbox::InboxError;

use crate::DecodeError;

/// Why a request is refused, or its message was not handled.
///
/// As a response it has the status below and no body: the sender is not told more. What only somebody who knows the secret can cause is
/// logged as a warning.
///
/// The library's HTTP transport tries again after each of them. After some refusals by 422 (`refusal_retries`) the message is a dead
/// letter; after a 500 it never is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookRejection {
    /// It has no signature, or no usable time or message id: 401.
    #[error(
        "the request is not signed: `webhook-id`, `webhook-timestamp` or `webhook-signature` is missing or malformed"
    )]
    Unsigned,
    /// No secret of ours made its signature: 401.
    #[error(
        "none of the secrets made the request's signature: compare them with the sender's, or somebody forges requests"
    )]
    Forged,
    /// It was signed more than five minutes ago, or is that far ahead: 401.
    #[error(
        "the request's signature is more than five minutes old, or ahead: synchronise the clocks, or somebody plays it again"
    )]
    Old,
    /// Its body cannot be read, or is larger than axum's
    /// [limit](https://docs.rs/axum/latest/axum/extract/struct.DefaultBodyLimit.html): axum's own response.
    #[error(transparent)]
    Body(BytesRejection),
    /// The payload is not the event that the receiver expects: 422.
    #[error(transparent)]
    Payload(#[from] CodecError),
    /// The inbox or the database failed: 500. Of [`InboxError::TooOld`] 422, because every copy is as old.
    #[error(transparent)]
    Inbox(#[from] InboxError),
    /// The handler refuses the message for good: 422. From [`refused`](Self::refused).
    #[error(transparent)]
    Refused(Box<dyn Error + Send + Sync>),
    /// Something failed that says nothing about the message: 500. From [`failed`](Self::failed).
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

impl WebhookRejection {
    /// For a message that no attempt can handle.
    ///
    /// ```
    /// use diesel_outbox_codecs::webhook::WebhookRejection;
    ///
    /// let error = WebhookRejection::refused("order 42 is not ours");
    /// assert_eq!(error.to_string(), "order 42 is not ours");
    /// ```
    pub fn refused(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Refused(error.into())
    }

    /// For what may succeed at the next attempt: `pool.get().map_err(WebhookRejection::failed)?`.
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }

    /// 422 for what every attempt would meet: after a 500 the message would be sent for ever.
    fn status(&self) -> StatusCode {
        match self {
            Self::Unsigned | Self::Forged | Self::Old => StatusCode::UNAUTHORIZED,
            Self::Body(rejection) => rejection.status(),
            Self::Payload(_) | Self::Refused(_) | Self::Inbox(InboxError::TooOld { .. }) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::Inbox(_) | Self::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The error and its causes.
    fn text(&self) -> String {
        let chain = std::iter::successors(Some(self as &(dyn Error + 'static)), |error| (**error).source());
        chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }
}

/// What a decoder cannot decode.
impl From<DecodeError> for WebhookRejection {
    fn from(error: DecodeError) -> Self {
        Self::Payload(CodecError::new(error))
    }
}

/// An inbox's error comes out as it went in.
impl From<diesel::result::Error> for WebhookRejection {
    fn from(error: diesel::result::Error) -> Self {
        use diesel::result::Error::SerializationError;
        Self::Inbox(match error {
            SerializationError(source) => match source.downcast::<InboxError>() {
                Ok(refusal) => *refusal,
                Err(source) => InboxError::Database(SerializationError(source)),
            },
            error => InboxError::Database(error),
        })
    }
}

impl IntoResponse for WebhookRejection {
    fn into_response(self) -> Response {
        let status = self.status();
        if !matches!(self, Self::Unsigned | Self::Forged | Self::Old | Self::Body(_)) {
            tracing::warn!(status = status.as_u16(), error = self.text(), "a webhook was not handled");
        }
        match self {
            Self::Body(rejection) => rejection.into_response(),
            _ => status.into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use axum::body::HttpBody as _;
    use diesel::result::Error::{NotFound, SerializationError};
    use diesel_outbox::inbox::InboxKey;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("there is no invoice")]
    struct Caused(#[source] diesel::result::Error);

    fn too_old() -> InboxError {
        let kept_from = SystemTime::UNIX_EPOCH;
        InboxError::TooOld { consumer: "billing".to_owned(), key: InboxKey::of_text("order-17"), kept_from }
    }

    #[test]
    fn what_every_attempt_would_meet_is_refused() {
        let decoded = DecodeError::Payload { event: "Placed", error: CodecError::new("no such unit") };
        let not_in_transaction = || InboxError::NotInTransaction { consumer: "billing".to_owned() };
        for (rejection, status) in [
            (WebhookRejection::Unsigned, 401),
            (WebhookRejection::Forged, 401),
            (WebhookRejection::Old, 401),
            (CodecError::new("no such unit").into(), 422),
            (decoded.into(), 422),
            (too_old().into(), 422),
            (diesel::result::Error::from(too_old()).into(), 422),
            (WebhookRejection::refused("not ours"), 422),
            (not_in_transaction().into(), 500),
            (diesel::result::Error::from(not_in_transaction()).into(), 500),
            (NotFound.into(), 500),
            (SerializationError("not a number".into()).into(), 500),
            (WebhookRejection::failed("the pool is empty"), 500),
        ] {
            let text = rejection.text();
            let response = rejection.into_response();
            assert_eq!(response.status().as_u16(), status, "{text}");
            assert!(response.body().is_end_stream(), "the sender is told nothing of {text}");
        }
    }

    #[test]
    fn an_error_keeps_what_it_was_made_of() {
        let unpacked = WebhookRejection::from(diesel::result::Error::from(too_old()));
        assert!(matches!(unpacked, WebhookRejection::Inbox(InboxError::TooOld { .. })), "{unpacked:?}");
        assert_eq!(WebhookRejection::from(NotFound).text(), NotFound.to_string());
        let caused = WebhookRejection::failed(Caused(NotFound));
        assert_eq!(caused.text(), format!("there is no invoice: {NotFound}"));
    }
}
