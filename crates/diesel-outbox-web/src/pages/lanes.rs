use std::collections::BTreeMap;

use axum::extract::{Query, State};
use diesel_outbox::admin::{BlockedKey, Cursor, Page};
use diesel_outbox::relay::LaneStatus;
use maud::{Markup, html};
use serde::Deserialize;

use super::Answer;
use super::layout::{Refresh, page};
use super::parts::filter::{choice, given};
use super::parts::{key, last_error, message_link, next};
use crate::limits::PAGE_BLOCKED_KEYS;
use crate::state::Shared;
use crate::visit::Visit;

#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    topic: Option<String>,
    after: Option<String>,
}

pub(crate) async fn show(visit: Visit, State(shared): State<Shared>, asked: Query<Asked>) -> Answer {
    let topics = shared.topics().await?;
    let ordered: Vec<&str> = topics.iter().filter(|topic| topic.is_ordered).map(|topic| &*topic.name).collect();
    let Some(topic) = given(&asked.topic).or(ordered.first().copied()) else {
        let nothing = html! { p.quiet { "No topic is ordered by key, so there are no lanes." } };
        return Ok(page(&visit, "Lanes", Refresh::Never, nothing));
    };
    let after = given(&asked.after).map(Cursor::from);
    let lanes = shared.reader().lanes(topic).await?;
    let blocked = shared.reader().blocked_keys(topic, after.as_ref(), PAGE_BLOCKED_KEYS).await?;
    let names = ordered.iter().map(|name| (*name, *name));
    let content = html! {
        form.filter method="get" action=(visit.to("/lanes")) {
            (choice("Topic", "topic", None, names, Some(topic)))
            button.plain { "Show" }
        }
        h2 { "Lanes of " code { (topic) } }
        (owners(&lanes))
        h2 { "Blocked keys" }
        (blocked_keys(&visit, topic, &blocked))
    };
    Ok(page(&visit, "Lanes", Refresh::ByEvents, content))
}

fn owners(lanes: &[LaneStatus]) -> Markup {
    let mut by_owner: BTreeMap<Option<String>, Vec<u16>> = BTreeMap::new();
    for lane in lanes {
        by_owner.entry(lane.owner.map(|owner| owner.to_string())).or_default().push(lane.lane);
    }
    html! {
        @if lanes.is_empty() { p.quiet { "None: no relay has started with this topic yet." } }
        @for (owner, lanes) in &by_owner {
            @match owner {
                Some(owner) => p { "Node " code { (owner) } " owns " (lanes.len()) ":" },
                None => p.warn { (lanes.len()) " have no owner: a relay takes them soon, if one runs." },
            }
            ul.lanes { @for lane in lanes { li.free[owner.is_none()] { (lane) } } }
        }
    }
}

fn blocked_keys(visit: &Visit, topic: &str, page: &Page<BlockedKey>) -> Markup {
    let more = page.next.as_ref().map(|next| visit.to("/lanes").with("topic", topic).with("after", next.to_string()));
    html! {
        @if page.items.is_empty() {
            p.quiet { @if more.is_some() { "None on this page; there are more rows to look through." } @else { "None." } }
        } @else {
            p.quiet { "The owner of the lane retries them by itself. To retry all at once, pause the topic and resume it." }
            table.stack {
                thead { tr { th { "Key" } th.number { "Lane" } th { "Waits for" } th.number { "Failures" } th { "Last failure" } th.number { "Behind it" } } }
                tbody {
                    @for blocked in &page.items {
                        @let head = &blocked.head;
                        tr {
                            td data-label="Key" { (key(head.key.as_deref())) }
                            td.number data-label="Lane" { (head.lane.unwrap_or_default()) }
                            td data-label="Waits for" { (message_link(visit, head.message_id, Some(head.id))) }
                            td.number data-label="Failures" { (head.failures) }
                            td data-label="Last failure" { (last_error(head.last_error())) }
                            td.number data-label="Behind it" { (blocked.behind) }
                        }
                    }
                }
            }
        }
        (next(more))
    }
}
