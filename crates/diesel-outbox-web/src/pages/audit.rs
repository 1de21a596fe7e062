use std::time::SystemTime;

use axum::extract::{Query, State};
use diesel_outbox::admin::{AuditEntry, AuditFilter, Cursor};
use maud::{Markup, html};
use serde::Deserialize;

use super::Answer;
use super::layout::{Refresh, page};
use super::message::parse_id;
use super::parts::filter::{given, text, time};
use super::parts::time::{instant, parse};
use super::parts::{message_link, next};
use crate::failure::Failure;
use crate::limits::PAGE_ROWS;
use crate::state::Shared;
use crate::visit::{Link, Visit};

#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    actor: Option<String>,
    action: Option<String>,
    message: Option<String>,
    from: Option<String>,
    before: Option<String>,
    after: Option<String>,
}

impl Asked {
    fn filter(&self) -> Result<AuditFilter, Failure> {
        let mut filter = AuditFilter::new();
        if let Some(actor) = given(&self.actor) {
            filter = filter.actor(actor);
        }
        if let Some(action) = given(&self.action) {
            filter = filter.action(action);
        }
        if let Some(message) = given(&self.message) {
            filter = filter.message_id(parse_id(message)?);
        }
        let time = |text: &str| {
            parse(text).ok_or_else(|| Failure::bad(format!("{text:?} is no time: write 2027-01-31T14:30.")))
        };
        if let Some(from) = given(&self.from) {
            filter = filter.began_from(time(from)?);
        }
        if let Some(before) = given(&self.before) {
            filter = filter.began_before(time(before)?);
        }
        Ok(filter)
    }

    fn link(&self, visit: &Visit) -> Link {
        let fields = [
            ("actor", &self.actor),
            ("action", &self.action),
            ("message", &self.message),
            ("from", &self.from),
            ("before", &self.before),
        ];
        fields.into_iter().fold(visit.to("/audit"), |link, (name, value)| link.with_some(name, given(value)))
    }
}

pub(crate) async fn show(visit: Visit, State(shared): State<Shared>, asked: Query<Asked>) -> Answer {
    let after = given(&asked.after).map(Cursor::from);
    let found = shared.reader().audit(&asked.filter()?, after.as_ref(), PAGE_ROWS).await?;
    let now = shared.reader().now().await?;
    let more = found.next.map(|next| asked.link(&visit).with("after", next.to_string()));
    let content = html! {
        form.filter method="get" action=(visit.to("/audit")) {
            (text("Actor", "actor", given(&asked.actor)))
            (text("Act", "action", given(&asked.action)))
            (text("Message id", "message", given(&asked.message)))
            (time("From", "from", given(&asked.from)))
            (time("Before", "before", given(&asked.before)))
            button.plain { "Search" }
        }
        @if found.items.is_empty() { p.quiet { "Nothing matches." } } @else { (table(&visit, &found.items, now)) }
        (next(more))
    };
    Ok(page(&visit, "Audit", Refresh::ByEvents, content))
}

fn table(visit: &Visit, entries: &[AuditEntry], now: SystemTime) -> Markup {
    html! {
        table.stack {
            thead { tr { th { "Begun" } th { "Actor" } th { "Act" } th { "On" } th.number { "Changed" } th { "Ended" } th { "Reason" } } }
            tbody {
                @for entry in entries {
                    tr {
                        td data-label="Begun" { (instant(entry.began_at, now)) }
                        td data-label="Actor" { @if let Some(actor) = &entry.actor { (actor) } @else { span.none { "nobody named" } } }
                        td.mono data-label="Act" { (entry.action) }
                        td data-label="On" {
                            @if let Some(id) = entry.message_id { (message_link(visit, id, None)) " " }
                            @if let Some(filter) = &entry.filter { code { (filter) } }
                        }
                        td.number data-label="Changed" { (entry.changed) }
                        td data-label="Ended" {
                            @match entry.ended_at {
                                Some(at) => (instant(at, now)),
                                None => span.warn { "not ended: it runs, was stopped, or failed" },
                            }
                        }
                        td data-label="Reason" { @if let Some(reason) = &entry.reason { (reason) } }
                    }
                }
            }
        }
    }
}
