use std::time::SystemTime;

use axum::extract::{Query, State};
use diesel_outbox::admin::{AdminError, Cursor, Page, SentMessage, UnprocessedFilter};
use maud::{Markup, html};
use serde::Deserialize;

use super::Answer;
use super::layout::{Refresh, page};
use super::parts::filter::{choice, given, text};
use super::parts::time::instant;
use super::parts::{key, message_link, next};
use crate::limits::{PAGE_ROWS, SENT_COUNTED_MAX};
use crate::state::Shared;
use crate::visit::Visit;

#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    topic: Option<String>,
    key: Option<String>,
    after: Option<String>,
}

/// By id, by key, or without a key what no consumer has confirmed.
pub(crate) async fn show(visit: Visit, State(shared): State<Shared>, asked: Query<Asked>) -> Answer {
    let topics = shared.topics().await?;
    let kept: Vec<&str> = topics.iter().filter(|topic| topic.keeps_sent).map(|topic| &*topic.name).collect();
    let Some(topic) = given(&asked.topic).or(kept.first().copied()) else {
        let nothing =
            html! { p.quiet { "No topic keeps its sent messages. " code { "Topic::keep_sent_days" } " does that." } };
        return Ok(page(&visit, "History", Refresh::Never, nothing));
    };
    let after = given(&asked.after).map(Cursor::from);
    let admin = shared.reader();
    let count = admin.count_sent(topic, SENT_COUNTED_MAX).await?;
    let found = match given(&asked.key) {
        Some(key) => Some(admin.sent_of_key(topic, key, after.as_ref(), PAGE_ROWS).await?),
        None => match admin.unprocessed(&UnprocessedFilter::of(topic), after.as_ref(), PAGE_ROWS).await {
            Err(AdminError::ReportsNotExpected { .. }) => None,
            found => Some(found?),
        },
    };
    let now = admin.now().await?;
    let at_least =
        |count: usize| if count >= SENT_COUNTED_MAX { format!("at least {count}") } else { count.to_string() };
    let content = html! {
        (form(&visit, &asked, &kept, topic))
        p { (at_least(count.sent)) " sent messages are kept, " (at_least(count.unprocessed)) " of them are not confirmed." }
        @match (given(&asked.key), &found) {
            (Some(key), Some(found)) => { h2 { "Key " code { (key) } } (table(&visit, found, now)) },
            (_, Some(found)) => { h2 { "Not confirmed by a consumer in time" } (table(&visit, found, now)) },
            (_, None) => p.quiet { "Search by key or by id. Consumers of this topic do not confirm what they have processed." },
        }
        @if let Some(cursor) = found.as_ref().and_then(|found| found.next.as_ref()) {
            @let link = visit.to("/history").with("topic", topic).with_some("key", given(&asked.key)).with("after", cursor.to_string());
            (next(Some(link)))
        }
    };
    Ok(page(&visit, "History", Refresh::ByEvents, content))
}

fn form(visit: &Visit, asked: &Asked, kept: &[&str], topic: &str) -> Markup {
    html! {
        form.filter method="get" action=(visit.to("/history")) {
            (choice("Topic", "topic", None, kept.iter().map(|name| (*name, *name)), Some(topic)))
            (text("Key", "key", given(&asked.key)))
            button.plain { "Search" }
        }
        form.filter method="get" action=(visit.to("/message")) {
            (text("Message id", "id", None))
            button.plain { "Open" }
        }
    }
}

fn table(visit: &Visit, found: &Page<SentMessage>, now: SystemTime) -> Markup {
    html! {
        @if found.items.is_empty() { p.quiet { "Nothing matches." } } @else {
            table.stack {
                thead { tr { th { "Message" } th { "Key" } th { "Kind" } th { "Sent" } th { "Processed" } } }
                tbody {
                    @for message in &found.items {
                        tr {
                            td data-label="Message" { (message_link(visit, message.message_id, None)) }
                            td data-label="Key" { (key(message.key.as_deref())) }
                            td data-label="Kind" { (message.kind) }
                            td data-label="Sent" { (instant(message.sent_at, now)) }
                            td data-label="Processed" {
                                @match message.processed_at {
                                    Some(at) => (instant(at, now)),
                                    None if message.awaits_processing => span.warn { "not confirmed" },
                                    None => "-",
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
