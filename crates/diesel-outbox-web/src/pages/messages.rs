use axum::extract::{Query, State};
use diesel_outbox::admin::{Cursor, LiveCount, LiveFilter, LiveMessage, LiveState, Page};
use maud::{Markup, html};
use serde::Deserialize;
use std::time::SystemTime;

use super::Answer;
use super::layout::{Refresh, page};
use super::parts::filter::{choice, given, text};
use super::parts::time::instant;
use super::parts::{key, last_error, message_link, next};
use crate::access::Right;
use crate::failure::Failure;
use crate::limits::PAGE_ROWS;
use crate::state::Shared;
use crate::topics::{KnownTopic, names};
use crate::visit::{Link, Visit};

#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    topic: Option<String>,
    state: Option<String>,
    key: Option<String>,
    kind: Option<String>,
    header: Option<String>,
    value: Option<String>,
    after: Option<String>,
}

/// The states by their names in a URL, and for people.
const STATES: [(LiveState, &str, &str); 6] = [
    (LiveState::Due, "due", "due"),
    (LiveState::Leased, "leased", "leased"),
    (LiveState::Delayed, "delayed", "delayed"),
    (LiveState::Retrying, "retrying", "retrying"),
    (LiveState::InLane, "in_lane", "in a lane"),
    (LiveState::Blocked, "blocked", "blocked"),
];

pub(crate) fn state_name(state: LiveState) -> &'static str {
    STATES.iter().find(|(of, ..)| *of == state).map_or("unknown", |(_, _, name)| name)
}

pub(crate) async fn show(visit: Visit, State(shared): State<Shared>, asked: Query<Asked>) -> Answer {
    let topics = shared.topics().await?;
    let Some(topic) = given(&asked.topic).or_else(|| names(&topics).next()) else {
        return Err(no_topic());
    };
    let filter = asked.filter(topic, &visit)?;
    let after = given(&asked.after).map(Cursor::from);
    let admin = shared.reader();
    let count = admin.count_live(topic).await?;
    let found = admin.live_messages(&filter, after.as_ref(), PAGE_ROWS).await?;
    let now = admin.now().await?;
    let more = found.next.as_ref().map(|next| asked.link(&visit, topic).with("after", next.to_string()));
    let content = html! {
        (form(&visit, &topics, &asked, topic))
        (counts(&visit, topic, &count))
        (table(&visit, &found, now, more.is_some()))
        (next(more))
    };
    Ok(page(&visit, "Live messages", Refresh::ByEvents, content))
}

impl Asked {
    fn filter(&self, topic: &str, visit: &Visit) -> Result<LiveFilter, Failure> {
        let mut filter = LiveFilter::of(topic);
        if let Some(name) = given(&self.state) {
            let known = STATES.iter().find(|(_, known, _)| *known == name);
            let (state, ..) = known.ok_or_else(|| Failure::bad(format!("There is no state {name:?}.")))?;
            filter = filter.state(*state);
        }
        if let Some(key) = given(&self.key) {
            filter = filter.key(key);
        }
        if let Some(kind) = given(&self.kind) {
            filter = filter.kind(kind);
        }
        match (given(&self.header), given(&self.value)) {
            (None, None) => Ok(filter),
            // Whoever may search for a value can find it out.
            (Some(_), _) | (_, Some(_)) if !visit.may(Right::Payloads) => {
                Err(Failure::bad("Searching by a header's value needs the right \"payloads\"."))
            }
            (Some(name), value) => Ok(filter.header(name, value.unwrap_or_default())),
            (None, Some(_)) => Err(Failure::bad("Give the name of the header, too.")),
        }
    }

    fn link(&self, visit: &Visit, topic: &str) -> Link {
        let fields = [
            ("state", &self.state),
            ("key", &self.key),
            ("kind", &self.kind),
            ("header", &self.header),
            ("value", &self.value),
        ];
        let link = visit.to("/messages").with("topic", topic);
        fields.into_iter().fold(link, |link, (name, value)| link.with_some(name, given(value)))
    }
}

/// The page of a topic, where there is none.
pub(crate) fn no_topic() -> Failure {
    Failure::not_found("No topic is configured, and the tables hold nothing of any.")
}

fn form(visit: &Visit, topics: &[KnownTopic], asked: &Asked, topic: &str) -> Markup {
    // A topic that is no longer configured may have messages, too.
    let mut names: Vec<&str> = names(topics).collect();
    if !names.contains(&topic) {
        names.push(topic);
    }
    html! {
        form.filter method="get" action=(visit.to("/messages")) {
            (choice("Topic", "topic", None, names.into_iter().map(|name| (name, name)), Some(topic)))
            (choice("State", "state", Some("any"), STATES.map(|(_, name, text)| (name, text)), given(&asked.state)))
            (text("Key", "key", given(&asked.key)))
            (text("Kind", "kind", given(&asked.kind)))
            @if visit.may(Right::Payloads) {
                (text("Header", "header", given(&asked.header)))
                (text("Its value", "value", given(&asked.value)))
            }
            button.plain { "Search" }
        }
        form.filter method="get" action=(visit.to("/message")) {
            (text("Message id", "id", None))
            button.plain { "Open" }
        }
    }
}

fn counts(visit: &Visit, topic: &str, count: &LiveCount) -> Markup {
    let counts = [
        ("due", count.due),
        ("leased", count.leased),
        ("delayed", count.delayed),
        ("retrying", count.retrying),
        ("in_lane", count.in_lanes),
    ];
    html! {
        p.acts {
            @for (state, count) in counts {
                a href=(visit.to("/messages").with("topic", topic).with("state", state)) { (state.replace('_', " ")) ": " (count) } " "
            }
            a href=(visit.to("/calendar").with("topic", topic)) { "what is due when" }
        }
    }
}

fn table(visit: &Visit, found: &Page<LiveMessage>, now: SystemTime, has_more: bool) -> Markup {
    html! {
        @if found.items.is_empty() {
            p.quiet { @if has_more { "None on this page; there are more rows to look through." } @else { "Nothing matches." } }
        } @else {
            table.stack {
                thead { tr { th { "Message" } th { "Key" } th { "Kind" } th { "State" } th { "When" } th.number { "Failures" } th { "Last failure" } } }
                tbody {
                    @for message in &found.items {
                        tr {
                            td data-label="Message" { (message_link(visit, message.message_id, Some(message.id))) }
                            td data-label="Key" { (key(message.key.as_deref())) }
                            td data-label="Kind" { (message.kind) }
                            td data-label="State" { (state_name(message.state)) }
                            td data-label="When" { (when(message, now)) }
                            td.number data-label="Failures" { (message.failures) }
                            td data-label="Last failure" { (last_error(message.last_error())) }
                        }
                    }
                }
            }
        }
    }
}

/// When it is due, or since when it waits in its lane.
fn when(message: &LiveMessage, now: SystemTime) -> Markup {
    match message.due_at {
        Some(due_at) => html! { "due " (instant(due_at, now)) },
        None => html! { "enqueued " (instant(message.created_at, now)) },
    }
}
