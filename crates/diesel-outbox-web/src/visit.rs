//! One request's visitor, and links within the dashboard.

use std::fmt;
use std::sync::Arc;

use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect, Response};

use crate::access::{Access, Right};
use crate::failure::Failure;

/// Who asks, and where the dashboard is for them.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    pub(crate) access: Access,
    /// The path under which the browser sees the dashboard, without a slash at its end.
    prefix: Arc<str>,
    /// The path of the route.
    pub(crate) route: &'static str,
    /// What was done just now, to be said above the page.
    pub(crate) done: Option<&'static str>,
}

impl Visit {
    pub(crate) fn new(access: Access, prefix: Option<Arc<str>>, parts: &Parts, route: &'static str) -> Self {
        let prefix = prefix.unwrap_or_else(|| nested_at(parts).into());
        let query = parts.uri.query().unwrap_or_default();
        let done = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "done");
        let done = done.and_then(|(_, code)| DONE.iter().find(|(known, _)| *known == code)).map(|(_, text)| *text);
        Self { access, prefix, route, done }
    }

    pub(crate) fn may(&self, right: Right) -> bool {
        self.access.rights.has(right)
    }

    /// A link to a route.
    pub(crate) fn to(&self, route: &str) -> Link {
        Link(format!("{}{route}", self.prefix))
    }

    /// The way on after a change: a page that can be loaded again without doing it again. `done` says what was done, by its name in
    /// [`DONE`]: no text of a URL is ever shown.
    pub(crate) fn go(&self, to: Link, done: &'static str) -> Response {
        debug_assert!(DONE.iter().any(|(known, _)| *known == done), "{done}");
        Redirect::to(&to.with("done", done).to_string()).into_response()
    }
}

/// What was done.
const DONE: &[(&str, &str)] = &[
    ("paused", "The topic is paused. Relays follow within a second or two."),
    ("resumed", "The topic is resumed. Relays follow within a second or two."),
    ("due", "The message is due: a relay sends it now."),
    ("soon", "Nothing was changed: the message is due, or is being tried, within half a minute anyway."),
    ("cancelled", "The message is cancelled, and will not be sent."),
    ("redriven", "The dead letter is redriven: a relay sends it now."),
    ("edited", "The edited message replaces the dead letter, under this new id."),
    ("purged", "The dead letter is deleted."),
    ("resent", "The message is sent again."),
    ("released", "The record is released: its consumer processes it within a second or two."),
    ("discarded", "The record is discarded: nobody processes it."),
    ("stopped", "The act is stopped. What it has done stays done."),
];

/// Where the application has nested the router, from the path before the router took its prefix away.
fn nested_at(parts: &Parts) -> String {
    let Some(OriginalUri(original)) = parts.extensions.get::<OriginalUri>() else { return String::new() };
    let prefix = original.path().strip_suffix(parts.uri.path());
    // `/outbox` without a slash is the route `/` inside.
    let prefix = prefix.unwrap_or(original.path()).trim_matches('/');
    // Two slashes at the beginning of a link would be another host.
    if prefix.is_empty() { String::new() } else { format!("/{prefix}") }
}

impl<S: Sync> FromRequestParts<S> for Visit {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let visit = parts.extensions.get::<Self>().cloned();
        visit.ok_or_else(|| unreachable!("every route is behind the guard"))
    }
}

/// A link with its query.
#[derive(Debug, Clone)]
pub(crate) struct Link(String);

impl Link {
    pub(crate) fn with(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.0.push(if self.0.contains('?') { '&' } else { '?' });
        self.0.extend(form_urlencoded::byte_serialize(name.as_bytes()));
        self.0.push('=');
        self.0.extend(form_urlencoded::byte_serialize(value.as_ref().as_bytes()));
        self
    }

    /// Only if there is a value.
    pub(crate) fn with_some(self, name: &str, value: Option<impl AsRef<str>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
