use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// Why a request is refused. As a response it is 401, or what the body's rejection is; the sender is not told which check failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookRejection {
    /// It has no signature, or no usable time or message id.
    #[error(
        "the request is not signed: `webhook-id`, `webhook-timestamp` or `webhook-signature` is missing or malformed"
    )]
    Unsigned,
    /// No secret of ours made its signature.
    #[error(
        "none of the secrets made the request's signature: compare them with the sender's, or somebody forges requests"
    )]
    Forged,
    /// It was signed more than five minutes ago, or is that far ahead.
    #[error(
        "the request's signature is more than five minutes old, or ahead: synchronise the clocks, or somebody plays it again"
    )]
    Old,
    /// Its body cannot be read, or is larger than axum's
    /// [limit](https://docs.rs/axum/latest/axum/extract/struct.DefaultBodyLimit.html).
    #[error(transparent)]
    Body(BytesRejection),
}

impl IntoResponse for WebhookRejection {
    fn into_response(self) -> Response {
        match self {
            Self::Unsigned | Self::Forged | Self::Old => StatusCode::UNAUTHORIZED.into_response(),
            Self::Body(rejection) => rejection.into_response(),
        }
    }
}
