//! What a visitor is told instead of a page.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use diesel_outbox::admin::AdminError;
use maud::{DOCTYPE, html};

/// An answer that is no page. The guard puts it into the layout of its visitor.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) title: &'static str,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, title: &'static str, text: impl Into<String>) -> Self {
        Self { status, title, text: text.into() }
    }

    /// The request cannot be understood.
    pub(crate) fn bad(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Not understood", text)
    }

    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not found", text)
    }

    /// Somebody else was faster, or the message is in another state.
    pub(crate) fn conflict(text: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "Not done", text)
    }

    pub(crate) fn busy() -> Self {
        let text =
            "All connections of the dashboard are in use: the database is slow, or many pages are open. Try again.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Busy", text)
    }
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Self {
        let text = error.to_string();
        match error {
            AdminError::Store(_) | AdminError::Unsupported => {
                tracing::warn!(error = text, "the dashboard could not answer a request");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "The database did not answer", text)
            }
            AdminError::NotLive { .. }
            | AdminError::NotDeadLetter { .. }
            | AdminError::NotInHistory { .. }
            | AdminError::NotParked { .. }
            | AdminError::NoSuchConsumer { .. }
            | AdminError::NotFound { .. }
            | AdminError::UnknownTopic { .. }
            | AdminError::NoSuchTopic { .. } => Self::not_found(text),
            AdminError::Refused(_) | AdminError::DelayedRedrive { .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Refused", text)
            }
            AdminError::ImpossibleFilter | AdminError::ZeroRate | AdminError::EmptyStep | AdminError::EmptyPage => {
                Self::bad(text)
            }
            // The error speaks to the programmer of the list.
            AdminError::WrongCursor { .. } => Self::bad("This is no page of this list: begin with its first page."),
            _ => Self::conflict(text),
        }
    }
}

/// Without the layout, for whoever has no access to it.
impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head { meta charset="utf-8"; title { (self.title) } }
                body { h1 { (self.title) } p { (self.text) } }
            }
        };
        let mut response = (self.status, Html(page.into_string())).into_response();
        response.extensions_mut().insert(self);
        response
    }
}
