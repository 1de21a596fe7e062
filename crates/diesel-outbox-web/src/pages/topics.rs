use axum::extract::State;
use diesel_outbox::admin::PausedTopic;
use maud::{Markup, html};

use super::Answer;
use super::layout::{Refresh, page};
use super::parts::act::{self, Kind};
use super::parts::time::{duration, instant};
use crate::access::Right;
use crate::state::Shared;
use crate::visit::Visit;

pub(crate) async fn show(visit: Visit, State(shared): State<Shared>) -> Answer {
    let admin = shared.reader();
    let (backlog, paused, now) = (admin.backlog().await?, admin.paused().await?, admin.now().await?);
    let statuses = shared.statuses();
    let is_refused =
        |name: &str| statuses.iter().any(|status| status.refused_topics.iter().any(|topic| **topic == *name));
    let configured = |name: &str| shared.outbox.topics().iter().find(|topic| topic.name() == name);
    let content = html! {
        table.stack {
            thead {
                tr {
                    th { "Topic" } th { "Order" } th { "Transport" } th.number { "Live" } th.number { "Due" } th.number { "Oldest due" }
                    th.number { "Dead letters" } th { "State" } th { "Acts" }
                }
            }
            tbody {
                @for of in &backlog.topics {
                    @let topic = configured(&of.topic);
                    @let pause = paused.iter().find(|paused| paused.topic == of.topic);
                    tr {
                        td data-label="Topic" { a href=(visit.to("/messages").with("topic", &of.topic)) { (of.topic) } }
                        td data-label="Order" {
                            @match topic {
                                Some(topic) if topic.is_ordered() => a href=(visit.to("/lanes").with("topic", &of.topic)) { "by key" },
                                Some(_) => "none",
                                None => span.warn { "not configured here" },
                            }
                        }
                        td data-label="Transport" { @if let Some(topic) = topic { (topic.transport_name()) } }
                        td.number data-label="Live" { (of.live) }
                        td.number data-label="Due" { (of.due) }
                        td.number data-label="Oldest due" { @if of.overdue_by.is_zero() { "-" } @else { (duration(of.overdue_by)) } }
                        td.number data-label="Dead letters" { a href=(visit.to("/dead-letters").with("topic", &of.topic)) { (of.dead) } }
                        td data-label="State" {
                            @if let Some(pause) = pause { span.warn { "paused" } " since " (instant(pause.since, now)) }
                            @else if is_refused(&of.topic) { span.bad { "refused by the broker" } }
                            @else { span.good { "active" } }
                        }
                        td data-label="Acts" { (acts(&visit, &of.topic, pause, topic.is_some())) }
                    }
                }
            }
        }
        p.quiet { "Counts stop at " (backlog.count_max) "." }
    };
    Ok(page(&visit, "Topics", Refresh::ByEvents, content))
}

/// A paused topic can be resumed even if it is no longer configured.
fn acts(visit: &Visit, topic: &str, paused: Option<&PausedTopic>, is_configured: bool) -> Markup {
    let fields = [("topic", topic)];
    html! {
        @if visit.may(Right::Pause) {
            @if paused.is_some() { (act::form("Resume", Kind::Usual, &visit.to("/topics/resume"), &fields)) }
            @else if is_configured { (act::form("Pause", Kind::Usual, &visit.to("/topics/pause"), &fields)) }
        }
    }
}
