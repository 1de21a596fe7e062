//! Pieces of several pages.

pub(crate) mod act;
pub(crate) mod filter;
pub(crate) mod payload;
pub(crate) mod plot;
pub(crate) mod time;

use diesel_outbox::admin::FailedAttempt;
use maud::{Markup, html};

use crate::limits::ERROR_CHARS_SHOWN_MAX;
use crate::visit::{Link, Visit};

/// A link to the next page, if there is one.
pub(crate) fn next(link: Option<Link>) -> Markup {
    html! {
        @if let Some(link) = link { p { a rel="next" href=(link) { "Next page" } } }
    }
}

/// A key, or that there is none.
pub(crate) fn key(key: Option<&str>) -> Markup {
    html! {
        @match key {
            Some(key) => code { (key) },
            None => span.none { "no key" },
        }
    }
}

/// The last failure, cut for a table.
pub(crate) fn last_error(note: Option<&FailedAttempt>) -> Markup {
    html! {
        @if let Some(note) = note { span.mono { (note.class) ": " (cut(&note.error)) } }
    }
}

/// The beginning of a text.
pub(crate) fn cut(text: &str) -> String {
    let mut chars = text.chars();
    let mut beginning: String = chars.by_ref().take(ERROR_CHARS_SHOWN_MAX).collect();
    if chars.next().is_some() {
        beginning.push('…');
    }
    beginning
}

/// A link to a message's page.
pub(crate) fn message_link(visit: &Visit, id: impl ToString, row: Option<i64>) -> Markup {
    let id = id.to_string();
    let link = visit.to("/message").with("id", &id).with_some("row", row.map(|row| row.to_string()));
    html! { a.mono href=(link) { (id) } }
}
