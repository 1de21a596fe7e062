use axum::extract::{Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use std::time::SystemTime;
use uuid::Uuid;

use super::Answer;
use super::dead_letters::Asked as FilterAsked;
use super::layout::{Refresh, page};
use super::parts::act::{Kind, button, hidden, reason};
use crate::access::Right;
use crate::failure::Failure;
use crate::limits::PREVIEWED_MAX;
use crate::state::Shared;
use crate::visit::Visit;

#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    act: String,
    #[serde(flatten)]
    filter: FilterAsked,
}

/// A bulk act, as its preview shows it.
struct Act {
    name: &'static str,
    route: &'static str,
    right: Right,
    title: &'static str,
    kind: Kind,
}

const ACTS: [Act; 3] = [
    Act {
        name: "redrive",
        route: "/dead-letters/redrive",
        right: Right::Redrive,
        title: "Redrive dead letters",
        kind: Kind::Usual,
    },
    Act {
        name: "canary",
        route: "/dead-letters/canary",
        right: Right::Redrive,
        title: "Redrive dead letters, a few first",
        kind: Kind::Usual,
    },
    Act {
        name: "purge",
        route: "/dead-letters/purge",
        right: Right::Purge,
        title: "Delete dead letters",
        kind: Kind::Final,
    },
];

/// Counts what an act would change, and asks for a confirmation. The act is then limited to what was dead at the time of the count.
pub(crate) async fn show(visit: Visit, State(shared): State<Shared>, asked: Query<Asked>) -> Answer {
    let act =
        ACTS.iter().find(|act| act.name == asked.act).ok_or_else(|| Failure::bad("There is no such bulk act."))?;
    if !visit.may(act.right) {
        return Err(Failure::new(
            axum::http::StatusCode::FORBIDDEN,
            "Not allowed",
            format!("This needs the right \"{}\".", act.right),
        ));
    }
    let counted_at = shared.reader().now().await?;
    let filter = asked.filter.filter()?;
    let (total, groups) = shared.reader().group_dead_letters(&filter, PREVIEWED_MAX).await?;
    let content = html! {
        @if total.count == 0 && !total.more { p { "Nothing matches, so there is nothing to do." } }
        @else {
            p { "This concerns " strong { (total) " dead letters" } ": " (asked.filter.in_words()) "." }
            ul { @for group in &groups { li { (group.count) " of " (group.topic) ", " (group.reason.as_str()) @if let Some(class) = &group.class { ", " (class) } } } }
            (confirmation(&visit, act, &asked.filter, counted_at))
        }
    };
    Ok(page(&visit, act.title, Refresh::Never, content))
}

fn confirmation(visit: &Visit, act: &Act, filter: &FilterAsked, counted_at: SystemTime) -> Markup {
    // A second click, or a page that is loaded again, asks for the same job, which exists then.
    let job = Uuid::now_v7().to_string();
    let counted_at = counted_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros().to_string();
    html! {
        form method="post" action=(visit.to(act.route)) {
            (hidden(&filter.fields()))
            (hidden(&[("job", &job), ("counted_at", &counted_at)]))
            @if act.name == "redrive" {
                p { label { "At most per second" input type="number" name="per_second" value="100" min="1" max="10000" required; } }
            }
            @if act.name == "canary" {
                p { "It redrives 1, then 10, then 100, then the rest. Each step waits until its messages are sent. It halts when one dies again." }
            }
            @if act.kind == Kind::Final {
                p { label.line { input type="checkbox" name="confirm" value="yes" required; "Delete them for good. This cannot be undone." } }
            }
            p { (reason()) }
            p { (button(act.title, act.kind)) }
        }
    }
}
