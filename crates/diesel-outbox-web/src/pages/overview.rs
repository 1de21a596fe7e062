use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use diesel_outbox::relay::{Backlog, RelayHealth, RelayState, RelayStatus, StoreStatus, TransportStatus};
use maud::{Markup, html};

use super::Answer;
use super::layout::{Refresh, page};
use super::parts::plot::{line, number};
use super::parts::time::duration;
use crate::samples::{Counted, Sample, rates};
use crate::state::Shared;
use crate::stream::sampler;
use crate::visit::Visit;

/// The prefix itself leads here.
pub(crate) async fn redirect(visit: Visit) -> Response {
    Redirect::to(&visit.to("/overview").to_string()).into_response()
}

pub(crate) async fn show(visit: Visit, State(shared): State<Shared>) -> Answer {
    sampler::start(&shared);
    let backlog = shared.reader().backlog().await?;
    let paused = shared.reader().paused().await?;
    let (statuses, samples) = (shared.statuses(), shared.samples.all());
    let content = html! {
        @for relay in &shared.relays { (problems(&relay.health())) }
        @for (topic, _) in &paused { p.warn { "The topic " code { (topic) } " is paused." } }
        (plots(&samples, &backlog, !statuses.is_empty()))
        h2 { "Topics" }
        (topics(&visit, &backlog))
        h2 { "Relays of this process" }
        (relays(&statuses))
        h2 { "Owners of lanes" }
        (owners(&statuses))
    };
    Ok(page(&visit, "Overview", Refresh::ByEvents, content))
}

fn problems(health: &RelayHealth) -> Markup {
    html! {
        @for problem in &health.problems { p.problem { (problem) } }
    }
}

fn plots(samples: &[Sample], backlog: &Backlog, has_relays: bool) -> Markup {
    let overdue = backlog.topics.iter().map(|topic| topic.overdue_by).max().unwrap_or(Duration::ZERO);
    let now = Counted { live: backlog.live(), due: backlog.due(), dead: backlog.dead_letters(), overdue };
    let counted = |of: fn(&Counted) -> f64| {
        let before = samples.iter().map(|sample| sample.backlog.as_ref().map(of));
        before.chain([Some(of(&now))]).collect::<Vec<_>>()
    };
    let rate = |title, total: fn(&Sample) -> u64| {
        let rates = rates(samples, total);
        let last = rates.last().copied().flatten();
        let last = last.map_or("-".to_owned(), |rate| format!("{}/s", number(rate)));
        line(title, "per second", &rates, &last)
    };
    let [live, due, dead] = [now.live, now.due, now.dead].map(|count| count.to_string());
    html! {
        div.plots {
            @if has_relays {
                (rate("Delivered", |sample| sample.delivered))
                (rate("Failed sends", |sample| sample.failed))
            }
            (line("Live messages", "messages", &counted(|backlog| backlog.live as f64), &live))
            (line("Due", "messages", &counted(|backlog| backlog.due as f64), &due))
            (line("Oldest due", "seconds", &counted(|backlog| backlog.overdue.as_secs_f64()), &duration(overdue)))
            (line("Dead letters", "messages", &counted(|backlog| backlog.dead as f64), &dead))
        }
    }
}

fn topics(visit: &Visit, backlog: &Backlog) -> Markup {
    let at_least =
        |count: usize| if count >= backlog.count_max { format!("{count} or more") } else { count.to_string() };
    html! {
        table.stack {
            thead { tr { th { "Topic" } th.number { "Live" } th.number { "Due" } th.number { "Oldest due" } th.number { "Dead letters" } } }
            tbody {
                @for topic in &backlog.topics {
                    tr {
                        td data-label="Topic" { a href=(visit.to("/messages").with("topic", &topic.topic)) { (topic.topic) } }
                        td.number data-label="Live" { (at_least(topic.live)) }
                        td.number data-label="Due" { (at_least(topic.due)) }
                        td.number data-label="Oldest due" { @if topic.overdue_by.is_zero() { "-" } @else { (duration(topic.overdue_by)) } }
                        td.number data-label="Dead letters" {
                            a href=(visit.to("/dead-letters").with("topic", &topic.topic)) { (at_least(topic.dead)) }
                        }
                    }
                }
            }
        }
    }
}

fn relays(statuses: &[RelayStatus]) -> Markup {
    html! {
        @if statuses.is_empty() { p.quiet { "None is shown here. Rates are those of the relays of this process." } }
        @for status in statuses {
            p { "Node " code { (status.node) } ": " (state(&status.state)) ", database " (store(&status.store)) }
            table.stack {
                thead { tr { th { "Transport" } th { "Breaker" } th.number { "Queued" } th.number { "In flight" } } }
                tbody {
                    @for route in &status.transports {
                        tr {
                            td data-label="Transport" { (route.name) }
                            td data-label="Breaker" { (transport(&route.status)) }
                            td.number data-label="Queued" { (route.queued) }
                            td.number data-label="In flight" { (route.in_flight) }
                        }
                    }
                }
            }
            @for topic in &status.refused_topics { p.problem { "The broker refuses the topic " code { (topic) } "." } }
            @for topic in &status.asleep_topics { p.warn { "The relay leaves the lanes of " code { (topic) } " to others." } }
            @for task in &status.failing_tasks { p.problem { "The task " code { (task) } " fails." } }
        }
    }
}

fn state(state: &RelayState) -> Markup {
    match state {
        RelayState::Running => html! { span.good { "running" } },
        RelayState::Stalled { since } => html! { span.bad { "stalled for " (duration(*since)) } },
        RelayState::ShuttingDown => html! { span.warn { "shutting down" } },
        RelayState::RuntimeGone => html! { span.bad { "its runtime has ended" } },
        _ => html! { span.bad { "ended" } },
    }
}

fn store(store: &StoreStatus) -> Markup {
    match store {
        StoreStatus::Down { error, since } => html! { span.bad { "down for " (duration(*since)) ": " (error) } },
        _ => html! { span.good { "up" } },
    }
}

fn transport(transport: &TransportStatus) -> Markup {
    match transport {
        TransportStatus::Up => html! { span.good { "closed: the broker answers" } },
        TransportStatus::Down { class, error, since } => {
            html! { span.bad { "open for " (duration(*since)) ", " (class.as_str()) ": " (error) } }
        }
        _ => html! { span.warn { "half open: one message at a time" } },
    }
}

/// How many lanes of each topic each node owns.
fn owners(statuses: &[RelayStatus]) -> Markup {
    let mut lanes: BTreeMap<(String, String), usize> = BTreeMap::new();
    for lane in statuses.first().iter().flat_map(|status| &status.lanes) {
        let owner = lane.owner.map_or("nobody".to_owned(), |owner| owner.to_string());
        *lanes.entry((lane.topic.to_string(), owner)).or_default() += 1;
    }
    html! {
        @if lanes.is_empty() { p.quiet { "No relay of this process has ordered topics." } } @else {
            table.stack {
                thead { tr { th { "Topic" } th { "Node" } th.number { "Lanes" } } }
                tbody {
                    @for ((topic, owner), count) in &lanes {
                        tr { td data-label="Topic" { (topic) } td.mono data-label="Node" { (owner) } td.number data-label="Lanes" { (count) } }
                    }
                }
            }
        }
    }
}
