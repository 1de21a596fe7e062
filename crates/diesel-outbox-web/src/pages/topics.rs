use axum::extract::State;
use diesel_outbox::admin::TopicStatus;
use maud::{Markup, html};

use super::Answer;
use super::layout::{Refresh, page};
use super::parts::act::{self, Kind};
use super::parts::time::{duration, instant};
use crate::access::Right;
use crate::state::Shared;
use crate::visit::Visit;

pub(crate) async fn show(visit: Visit, State(shared): State<Shared>) -> Answer {
    let (topics, now) = (shared.reader().topics().await?, shared.reader().now().await?);
    let statuses = shared.statuses();
    let is_refused =
        |name: &str| statuses.iter().any(|status| status.refused_topics.iter().any(|topic| **topic == *name));
    let transport = |name: &str| {
        let topic = shared.outbox.topics().iter().find(|topic| topic.name() == name);
        topic.map_or("", |topic| topic.transport_name())
    };
    let content = html! {
        table.stack {
            thead {
                tr {
                    th { "Topic" } th { "Order" } th { "Transport" } th.number { "Live" } th.number { "Due" } th.number { "Oldest due" }
                    th.number { "Dead letters" } th { "State" } th { "Acts" }
                }
            }
            tbody {
                @for of in &topics {
                    tr {
                        td data-label="Topic" { a href=(visit.to("/messages").with("topic", &of.topic)) { (of.topic) } }
                        td data-label="Order" {
                            @if shared.is_configured() && !of.is_configured { span.warn { "not configured here" } }
                            @else if of.lanes.is_some() { a href=(visit.to("/lanes").with("topic", &of.topic)) { "by key" } }
                            @else { "none" }
                        }
                        td data-label="Transport" { (transport(&of.topic)) }
                        td.number data-label="Live" { (of.live) }
                        td.number data-label="Due" { (of.due) }
                        td.number data-label="Oldest due" { @if of.overdue_by.is_zero() { "-" } @else { (duration(of.overdue_by)) } }
                        td.number data-label="Dead letters" { a href=(visit.to("/dead-letters").with("topic", &of.topic)) { (of.dead) } }
                        td data-label="State" {
                            @if let Some(since) = of.paused_since { span.warn { "paused" } " since " (instant(since, now)) }
                            @else if is_refused(&of.topic) { span.bad { "refused by the broker" } }
                            @else { span.good { "active" } }
                        }
                        td data-label="Acts" { (acts(&visit, of, of.is_configured || !shared.is_configured())) }
                    }
                }
            }
        }
    };
    Ok(page(&visit, "Topics", Refresh::ByEvents, content))
}

/// A paused topic can be resumed even if it is no longer configured.
fn acts(visit: &Visit, topic: &TopicStatus, can_be_paused: bool) -> Markup {
    let fields = [("topic", &*topic.topic)];
    html! {
        @if visit.may(Right::Pause) {
            @if topic.paused_since.is_some() { (act::form("Resume", Kind::Usual, &visit.to("/topics/resume"), &fields)) }
            @else if can_be_paused { (act::form("Pause", Kind::Usual, &visit.to("/topics/pause"), &fields)) }
        }
    }
}
