//! What is around every page.

use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use crate::access::Right;
use crate::assets;
use crate::failure::Failure;
use crate::visit::Visit;

/// The menu: routes with their names, and the right without which an entry is left out.
const MENU: &[(&str, &str, Right)] = &[
    ("/overview", "Overview", Right::View),
    ("/topics", "Topics", Right::View),
    ("/lanes", "Lanes", Right::View),
    ("/messages", "Messages", Right::View),
    ("/calendar", "Calendar", Right::View),
    ("/dead-letters", "Dead letters", Right::View),
    ("/history", "History", Right::View),
    ("/parked", "Parked records", Right::View),
    ("/jobs", "Bulk acts", Right::View),
    ("/verify", "Verify", Right::View),
    ("/audit", "Audit", Right::Audit),
];

/// How a page is refreshed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// Not at all: somebody writes in it.
    Never,
    /// By the event stream.
    ByEvents,
    /// By the event stream, and without JavaScript by the browser: something is under way.
    Always,
}

pub(crate) fn page(visit: &Visit, title: &str, refresh: Refresh, content: Markup) -> Response {
    let live = refresh != Refresh::Never;
    let body = html! {
        @if let Some(done) = visit.done { p.notice role="status" { (done) } }
        h1 { (title) }
        (content)
    };
    document(visit, title, refresh == Refresh::Always, html! { main #content data-live[live] { (body) } })
}

/// A failure as a page, with its status.
pub(crate) fn failure(visit: &Visit, failure: Failure) -> Response {
    let content = html! {
        main #content {
            h1 { (failure.title) }
            p.problem role="alert" { (failure.text) }
            p { a href=(visit.to("/overview")) { "To the overview" } }
        }
    };
    (failure.status, document(visit, failure.title, false, content)).into_response()
}

fn document(visit: &Visit, title: &str, refreshes: bool, main: Markup) -> Response {
    let asset = |path| visit.to(path).with("v", format!("{:x}", assets::VERSION));
    let text = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " - outbox" }
                link rel="icon" href=(asset(assets::ICON)) type="image/svg+xml";
                link rel="stylesheet" href=(asset(assets::STYLE));
                @if refreshes { noscript { meta http-equiv="refresh" content="2"; } }
                script src=(asset(assets::SCRIPT)) defer {}
            }
            body data-events=(visit.to("/events")) {
                a.skip href="#content" { "To the content" }
                (header(visit))
                (main)
            }
        }
    };
    Html(text.into_string()).into_response()
}

fn header(visit: &Visit) -> Markup {
    html! {
        header {
            strong { "Outbox" }
            nav aria-label="Pages" {
                ul {
                    @for (route, name, _) in MENU.iter().filter(|(_, _, right)| visit.may(*right)) {
                        li { a href=(visit.to(route)) aria-current=[(*route == visit.route).then_some("page")] { (name) } }
                    }
                }
            }
            span.who { (visit.access.actor) }
        }
    }
}
